//! Turns the planner's findings into the statuses that people read. Pure.

use api_types::conditions::{self, Observed};
use api_types::machine_type::MachineTypeStatus;
use api_types::queue::{QueueAccounts, QueueStatus};
use api_types::run::{Reason, ReasonNumber, WaitNature, Waiting};
use capacity::real_room::RealRoom;
use cluster_apply::Value;
use cluster_model::plan::{self, Nature, WaitReason, WaitingGang};
use cluster_model::{Queue, QueueUsage, SavedAccounts};
use jiff::Timestamp;

/// The most reasons that the Run's schema allows.
const REASONS_MAX: usize = 16;
/// A condition's message is a line, not a page.
const MESSAGE_CHARS_MAX: usize = 1_024;

/// Why a gang waits, with numbers that not every reader may see: the caller filters them.
pub fn reasons(gang: &WaitingGang) -> Vec<Reason> {
    gang.reasons.iter().take(REASONS_MAX).map(to_reason).collect()
}

/// `status.waiting` of the gang's Run.
pub fn waiting(gang: &WaitingGang) -> Waiting {
    Waiting { reasons: for_tenant(gang).collect() }
}

/// Reasons for readers who may see only the gang's namespace.
fn for_tenant(gang: &WaitingGang) -> impl Iterator<Item = Reason> {
    reasons(gang).into_iter().map(|reason| match reason.gang_namespace() {
        Some(namespace) if *namespace != *gang.gang.namespace => reason.without_gang(),
        _ => reason,
    })
}

/// The only reason for which Karpenter buys a machine.
const BUY_A_NODE: &str = "Unschedulable";

/// The condition of the gang's first pod: the most binding reason's code, every reason's sentence. If a pool
/// may buy a node for the gang, the code is the one that Karpenter looks for.
pub fn condition(gang: &WaitingGang, is_from_pool: bool) -> Value {
    let code = gang.reasons.first().map_or("Waiting", |reason| reason.code());
    let code = if is_from_pool { BUY_A_NODE } else { code };
    let sentences: Vec<_> = for_tenant(gang).map(|reason| reason.message).collect();
    let message = sentences.join("; ").chars().take(MESSAGE_CHARS_MAX).collect();
    Value::NotScheduled { code, message }
}

/// The status of a Queue.
pub fn queue_status(queue: &Queue, usage: &QueueUsage) -> QueueStatus {
    let quota = queue.quota.as_ref().filter(|quota| !quota.gpus.is_empty());
    QueueStatus {
        used_gpus: usage.gpus.iter().map(|(gpu_type, gpus)| (gpu_type.to_string(), count(*gpus))).collect(),
        gpus_used: count(usage.gpus.values().sum()),
        gpus_quota: quota.map(|quota| count(quota.gpus.values().sum())),
        cpu_used_millis: usage.cpu_millis,
        memory_used_bytes: usage.memory_bytes,
        gangs_running: count(usage.gangs_running),
        gangs_waiting: count(usage.gangs_waiting),
        accounts: None,
        spend: None,
    }
}

/// The status of a `MachineType` whose machines have less than it says, or no longer. `now` is the time of the decision.
pub fn machine_type_status(
    real_room: Option<&RealRoom>,
    generation: i64,
    now: Timestamp,
) -> MachineTypeStatus {
    let (reason, message) = match real_room {
        Some(real) => ("MachinesAreSmaller", format!("{}. Write what it has into spec", real.in_words())),
        None => ("Seen", "Machines have what the spec says, as far as was seen".to_owned()),
    };
    let observed = Observed {
        type_: conditions::machine_type::AS_PROMISED,
        holds: real_room.is_none(),
        reason: reason.to_owned(),
        message: message.chars().take(MESSAGE_CHARS_MAX).collect(),
    };
    let since = real_room.map_or(now, |real| real.seen_at);
    MachineTypeStatus {
        observed_generation: Some(generation),
        real_room: real_room.map(RealRoom::status),
        conditions: conditions::merge(&[], vec![observed], generation, since),
    }
}

/// A queue's use and bank, as its status keeps them for the next leader.
pub fn accounts(saved: &SavedAccounts) -> QueueAccounts {
    let SavedAccounts {
        since,
        decayed_gpu_milliseconds,
        beyond_quota_gpu_milliseconds,
        bank_gpu_milliseconds,
    } = saved;
    let thousandths = |value: &u64| i64::try_from(*value).unwrap_or(i64::MAX);
    QueueAccounts {
        since_unix_millis: since.as_millisecond(),
        decayed_gpu_millis: thousandths(decayed_gpu_milliseconds),
        beyond_quota_gpu_millis: thousandths(beyond_quota_gpu_milliseconds),
        bank_gpu_millis: *bank_gpu_milliseconds,
    }
}

/// The same, read back; an impossible value counts as absent.
pub fn saved_accounts(accounts: &QueueAccounts) -> Option<SavedAccounts> {
    let QueueAccounts { since_unix_millis, decayed_gpu_millis, beyond_quota_gpu_millis, bank_gpu_millis } =
        *accounts;
    let amount = |value: i64| u64::try_from(value).unwrap_or(0);
    Some(SavedAccounts {
        since: Timestamp::from_millisecond(since_unix_millis).ok()?,
        decayed_gpu_milliseconds: amount(decayed_gpu_millis),
        beyond_quota_gpu_milliseconds: amount(beyond_quota_gpu_millis),
        bank_gpu_milliseconds: bank_gpu_millis.max(0),
    })
}

fn to_reason(reason: &WaitReason) -> Reason {
    let plan::About { queue, gang, resource } = reason.about();
    Reason {
        code: reason.code().to_owned(),
        message: reason.to_string(),
        never: reason.is_never(),
        nature: Some(nature(reason.nature())),
        topic: Some(reason.topic().to_owned()),
        queue: queue.map(ToString::to_string),
        gang: gang.map(ToString::to_string),
        resource: resource.map(str::to_owned),
        numbers: reason.numbers().into_iter().map(number).collect(),
    }
}

/// Translates the model's nature into the API's: the model does not know the API.
fn nature(nature: Nature) -> WaitNature {
    match nature {
        Nature::Room => WaitNature::Room,
        Nature::Quota => WaitNature::Quota,
        Nature::Order => WaitNature::Order,
        Nature::Time => WaitNature::Time,
        Nature::People => WaitNature::People,
        Nature::Never => WaitNature::Never,
        Nature::Coming => WaitNature::Coming,
    }
}

fn number(number: plan::ReasonNumber) -> ReasonNumber {
    let plan::ReasonNumber { label, value, unit, of_queue } = number;
    ReasonNumber { label: label.to_owned(), value, unit, of_queue }
}

/// Counts are never negative, and far below 2³².
fn count(value: i64) -> u32 {
    u32::try_from(value.max(0)).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use api_types::run::WaitNature;
    use cluster_apply::Value;
    use cluster_model::plan::{WaitReason, WaitingGang};
    use cluster_model::{Amounts, GangKey, PodKey, Queue, QueueUsage, ResourceName};

    use super::{condition, queue_status, reasons, waiting};

    fn gang() -> WaitingGang {
        let reasons = vec![
            WaitReason::QuotaExceeded {
                queue: "nlp".into(),
                resource: ResourceName::Gpu("H100".into()),
                holds: 40,
                bound: 48,
                asks: 32,
            },
            WaitReason::MembersMissing { have: 1, want: 4 },
        ];
        WaitingGang {
            gang: GangKey::new("ns", "gang"),
            run: Some("run".into()),
            first_pod: PodKey::new("ns", "pod", "uid"),
            reasons,
        }
    }

    #[test]
    fn a_run_shows_every_reason_with_its_numbers() {
        let waiting = waiting(&gang());
        assert_eq!(waiting.reasons.len(), 2);
        let first = &waiting.reasons[0];
        assert_eq!((first.code.as_str(), first.queue.as_deref()), ("QuotaExceeded", Some("nlp")));
        assert_eq!((first.nature, first.topic.as_deref()), (Some(WaitNature::Quota), Some("quota")));
        let numbers: Vec<_> = first.numbers.iter().map(|it| (it.label.as_str(), it.value)).collect();
        assert_eq!(numbers, [("requests", 32), ("queue holds", 40), ("queue may hold", 48)]);
        assert!(first.numbers.iter().all(|number| number.unit == "H100"));
        assert_eq!(first.message, "queue nlp holds 40 of 48 H100; requests 32");
    }

    #[test]
    fn gangs_of_other_namespaces_are_named_only_to_who_knows_what_the_reader_may_see() {
        let behind = |namespace: &str| WaitReason::BehindBlocked { gang: GangKey::new(namespace, "other") };
        let gang = WaitingGang { reasons: vec![behind("ns"), behind("theirs")], ..gang() };
        let named = |reasons: Vec<api_types::run::Reason>| -> Vec<_> {
            reasons.into_iter().map(|reason| reason.gang.unwrap_or_default()).collect()
        };
        assert_eq!(named(reasons(&gang)), ["ns/other", "theirs/other"]);
        assert_eq!(named(waiting(&gang).reasons), ["ns/other", ""]);
        let Value::NotScheduled { message, .. } = condition(&gang, false) else { panic!("a condition") };
        let expect = "gang ns/other is blocked, and no gang may pass it; another gang is blocked, and no gang may pass it";
        assert_eq!(message, expect);
    }

    #[test]
    fn a_pod_shows_the_most_binding_code_and_never_asks_for_a_node() {
        let Value::NotScheduled { code, message } = condition(&gang(), false) else { panic!("a condition") };
        assert_eq!(code, "QuotaExceeded");
        assert_eq!(message, "queue nlp holds 40 of 48 H100; requests 32; 1 of 4 pods exist");
        assert_ne!(code, "Unschedulable");
    }

    #[test]
    fn a_queue_without_gpus_in_its_quota_shows_no_quota() {
        let queue = |quota| Queue { quota, ..Queue::new("nlp") };
        let usage = QueueUsage {
            gpus: BTreeMap::from([("A100".into(), 8), ("H100".into(), 4)]),
            gangs_running: 2,
            ..QueueUsage::default()
        };
        let gpus = |gpus| Amounts { gpus, ..Amounts::default() };
        assert_eq!(queue_status(&queue(None), &usage).gpus_quota, None);
        assert_eq!(queue_status(&queue(Some(gpus(BTreeMap::new()))), &usage).gpus_quota, None);
        let status = queue_status(&queue(Some(gpus(BTreeMap::from([("H100".into(), 48)])))), &usage);
        assert_eq!((status.gpus_quota, status.gpus_used, status.gangs_running), (Some(48), 12, 2));
        assert_eq!(status.used_gpus["H100"], 4);
    }
}
