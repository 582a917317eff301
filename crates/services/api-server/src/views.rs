//! Objects as the API shows them. Pure.

pub mod cluster;

use std::collections::{BTreeMap, BTreeSet};

use api_types::rest::{QueueView, RunSummary, RunView, Why};
use api_types::run::Reason;
use api_types::{Queue, QueueSpec, Run, RunPhase, RunSpec, RunStatus};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use crate::cache::queue_index::QueueIndex;

/// The most characters of a run's message in lists. A summary without it has up to ~450 bytes, so a page of 100
/// is ~50 KB even if every message is long; the view of one run has the whole message.
const SUMMARY_MESSAGE_LENGTH_MAX: usize = 100;

/// The queue that a run is charged to, by the scheduler's rule.
pub fn effective_queue(run: &Run, queues: &QueueIndex) -> Option<String> {
    let namespace = run.metadata.namespace.as_deref().unwrap_or_default();
    run.spec.queue.clone().or_else(|| queues.of_namespace(namespace).map(str::to_owned))
}

/// A run in a list: long messages are cut.
pub fn run_summary(run: &Run, queues: &QueueIndex) -> RunSummary {
    let summary = whole_summary(run, queues);
    RunSummary { message: summary.message.map(cut), ..summary }
}

fn cut(message: String) -> String {
    let Some((end, _)) = message.char_indices().nth(SUMMARY_MESSAGE_LENGTH_MAX) else { return message };
    // The last character is replaced by the ellipsis.
    let kept = message[..end].char_indices().next_back().map_or(0, |(last, _)| last);
    format!("{}…", &message[..kept])
}

fn whole_summary(run: &Run, queues: &QueueIndex) -> RunSummary {
    // Not cloned as a whole: attempts and conditions are larger than the shown fields.
    let default = RunStatus::default();
    let status = run.status.as_ref().unwrap_or(&default);
    let binding = reasons_to_wait(status).first();
    RunSummary {
        namespace: run.metadata.namespace.clone().unwrap_or_default(),
        name: run.metadata.name.clone().unwrap_or_default(),
        queue: effective_queue(run, queues),
        priority: run.spec.priority,
        phase: status.phase,
        reason: binding.map(|reason| reason.code.clone()).or_else(|| status.reason.clone()),
        message: status.message.clone(),
        stop: run.spec.stop,
        pause: run.spec.pause,
        members: run.spec.members,
        gpus_per_member: run.spec.gpus_per_member,
        gpu_type: run.spec.gpu_type.clone(),
        member_counts: status.members,
        created_at: created_at(run),
        started_at: status.started_at.as_ref().map(rfc3339),
        finished_at: status.finished_at.as_ref().map(rfc3339),
        submitted_by: run.submitted_by().map(str::to_owned),
        archived: false,
    }
}

/// The parts of a run's reasons that the caller may read.
#[derive(Clone, Debug, Default)]
pub struct Readable {
    /// Queues whose numbers are shown.
    pub queues: BTreeSet<String>,
    /// Namespaces whose gangs are named.
    pub namespaces: BTreeSet<String>,
}

/// The whole view of a run, without the parts of its reasons that are not `readable`.
pub fn run_view(run: &Run, queues: &QueueIndex, readable: &Readable) -> RunView {
    let status = run.status.as_ref();
    // Every field is named, so that a new one cannot be forgotten.
    let RunSpec {
        time_limit_seconds,
        checkpoint,
        spot,
        max_price,
        deadline,
        grace_seconds,
        retries,
        fail_on,
        min_members,
        image,
        command,
        restarts,
        // In the summary.
        queue: _,
        members: _,
        gpus_per_member: _,
        gpu_type: _,
        priority: _,
        stop: _,
        pause: _,
        // Not shown: variables may hold secrets, and the others are not needed.
        env: _,
        cpu: _,
        memory: _,
        annotations: _,
        resume_step: _,
        start_deadline_seconds: _,
    } = &run.spec;
    RunView {
        summary: whole_summary(run, queues),
        time_limit_seconds: *time_limit_seconds,
        checkpoint: checkpoint.clone(),
        spot: *spot,
        max_price: max_price.clone(),
        deadline: deadline.clone(),
        grace_seconds: *grace_seconds,
        retries: *retries,
        failures: status.map_or(0, |status| status.failures),
        used_seconds: status.map_or(0, |status| status.used_seconds),
        fail_on: fail_on.clone(),
        min_members: *min_members,
        restarts: *restarts,
        image: image.clone(),
        command: command.clone(),
        attempts: status.map(|status| status.attempts.clone()).unwrap_or_default(),
        next_attempt_at: status.and_then(|status| status.next_attempt_at.as_ref()).map(rfc3339),
        progress: status.and_then(|status| status.progress.clone()),
        reasons: shown(reasons(run), readable),
    }
}

/// Why a run waits, from these reasons, without the parts that are not `readable`.
pub fn why(run: &Run, queues: &QueueIndex, reasons: &[Reason], readable: &Readable) -> Why {
    let status = run.status.clone().unwrap_or_default();
    Why {
        namespace: run.metadata.namespace.clone().unwrap_or_default(),
        name: run.metadata.name.clone().unwrap_or_default(),
        phase: status.phase,
        queue: effective_queue(run, queues),
        created_at: created_at(run),
        started_at: status.started_at.as_ref().map(rfc3339),
        finished_at: status.finished_at.as_ref().map(rfc3339),
        message: status.message.clone(),
        member_counts: status.members,
        reasons: shown(reasons, readable),
        outlook: None,
    }
}

/// A queue.
pub fn queue_view(queue: &Queue) -> QueueView {
    let status = queue.status.clone().unwrap_or_default();
    let QueueSpec {
        parent,
        weight,
        quota,
        limit,
        namespaces,
        // Rules for the planner, which are not shown.
        lend: _,
        reclaim: _,
        fair_share: _,
        bank: _,
        machines: _,
        max_price: _,
        highest_priority: _,
    } = &queue.spec;
    let gpus = |amounts: &Option<api_types::ResourceAmounts>| {
        amounts.as_ref().map(|amounts| amounts.gpus.clone()).filter(|gpus| !gpus.is_empty())
    };
    QueueView {
        name: queue.metadata.name.clone().unwrap_or_default(),
        parent: parent.clone(),
        weight: *weight,
        quota_gpus: gpus(quota),
        limit_gpus: gpus(limit),
        borrowed_gpus: borrowed_gpus(queue, &status.used_gpus),
        used_gpus: status.used_gpus,
        gangs_running: status.gangs_running,
        gangs_waiting: status.gangs_waiting,
        spend: status.spend,
        namespaces: namespaces.clone(),
    }
}

/// The GPUs held beyond the quota; nothing where there is no quota.
fn borrowed_gpus(queue: &Queue, used: &BTreeMap<String, u32>) -> BTreeMap<String, u32> {
    let Some(quota) = &queue.spec.quota else { return BTreeMap::new() };
    let beyond = |(gpu, used): (&String, &u32)| {
        let owned = quota.gpus.get(gpu).copied().unwrap_or_default();
        (*used > owned).then(|| (gpu.clone(), used - owned))
    };
    used.iter().filter_map(beyond).collect()
}

/// The reasons in the run's status.
pub fn reasons(run: &Run) -> &[Reason] {
    run.status.as_ref().map(reasons_to_wait).unwrap_or_default()
}

/// The queues whose numbers are in the reasons: the run's own, and those above it.
pub fn queues_in_reasons(reasons: &[Reason]) -> BTreeSet<String> {
    reasons.iter().filter_map(|reason| reason.queue.clone()).collect()
}

/// The namespaces whose gangs reasons name.
pub fn namespaces_in_reasons(reasons: &[Reason]) -> BTreeSet<String> {
    reasons.iter().filter_map(|reason| reason.gang_namespace().map(str::to_owned)).collect()
}

fn shown(reasons: &[Reason], readable: &Readable) -> Vec<Reason> {
    let shown = reasons.iter().map(|reason| without_foreign_numbers(reason, &readable.queues));
    let shown = shown.map(|reason| match reason.gang_namespace() {
        Some(namespace) if !readable.namespaces.contains(namespace) => reason.without_gang(),
        _ => reason,
    });
    shown.collect()
}

/// Hides numbers of queues that the caller may not read. That such a queue is in the way stays visible.
fn without_foreign_numbers(reason: &Reason, readable: &BTreeSet<String>) -> Reason {
    let Some(queue) = reason.queue.as_ref().filter(|queue| !readable.contains(*queue)) else {
        return reason.clone();
    };
    let message = match &reason.resource {
        Some(resource) => {
            format!("queue {queue} has no room for the {resource} asked; you may not read its numbers")
        }
        None => reason.message.clone(),
    };
    let numbers = reason.numbers.iter().filter(|number| !number.of_queue).cloned().collect();
    Reason { message, numbers, ..reason.clone() }
}

/// The scheduler's reasons, as long as the run waits: a run that has its GPUs waits for nothing.
fn reasons_to_wait(status: &RunStatus) -> &[Reason] {
    match (&status.waiting, status.phase) {
        (Some(waiting), RunPhase::Pending) => &waiting.reasons,
        _ => &[],
    }
}

fn created_at(run: &Run) -> String {
    run.metadata.creation_timestamp.as_ref().map(rfc3339).unwrap_or_default()
}

fn rfc3339(time: &Time) -> String {
    time.0.to_string()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::sync::Arc;

    use api_types::run::{Reason, ReasonNumber, Waiting};
    use api_types::{Queue, QueueSpec, Run, RunPhase, RunSpec, RunStatus};

    use super::{
        Readable, namespaces_in_reasons, queue_view, queues_in_reasons, reasons, run_summary, run_view, why,
    };
    use crate::cache::queue_index::QueueIndex;

    fn waiting_run(phase: RunPhase) -> Run {
        let mut run = Run::new("llama-ft", RunSpec { members: 4, gpus_per_member: 8, ..RunSpec::default() });
        run.metadata.namespace = Some("nlp".to_owned());
        let reason = |code: &str, message: &str| Reason {
            code: code.to_owned(),
            message: message.to_owned(),
            ..Reason::default()
        };
        run.status = Some(RunStatus {
            phase,
            reason: Some("Waiting".to_owned()),
            message: Some("waits for GPUs".to_owned()),
            waiting: Some(Waiting {
                reasons: vec![reason("QuotaExceeded", "full"), reason("NoNodes", "none free")],
            }),
            ..RunStatus::default()
        });
        run
    }

    fn queues() -> QueueIndex {
        let mut queues = QueueIndex::default();
        let spec = QueueSpec { namespaces: vec!["nlp".to_owned()], ..QueueSpec::default() };
        queues.apply(Arc::new(Queue::new("h100", spec)));
        queues
    }

    #[test]
    fn a_waiting_run_shows_its_most_binding_reason_and_all_of_them_on_demand() {
        let run = waiting_run(RunPhase::Pending);
        let summary = run_summary(&run, &queues());
        assert_eq!(summary.reason.as_deref(), Some("QuotaExceeded"));
        assert_eq!(summary.message.as_deref(), Some("waits for GPUs"));
        assert_eq!(why(&run, &queues(), reasons(&run), &Readable::default()).reasons.len(), 2);
        assert_eq!(run_view(&run, &queues(), &Readable::default()).reasons.len(), 2);
    }

    #[test]
    fn the_numbers_of_a_queue_that_the_caller_may_not_read_are_left_out() {
        let mut run = waiting_run(RunPhase::Pending);
        let number = |label: &str, value, of_queue| ReasonNumber {
            label: label.to_owned(),
            value,
            unit: "H100".to_owned(),
            of_queue,
        };
        let full = |queue: &str| Reason {
            code: "QuotaExceeded".to_owned(),
            message: format!("queue {queue} holds 40 of 48 H100; requests 32"),
            queue: Some(queue.to_owned()),
            resource: Some("H100".to_owned()),
            numbers: vec![number("requests", 32, false), number("queue holds", 40, true)],
            ..Reason::default()
        };
        run.status.get_or_insert_default().waiting =
            Some(Waiting { reasons: vec![full("nlp"), full("acme")] });
        assert_eq!(queues_in_reasons(reasons(&run)), BTreeSet::from(["acme".to_owned(), "nlp".to_owned()]));
        let readable = Readable { queues: ["nlp".to_owned()].into(), ..Readable::default() };
        let shown = why(&run, &queues(), reasons(&run), &readable).reasons;
        assert_eq!(shown[0], full("nlp"));
        let hidden = "queue acme has no room for the H100 asked; you may not read its numbers";
        assert_eq!(shown[1].message, hidden);
        assert_eq!(shown[1].numbers, [number("requests", 32, false)]);
    }

    #[test]
    fn gangs_that_the_caller_may_not_see_are_not_named() {
        let mut run = waiting_run(RunPhase::Pending);
        let behind = |namespace: &str| Reason {
            code: "BehindBlocked".to_owned(),
            message: format!("gang {namespace}/secret is blocked, and no gang may pass it"),
            gang: Some(format!("{namespace}/secret")),
            ..Reason::default()
        };
        run.status.get_or_insert_default().waiting =
            Some(Waiting { reasons: vec![behind("nlp"), behind("acme")] });
        assert_eq!(namespaces_in_reasons(reasons(&run)), ["acme".to_owned(), "nlp".to_owned()].into());
        let readable = Readable { namespaces: ["nlp".to_owned()].into(), ..Readable::default() };
        let shown = run_view(&run, &queues(), &readable).reasons;
        assert_eq!(shown[0], behind("nlp"));
        assert_eq!(shown[1].gang, None);
        assert_eq!(shown[1].message, "another gang is blocked, and no gang may pass it");
    }

    #[test]
    fn reasons_from_before_it_got_its_gpus_are_not_shown() {
        let run = waiting_run(RunPhase::Running);
        assert_eq!(run_summary(&run, &queues()).reason.as_deref(), Some("Waiting"));
        assert_eq!(why(&run, &queues(), reasons(&run), &Readable::default()).reasons, []);
    }

    #[test]
    fn a_run_that_names_no_queue_is_shown_with_the_queue_of_its_namespace() {
        assert_eq!(run_summary(&waiting_run(RunPhase::Pending), &queues()).queue.as_deref(), Some("h100"));
        assert_eq!(run_summary(&waiting_run(RunPhase::Pending), &QueueIndex::default()).queue, None);
    }

    #[test]
    fn a_list_cuts_long_messages_and_one_run_gives_them_whole() {
        let mut run = waiting_run(RunPhase::Failed);
        for (message, expect) in [
            ("é".repeat(100), "é".repeat(100)),
            ("é".repeat(101), format!("{}…", "é".repeat(99))),
            (String::new(), String::new()),
        ] {
            run.status.get_or_insert_default().message = Some(message.clone());
            assert_eq!(run_summary(&run, &queues()).message, Some(expect));
            assert_eq!(run_view(&run, &queues(), &Readable::default()).summary.message, Some(message));
        }
    }

    #[test]
    fn a_queue_without_a_quota_on_gpus_has_none_rather_than_an_empty_one() {
        assert_eq!(queue_view(&Queue::new("free", QueueSpec::default())).quota_gpus, None);
    }
}
