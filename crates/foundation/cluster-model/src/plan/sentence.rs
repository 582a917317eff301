//! Reasons as sentences, as numbers with labels, and what they are about. Code that shows a reason shows these, and
//! need not know the reason.

use std::fmt;

use super::reason::WaitReason;
use crate::devices::DeviceAsk;
use crate::names::{GangKey, GpuType, QueueName};
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
                write!(f, "requests something that is not supported yet: {}", fields.join(", "))
            }
            Self::QueueUnknown { queue, child: None } => write!(f, "queue {queue} does not exist"),
            Self::QueueUnknown { queue, child: Some(child) } => {
                write!(f, "queue {queue}, the parent of queue {child}, does not exist")
            }
            Self::QueueNotOpen { queue, namespace } => {
                write!(f, "queue {queue} is not open to namespace {namespace}")
            }
            Self::PriorityTooHigh { queue, tier, highest } => {
                write!(f, "is of tier {tier}, and queue {queue} takes none above {highest}")
            }
            Self::NoQueue { namespace } => {
                write!(f, "names no queue, and none is open to namespace {namespace}")
            }
            Self::SeveralQueues { namespace, queues } => {
                write!(f, "names no queue, and several are open to namespace {namespace}: {}", join(queues))
            }
            Self::QueueCycle { queue } => write!(f, "queue {queue} is its own ancestor"),
            Self::QueueTooDeep { queue, depth_max } => {
                write!(f, "queue {queue} is more than {depth_max} levels below its root")
            }
            Self::QuotaExceeded { queue, resource, holds, bound, asks } => {
                let amount = |value: i64| amount(resource, value);
                write!(
                    f,
                    "queue {queue} holds {} of {} {resource}; requests {}",
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
                write!(f, "requests {asks} {gpu_type} on one node; the largest node has {largest}")
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
                    "must be in one domain of level {}; the best ({domain}) has room for {members_that_fit} of \
                     {members_asked} members",
                    level.0
                ),
                None => write!(f, "must be in one domain of level {}; no node is in such a domain", level.0),
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
                "{members_asked} members fit, but not with at most {skew_max} more in one domain than in another"
            ),
            Self::Neighbours { refusals, .. } => {
                let parts: Vec<String> = refusals.iter().map(ToString::to_string).collect();
                write!(f, "other pods prevent it: {}", parts.join("; "))
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
                     lend them; requests {}",
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
            Self::BehindBlocked { gang } => write!(f, "gang {gang} is blocked, and no gang may pass it"),
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
                write!(f, "nodes are held for it until {expires}; waits for {gangs} to leave")
            }
            Self::GaveUp { candidates } => {
                let gangs = count(*candidates, "running gang", "running gangs");
                write!(f, "the search for gangs that might give way stopped after {gangs}")
            }
            Self::GivesWay { claimant } => write!(f, "gives way for gang {claimant}"),
            Self::ReclaimsAt { at } => write!(f, "its queue takes back quota that it lent, from {at} on"),
        }
    }
}

/// One number of a reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReasonNumber {
    /// What it counts, in words that stand before it: `queue holds`.
    pub label: &'static str,
    /// The number.
    pub value: i64,
    /// What it is counted in: `H100`, `millicores`, `pods`.
    pub unit: String,
    /// Whether it reveals a queue's use: only for people who may read the queue.
    pub of_queue: bool,
}

/// What a reason is about, if it is about one of these.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct About<'a> {
    /// The queue in the way.
    pub queue: Option<&'a QueueName>,
    /// The gang in the way; the sentence says `gang NAMESPACE/NAME`.
    pub gang: Option<&'a GangKey>,
    /// What is short: a type of GPUs, `cpu` or `memory`.
    pub resource: Option<&'a str>,
}

impl WaitReason {
    /// What it is about.
    pub fn about(&self) -> About<'_> {
        let nothing = About::default();
        match self {
            Self::QueueUnknown { queue, .. }
            | Self::QueueNotOpen { queue, .. }
            | Self::PriorityTooHigh { queue, .. }
            | Self::QueueCycle { queue }
            | Self::QueueTooDeep { queue, .. }
            | Self::OutOfBudget { queue } => About { queue: Some(queue), ..nothing },
            Self::QuotaExceeded { queue, resource, .. } | Self::LendingReserve { queue, resource, .. } => {
                About { queue: Some(queue), resource: Some(resource.as_str()), ..nothing }
            }
            Self::NoSuchGpuType { gpu_type } | Self::NodesRefused { gpu_type, .. } => {
                About { resource: gpu_type.as_ref().map(GpuType::as_str), ..nothing }
            }
            Self::TooLargeForAnyNode { gpu_type, .. }
            | Self::NotEnoughGpus { gpu_type, .. }
            | Self::NoDeviceWithRoom { gpu_type, .. } => {
                About { resource: Some(gpu_type.as_str()), ..nothing }
            }
            Self::NotEnoughCpu { .. } => About { resource: Some(ResourceName::Cpu.as_str()), ..nothing },
            Self::BehindBlocked { gang }
            | Self::KeepsDeadline { gang, .. }
            | Self::WouldDelay { gang, .. }
            | Self::GivesWay { claimant: gang } => About { gang: Some(gang), ..nothing },
            Self::MembersMissing { .. }
            | Self::Gated { .. }
            | Self::MembersDisagree { .. }
            | Self::Unsupported { .. }
            | Self::NoQueue { .. }
            | Self::SeveralQueues { .. }
            | Self::AtMembersMax { .. }
            | Self::TermsContradict { .. }
            | Self::NoRoomTogether { .. }
            | Self::CannotSpread { .. }
            | Self::Neighbours { .. }
            | Self::PowerCapped { .. }
            | Self::AwaitsVictims { .. }
            | Self::GaveUp { .. }
            | Self::ReclaimsAt { .. }
            | Self::MachinesComing { .. }
            | Self::NoMachines { .. } => nothing,
        }
    }

    /// Its numbers, the most telling first.
    pub fn numbers(&self) -> Vec<ReasonNumber> {
        match self {
            Self::MembersMissing { have, want } => {
                vec![number("exist", *have, "pods"), number("must start together", *want, "pods")]
            }
            Self::Gated { members } => vec![number("held back", *members, "pods")],
            Self::QueueTooDeep { depth_max, .. } => {
                vec![number("may be below a root", *depth_max, "levels")]
            }
            Self::QuotaExceeded { queue: _, resource, holds, bound, asks } => {
                let unit = unit(resource);
                vec![
                    number("requests", *asks, unit),
                    of_queue("queue holds", *holds, unit),
                    of_queue("queue may hold", *bound, unit),
                ]
            }
            Self::LendingReserve { queue: _, resource, holds, reserved, bound, asks } => {
                let unit = unit(resource);
                vec![
                    number("requests", *asks, unit),
                    of_queue("queue holds", *holds, unit),
                    of_queue("other queues keep", *reserved, unit),
                    of_queue("queue may hold", *bound, unit),
                ]
            }
            Self::TooLargeForAnyNode { gpu_type, asks, largest } => vec![
                number("requests on one node", *asks, gpu_type.as_str()),
                number("largest node has", *largest, gpu_type.as_str()),
            ],
            Self::NotEnoughGpus { gpu_type, members_asked, gpus_each, gpus_free, members_that_fit } => vec![
                number("requests", gpus_each.saturating_mul(i64::from(*members_asked)), gpu_type.as_str()),
                number("free", *gpus_free, gpu_type.as_str()),
                number("fit", *members_that_fit, "members"),
            ],
            Self::NotEnoughCpu { members_asked, cpu_millis_each, members_that_fit } => {
                let asks = cpu_millis_each.saturating_mul(i64::from(*members_asked));
                vec![
                    number("requests", asks, unit(&ResourceName::Cpu)),
                    number("fit", *members_that_fit, "members"),
                ]
            }
            Self::NodesRefused { members_asked, members_that_fit, refusals, gpu_type: _ } => {
                let refused = number("refused", refusals.total(), "nodes");
                members_that(*members_asked, *members_that_fit).into_iter().chain([refused]).collect()
            }
            Self::NoRoomTogether { members_asked, members_that_fit, .. }
            | Self::NoDeviceWithRoom { members_asked, members_that_fit, .. } => {
                members_that(*members_asked, *members_that_fit).into()
            }
            Self::CannotSpread { members_asked, skew_max } => vec![
                number("requests", *members_asked, "members"),
                number("domains may differ by", *skew_max, "members"),
            ],
            Self::Neighbours { members_asked, refusals } => {
                let nodes = refusals.iter().fold(0_u32, |sum, it| sum.saturating_add(it.nodes));
                vec![number("requests", *members_asked, "members"), number("refused", nodes, "nodes")]
            }
            Self::PowerCapped { cap_watts, draws_watts, would_draw_watts } => vec![
                number("would draw", *would_draw_watts, "watts"),
                number("nodes draw", *draws_watts, "watts"),
                number("nodes may draw", *cap_watts, "watts"),
            ],
            Self::AtMembersMax { members_max } => vec![number("may have", *members_max, "members")],
            Self::TermsContradict { members_min, members_max } => vec![
                number("must start with", *members_min, "members"),
                number("may have", *members_max, "members"),
            ],
            Self::AwaitsVictims { gangs, .. } => vec![number("still to leave", *gangs, "gangs")],
            Self::GaveUp { candidates } => vec![number("looked at", *candidates, "gangs")],
            Self::MachinesComing { machines, .. } => vec![number("bought", *machines, "machines")],
            Self::MembersDisagree { .. }
            | Self::Unsupported { .. }
            | Self::QueueUnknown { .. }
            | Self::QueueNotOpen { .. }
            | Self::PriorityTooHigh { .. }
            | Self::NoQueue { .. }
            | Self::SeveralQueues { .. }
            | Self::QueueCycle { .. }
            | Self::NoSuchGpuType { .. }
            | Self::OutOfBudget { .. }
            | Self::BehindBlocked { .. }
            | Self::KeepsDeadline { .. }
            | Self::WouldDelay { .. }
            | Self::ReclaimsAt { .. }
            | Self::GivesWay { .. }
            | Self::NoMachines { .. } => Vec::new(),
        }
    }
}

fn number(label: &'static str, value: impl TryInto<i64>, unit: &str) -> ReasonNumber {
    // Watts and depths are unsigned, and far below 2⁶³.
    let value = value.try_into().unwrap_or(i64::MAX);
    ReasonNumber { label, value, unit: unit.to_owned(), of_queue: false }
}

fn of_queue(label: &'static str, value: i64, unit: &str) -> ReasonNumber {
    ReasonNumber { of_queue: true, ..number(label, value, unit) }
}

fn members_that(asked: u32, fit: u32) -> [ReasonNumber; 2] {
    [number("requests", asked, "members"), number("fit", fit, "members")]
}

/// What amounts of a resource are counted in.
fn unit(resource: &ResourceName) -> &str {
    match resource {
        ResourceName::Gpu(gpu_type) => gpu_type.as_str(),
        ResourceName::Cpu => "millicores",
        ResourceName::Memory => "bytes",
    }
}

fn fit(members: u32) -> String {
    match members {
        0 => "none fits".to_owned(),
        members => count(members, "fits", "fit"),
    }
}

pub(super) fn count(number: u32, one: &str, many: &str) -> String {
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
