//! Which gang is next within a queue.

use cluster_model::GangKey;
use jiff::Timestamp;

use crate::order::classes::Class;
use cluster_model::policy::OrderPolicy;

/// A deadline is near if less time is left to start than the gang would run, or than this. It is as long as many
/// gangs run, so that there is mostly one more chance before it is too late.
const URGENT_SECONDS: i64 = 3600;

/// The place of a gang in its queue: the lowest first.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Turn {
    rule: Rule,
    created: Timestamp,
    gang: GangKey,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Rule {
    /// The deadline is near, and can still be met: the least time to spare first.
    Urgent { laxity_seconds: i64 },
    /// The least expected work first; all the same if the policy goes by age.
    Ordinary { work_gpu_seconds: i64 },
}

impl Turn {
    pub fn new(
        class: &Class,
        gang: &GangKey,
        created: Timestamp,
        policy: OrderPolicy,
        now: Timestamp,
    ) -> Self {
        Self { rule: rule(class, policy, now), created, gang: gang.clone() }
    }
}

fn rule(class: &Class, policy: OrderPolicy, now: Timestamp) -> Rule {
    if policy == OrderPolicy::StrictAge {
        return Rule::Ordinary { work_gpu_seconds: 0 };
    }
    let laxity = class.laxity_seconds(now).filter(|laxity| *laxity >= 0);
    let urgent = URGENT_SECONDS.max(class.needed_seconds());
    if let Some(laxity_seconds) = laxity.filter(|laxity| *laxity <= urgent) {
        return Rule::Urgent { laxity_seconds };
    }
    if policy == OrderPolicy::Age {
        return Rule::Ordinary { work_gpu_seconds: 0 };
    }
    // A gang without GPUs counts as one with one: its run time is what the others wait for.
    Rule::Ordinary { work_gpu_seconds: class.expected_seconds().saturating_mul(class.gpus.max(1)) }
}
