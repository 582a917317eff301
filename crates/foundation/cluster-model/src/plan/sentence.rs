//! Reasons as sentences for people.

use std::fmt;
use std::sync::Arc;

use super::reason::{NeighbourRefusal, Refusals, WaitReason};
use crate::devices::DeviceAsk;
use crate::names::{GpuType, QueueName};
use crate::near::NearRule;
use crate::objects::ResourceName;

impl fmt::Display for WaitReason {
    #[expect(clippy::too_many_lines, reason = "one sentence for each reason")]
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::MembersMissing { have, want } => write!(f, "{have} of {want} pods exist"),
            Self::Gated { members } => {
                write!(f, "{} held back by a scheduling gate", count(*members, "pod is", "pods are"))
            }
            Self::MembersDisagree { field } => write!(f, "the members of the gang differ in their {field}"),
            Self::Unsupported { fields } => {
                write!(f, "asks for what is not supported yet: {}", fields.join(", "))
            }
            Self::QueueUnknown { queue, child: None } => write!(f, "queue {queue} does not exist"),
            Self::QueueUnknown { queue, child: Some(child) } => {
                write!(f, "queue {queue}, the parent of queue {child}, does not exist")
            }
            Self::QueueNotOpen { queue, namespace } => {
                write!(f, "queue {queue} is not open to namespace {namespace}")
            }
            Self::NoQueue { namespace } => {
                write!(f, "names no queue, and none is open to namespace {namespace}")
            }
            Self::SeveralQueues { namespace, queues } => {
                write!(f, "names no queue, and several are open to namespace {namespace}: {}", join(queues))
            }
            Self::QueueCycle { queue } => write!(f, "queue {queue} is its own ancestor"),
            Self::QueueTooDeep { queue, depth_max } => {
                write!(f, "queue {queue} lies more than {depth_max} levels below its root")
            }
            Self::QuotaExceeded { queue, resource, holds, bound, asks } => {
                let amount = |value: i64| amount(resource, value);
                write!(
                    f,
                    "queue {queue} holds {} of {} {resource}; asks {}",
                    amount(*holds),
                    amount(*bound),
                    amount(*asks)
                )
            }
            Self::NoSuchGpuType { gpu_type: Some(gpu_type) } => {
                write!(f, "no node that takes pods has {gpu_type}")
            }
            Self::NoSuchGpuType { gpu_type: None } => write!(f, "no node that takes pods has GPUs"),
            Self::TooLargeForAnyNode { gpu_type, asks, largest } => {
                write!(f, "asks {asks} {gpu_type} on one node; the largest has {largest}")
            }
            Self::NotEnoughGpus { gpu_type, members_asked, gpus_each, members_that_fit, gpus_free } => {
                let room = room_for(*members_asked, &format!("{gpus_each} free {gpu_type}"));
                write!(f, "{room}; {} ({gpus_free} {gpu_type} free in all)", fit(*members_that_fit))
            }
            Self::NotEnoughCpu { members_asked, cpu_millis_each, members_that_fit } => {
                let what = match cpu_millis_each {
                    0 => "room".to_owned(),
                    cpu => format!("{} free cpu", amount(&ResourceName::Cpu, *cpu)),
                };
                write!(f, "{}; {}", room_for(*members_asked, &what), fit(*members_that_fit))
            }
            Self::NodesRefused { gpu_type, members_asked, members_that_fit, refusals } => {
                let what = gpu_type.as_ref().map_or("cpu", GpuType::as_str);
                write!(
                    f,
                    "nodes with enough free {what} are refused: {refusals}; needs {members_asked}, {}",
                    fit(*members_that_fit)
                )
            }
            Self::NoRoomTogether { level, domain, members_asked, members_that_fit } => match domain {
                Some(domain) => write!(
                    f,
                    "must lie together; the best domain of level {} ({domain}) has room for {members_that_fit} of \
                     {members_asked} members",
                    level.0
                ),
                None => write!(f, "must lie together; no node lies in a domain of level {}", level.0),
            },
            Self::NoDeviceWithRoom { gpu_type, members_asked, device, members_that_fit } => {
                let what = match device {
                    DeviceAsk::Whole => format!("a free {gpu_type}"),
                    DeviceAsk::Share { millis } => format!("{millis} thousandths free on one {gpu_type}"),
                    DeviceAsk::Mig { profile } => {
                        format!("room for a {profile:?} instance on one {gpu_type}")
                    }
                };
                write!(f, "{}; {}", room_for(*members_asked, &what), fit(*members_that_fit))
            }
            Self::CannotSpread { members_asked, skew_max } => write!(
                f,
                "{members_asked} members find room, but not so that no domain has more than {skew_max} more than another"
            ),
            Self::Neighbours { refusals, .. } => {
                let parts: Vec<String> = refusals.iter().map(ToString::to_string).collect();
                write!(f, "other pods stand against it: {}", parts.join("; "))
            }
            Self::PowerCapped { cap_watts, draws_watts, would_draw_watts } => write!(
                f,
                "all nodes would draw {would_draw_watts} of {cap_watts} watts; they draw {draws_watts}"
            ),
            Self::AtMembersMax { members_max } => {
                write!(f, "runs with {}, the most it may have", count(*members_max, "member", "members"))
            }
            Self::TermsContradict { members_min, members_max } => {
                write!(f, "must start with {members_min} members but may have at most {members_max}")
            }
            Self::OutOfBudget { queue } => write!(f, "the budget of queue {queue} is spent"),
            Self::LendingReserve { queue, resource, holds, reserved, bound, asks } => {
                let amount = |value: i64| amount(resource, value);
                write!(
                    f,
                    "below queue {queue}, {} of {} {resource} are held and {} are kept by queues that do not \
                     lend them; asks {}",
                    amount(*holds),
                    amount(*bound),
                    amount(*reserved),
                    amount(*asks)
                )
            }
            Self::MachinesComing { machines: 1, ready_by } => {
                write!(f, "a machine was bought for it, and should be ready at {ready_by:.0}")
            }
            Self::MachinesComing { machines, ready_by } => {
                write!(f, "{machines} machines were bought for it, and should be ready at {ready_by:.0}")
            }
            Self::NoMachines { why } => write!(f, "no machines are bought for it: {why}"),
            Self::BehindBlocked { gang } => write!(f, "gang {gang} is blocked, and nobody passes it"),
            Self::KeepsDeadline { gang, deadline } => {
                write!(f, "gang {gang} would miss its deadline at {deadline}")
            }
            Self::WouldDelay { gang, start } => {
                write!(
                    f,
                    "might not end before {start}, when gang {gang} is to start; a time limit would help"
                )
            }
            Self::AwaitsVictims { gangs, expires } => {
                let gangs = count(*gangs, "gang that gives way", "gangs that give way");
                write!(f, "its place is kept until {expires}; waits for {gangs} to leave")
            }
            Self::GaveUp { candidates } => {
                let gangs = count(*candidates, "running gang", "running gangs");
                write!(f, "gave up after {gangs} that might give way; others were not looked at")
            }
            Self::GivesWay { claimant } => write!(f, "gives way for gang {claimant}"),
            Self::ReclaimsAt { at } => write!(f, "its queue takes back what it lent from {at} on"),
        }
    }
}

impl fmt::Display for NeighbourRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { pods, topology_key: key, .. } = self;
        let nodes = |one: &str, many: &str| count(self.nodes, one, many);
        match self.rule {
            NearRule::LacksLabel => write!(f, "{} the label {key}", nodes("node lacks", "nodes lack")),
            NearRule::NobodyNear => {
                write!(f, "{} no pod of {pods} in their {key}", nodes("node has", "nodes have"))
            }
            NearRule::StrangerNear => {
                write!(f, "{} a pod of {pods} in their {key}", nodes("node has", "nodes have"))
            }
            NearRule::KeptAway => {
                // Not which pods it keeps away: that is what another tenant wrote, about labels of its own.
                write!(f, "{} a pod in their {key} that keeps it away", nodes("node has", "nodes have"))
            }
            NearRule::Uneven => {
                let nodes = nodes("node is", "nodes are");
                let allows = domains(&self.open_domains);
                write!(
                    f,
                    "the spread of {pods} over {key} allows one more in {allows} only, {nodes} elsewhere"
                )
            }
        }
    }
}

/// Names of domains, of many the first few.
fn domains(names: &[Arc<str>]) -> String {
    const NAMED_MAX: usize = 3;
    match names.len() {
        0 => "no domain".to_owned(),
        many if many > NAMED_MAX => {
            format!("{} and {} more", names[..NAMED_MAX].join(", "), many - NAMED_MAX)
        }
        _ => names.join(", "),
    }
}

impl fmt::Display for Refusals {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let parts = [
            (self.cordoned, "because they are cordoned"),
            (self.taint, "by a taint"),
            (self.node_selector, "by the node selector"),
            (self.node_affinity, "by the node affinity"),
            (self.features, "because their kubelet lacks a feature"),
            (self.ports, "because a port of the host is taken"),
            (self.cpu, "for cpu"),
            (self.memory, "for memory"),
            (self.pods, "for their number of pods"),
            (self.spot, "because they can be taken away"),
            (self.counted, "because they give no parts of devices"),
        ];
        let parts = parts.iter().map(|(nodes, why)| (*nodes, (*why).to_owned()));
        let others = self.other.iter().map(|(name, nodes)| (*nodes, format!("for {name}")));
        let parts: Vec<_> = parts
            .chain(others)
            .filter(|(nodes, _)| *nodes > 0)
            .map(|(nodes, why)| format!("{nodes} {why}"))
            .collect();
        f.write_str(&parts.join(", "))
    }
}

fn fit(members: u32) -> String {
    match members {
        0 => "none fits".to_owned(),
        members => count(members, "fits", "fit"),
    }
}

fn count(number: u32, one: &str, many: &str) -> String {
    format!("{number} {}", if number == 1 { one } else { many })
}

fn join(queues: &[QueueName]) -> String {
    queues.iter().map(QueueName::as_str).collect::<Vec<_>>().join(", ")
}

/// An amount in the unit people use: cores, GiB or MiB, or just the number.
fn amount(resource: &ResourceName, value: i64) -> String {
    const MIB: i64 = 1 << 20;
    const GIB: i64 = 1 << 30;
    match resource {
        ResourceName::Cpu if value % 1000 == 0 => (value / 1000).to_string(),
        ResourceName::Cpu => format!("{value}m"),
        ResourceName::Memory if value == 0 => "0".to_owned(),
        ResourceName::Memory if value % GIB == 0 => format!("{}Gi", value / GIB),
        ResourceName::Memory if value % MIB == 0 => format!("{}Mi", value / MIB),
        ResourceName::Gpu(_) | ResourceName::Memory => value.to_string(),
    }
}

/// `a node with … ` or `… on a node for each of 4 members`.
fn room_for(members: u32, what: &str) -> String {
    if members == 1 {
        format!("needs a node with {what}")
    } else {
        format!("needs {what} on a node for each of {members} members")
    }
}
