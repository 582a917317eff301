//! What the judge may find.

use std::{fmt, sync::Arc};

use cluster_model::{BudgetKey, GangKey, NodeName, PodKey, QueueName, ResourceName};

/// Something that a plan must not do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Violation {
    /// The plan was made from another state.
    OtherGeneration,
    /// A gang that waits is decided about twice or not at all, or one that does not wait is.
    NotDecidedOnce(GangKey),
    /// A gang waits without a reason.
    NoReason(GangKey),
    /// A pod is placed or held although it does not need a node, is not known, or belongs to another gang.
    NotPending(PodKey),
    /// A pod is placed or held twice.
    PlacedTwice(PodKey),
    /// A pod is placed although it may not be: it is gated, or asks for something that we do not honour.
    NotAllowed(PodKey),
    /// A pod is placed on a node that is not there, takes no pods, or does not match the pod.
    WrongNode(PodKey, NodeName),
    /// A pod gets devices other than it asks for, or devices that do not exist.
    WrongDevices(PodKey, NodeName),
    /// A node would hold more than it has of something that the plan puts on it.
    NodeOver {
        /// The node.
        node: NodeName,
        /// What is exceeded.
        resource: &'static str,
        /// What it would hold.
        used: i64,
        /// What it has.
        allocatable: i64,
    },
    /// The same of another resource.
    NodeOverOther {
        /// The node.
        node: NodeName,
        /// What is exceeded.
        resource: Arc<str>,
        /// What it would hold.
        used: i128,
        /// What it has.
        allocatable: i64,
    },
    /// Two pods on one node would take the same port of the host.
    PortTaken {
        /// The node.
        node: NodeName,
        /// The pod that the plan puts there.
        pod: PodKey,
        /// The other one.
        other: PodKey,
    },
    /// A device would be used by pods that it cannot serve together.
    DeviceOver {
        /// The node.
        node: NodeName,
        /// The device's index.
        device: usize,
    },
    /// All nodes together would draw more power than they may.
    PowerOver {
        /// What they would draw.
        watts: u64,
        /// What they may.
        cap_watts: u64,
    },
    /// A gang is placed in part.
    NotWhole(GangKey),
    /// More members of a gang would run than may.
    TooManyMembers(GangKey),
    /// A group of a gang is placed in part.
    GroupNotWhole(GangKey, Arc<str>),
    /// A gang is placed on several GPU types, or not on the one it asks for.
    WrongGpuType(GangKey),
    /// Members that must be in one domain are not.
    NotTogether {
        /// The gang.
        gang: GangKey,
        /// The group or segment, if it is not the whole gang.
        part: String,
    },
    /// A gang is spread less evenly than it asks for.
    Uneven {
        /// The gang.
        gang: GangKey,
        /// Members in the domain with the most of them.
        most: u32,
        /// Members in the domain with the fewest.
        fewest: u32,
    },
    /// Pods are in one domain that must be kept apart.
    NotApart {
        /// The pod that keeps apart.
        pod: PodKey,
        /// The pod that it keeps apart from.
        other: PodKey,
    },
    /// A pod starts where other pods do not let it.
    NeighboursForbid(PodKey, NodeName),
    /// A gang is placed in a queue that it may not use.
    WrongQueue(GangKey),
    /// A queue would hold more than it may.
    QuotaExceeded {
        /// The gang that is too much.
        gang: GangKey,
        /// The queue.
        queue: QueueName,
        /// What is exceeded.
        resource: ResourceName,
        /// What it would hold.
        holds: i64,
        /// What it may hold.
        bound: i64,
    },
    /// A queue borrows what others under the same parent do not lend.
    NotLent {
        /// The gang that is too much.
        gang: GangKey,
        /// The queue that borrows.
        queue: QueueName,
        /// What it borrows.
        resource: ResourceName,
        /// What is held under the parent, and what its children keep for themselves.
        kept: i64,
        /// What exists under the parent.
        bound: i64,
    },
    /// A gang gets nodes though its priority is above the highest tier of its queue, or of one above it.
    PriorityTooHigh(GangKey, QueueName),
    /// Something starts in a queue whose budget is spent.
    OutOfBudget(GangKey, QueueName),
    /// A gang is evicted although it does not run, or twice, or for itself.
    NotEvictable(GangKey),
    /// A gang is evicted for one that gets nothing in the same plan.
    EvictedForNobody(GangKey),
    /// More pods of a disruption budget give way than it allows.
    BudgetExceeded(BudgetKey),
    /// A gang is evicted although it must be left alone.
    Protected {
        /// The gang.
        gang: GangKey,
        /// What protects it.
        by: &'static str,
    },
    /// The policy does not allow such an eviction.
    NotTheRule {
        /// The gang that would give way.
        gang: GangKey,
        /// Which condition does not hold.
        what: &'static str,
    },
    /// By a reclaim, a queue would hold less than it owns.
    BelowQuota {
        /// The gang that would give way.
        gang: GangKey,
        /// Its queue or one above.
        queue: QueueName,
    },
    /// The claimant would have fitted with this gang still there.
    EvictedForNothing {
        /// The gang that would give way.
        gang: GangKey,
        /// The claimant.
        claimant: GangKey,
    },
    /// The loss of an eviction is counted wrongly.
    LossMiscounted {
        /// The gang that would give way.
        gang: GangKey,
        /// The plan's number.
        said: u64,
        /// The true number.
        is: u64,
    },
    /// A hold is for a gang that no eviction makes room for, or lasts too long.
    WrongHold(GangKey),
    /// A reservation is for a gang that does not wait, for the past, or for nodes that are not there; or it is one
    /// too many.
    WrongReservation(GangKey),
    /// At its start, there is no room for a gang with a reservation: a gang that may run longer has it.
    ReservationTaken(GangKey),
    /// Of two similar gangs in one queue, the one starts that should come later.
    OutOfTurn {
        /// The gang that starts.
        gang: GangKey,
        /// The gang that should have.
        waits: GangKey,
    },
    /// A gang gives way a second time for the same claimant.
    EvictedAgain {
        /// The gang that would give way.
        gang: GangKey,
        /// The claimant.
        claimant: GangKey,
    },
    /// A hold is there though it has expired.
    HoldOutlived(GangKey),
    /// A hold is gone before it expired, and its gang has not started.
    HoldLost(GangKey),
    /// A hold was given up while some gang still leaves for it.
    HoldGivenUp(GangKey),
    /// The state counts something wrongly.
    Miscounted {
        /// What it counts.
        what: String,
        /// What it says.
        said: String,
        /// What the objects say.
        is: String,
    },
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::OtherGeneration => write!(f, "the plan was made from another state"),
            Self::NotDecidedOnce(gang) => write!(f, "gang {gang} is not decided about exactly once"),
            Self::NoReason(gang) => write!(f, "gang {gang} waits without a reason"),
            Self::NotPending(pod) => write!(f, "pod {pod} is placed but does not need a node"),
            Self::PlacedTwice(pod) => write!(f, "pod {pod} is placed twice"),
            Self::NotAllowed(pod) => {
                write!(f, "pod {pod} is placed but is gated or asks for something unsupported")
            }
            Self::WrongNode(pod, node) => {
                write!(f, "pod {pod} is placed on node {node}, which it may not use")
            }
            Self::WrongDevices(pod, node) => {
                write!(f, "pod {pod} gets other devices of node {node} than it asks for")
            }
            Self::NodeOver { node, resource, used, allocatable } => {
                write!(f, "node {node} would hold {used} of {allocatable} {resource}")
            }
            Self::NodeOverOther { node, resource, used, allocatable } => {
                write!(f, "node {node} would hold {used} of {allocatable} {resource}")
            }
            Self::PortTaken { node, pod, other } => {
                write!(f, "pods {pod} and {other} would take the same port of node {node}")
            }
            Self::DeviceOver { node, device } => {
                write!(f, "device {device} of node {node} would be used twice")
            }
            Self::PowerOver { watts, cap_watts } => {
                write!(f, "all nodes would draw {watts} of {cap_watts} watts")
            }
            Self::NotWhole(gang) => write!(f, "gang {gang} is placed in part"),
            Self::TooManyMembers(gang) => write!(f, "more members of gang {gang} would run than may"),
            Self::GroupNotWhole(gang, group) => {
                write!(f, "group {group} of gang {gang} is placed in part")
            }
            Self::WrongGpuType(gang) => write!(f, "gang {gang} is placed on a GPU type it may not use"),
            Self::NotTogether { gang, part } => {
                write!(f, "{part} of gang {gang} is not in one domain")
            }
            Self::Uneven { gang, most, fewest } => {
                write!(f, "gang {gang} would have {most} members in one domain and {fewest} in another")
            }
            Self::NotApart { pod, other } => {
                write!(f, "pod {pod} would not be kept apart from pod {other}")
            }
            Self::NeighboursForbid(pod, node) => {
                write!(f, "other pods do not let pod {pod} go to node {node}")
            }
            Self::Miscounted { what, said, is } => write!(f, "{what} is {is}, not {said}"),
            of_queues => of_queues.fmt_of_queues(f),
        }
    }
}

impl Violation {
    fn fmt_of_queues(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::WrongQueue(gang) => write!(f, "gang {gang} is charged to a queue it may not use"),
            Self::QuotaExceeded { gang, queue, resource, holds, bound } => {
                write!(f, "with gang {gang}, queue {queue} would hold {holds} of {bound} {resource}")
            }
            Self::NotLent { gang, queue, resource, kept, bound } => write!(
                f,
                "with gang {gang}, queue {queue} would borrow {resource} that others keep: {kept} of {bound}"
            ),
            Self::PriorityTooHigh(gang, queue) => {
                write!(
                    f,
                    "gang {gang} gets nodes though its priority is above the highest tier of queue {queue}"
                )
            }
            Self::OutOfBudget(gang, queue) => {
                write!(f, "gang {gang} starts though queue {queue} is out of budget")
            }
            Self::NotEvictable(gang) => write!(f, "gang {gang} is evicted but does not run, or twice"),
            Self::BudgetExceeded(budget) => {
                write!(f, "budget {}/{} does not allow as many evictions", budget.namespace, budget.name)
            }
            Self::EvictedForNobody(gang) => {
                write!(f, "gang {gang} is evicted for one that gets nothing in this plan")
            }
            Self::Protected { gang, by } => write!(f, "gang {gang} is evicted but protected: {by}"),
            Self::NotTheRule { gang, what } => write!(f, "gang {gang} is evicted against the rule: {what}"),
            Self::BelowQuota { gang, queue } => {
                write!(f, "without gang {gang}, queue {queue} would hold less than it owns")
            }
            Self::EvictedForNothing { gang, claimant } => {
                write!(f, "gang {gang} is evicted, but gang {claimant} would fit beside it")
            }
            Self::LossMiscounted { gang, said, is } => {
                write!(f, "evicting gang {gang} loses {is} GPU seconds, not {said}")
            }
            Self::EvictedAgain { gang, claimant } => {
                write!(f, "gang {gang} is evicted again for gang {claimant}")
            }
            Self::HoldOutlived(gang) => write!(f, "the hold of gang {gang} is there though it has expired"),
            Self::HoldGivenUp(gang) => {
                write!(f, "the hold of gang {gang} is given up while a gang leaves for it")
            }
            Self::HoldLost(gang) => write!(f, "the hold of gang {gang} is gone, and it has not started"),
            Self::WrongHold(gang) => write!(f, "the hold of gang {gang} is not allowed"),
            Self::WrongReservation(gang) => write!(f, "the reservation of gang {gang} is not allowed"),
            Self::ReservationTaken(gang) => {
                write!(f, "gang {gang} has a reservation, but no room at its start")
            }
            Self::OutOfTurn { gang, waits } => {
                write!(f, "gang {gang} starts before gang {waits}, which is similar and comes first")
            }
            of_nodes => unreachable!("{of_nodes:?} is written above"),
        }
    }
}
