//! Evictions against a scripted API server, on a clock that jumps.

use std::time::Duration;

use cluster_model::plan::{EvictCause, EvictRequest, EvictionRule, HoldRecord};
use cluster_model::{GangKey, PodKey};
use http::Method;
use serde_json::{Value, json};
use tokio::sync::mpsc;

use super::{EvictOutcome, EvictReport, Evictor};
use crate::holds::HoldWriter;
use crate::testing::{FENCE, Script, slow_writes, status, writes};
use crate::writes::{Fenced, Writes};

fn request(after: Vec<(GangKey, jiff::Timestamp)>) -> EvictRequest {
    EvictRequest {
        gang: GangKey::new("ns", "victim"),
        pods: vec![PodKey::new("ns", "pod", "uid")],
        cause: EvictCause::Claim { claimant: claimant(), rule: EvictionRule::Reclaim, after },
    }
}

/// An evictor and a writer of Holds, on a scripted server.
struct Stage {
    left: Script,
    fenced: Fenced,
    holds: HoldWriter,
    evictor: Evictor,
    reports: mpsc::UnboundedReceiver<EvictReport>,
}

impl Stage {
    fn new(script: Vec<(Method, u16, Value)>) -> Self {
        let (writes, left) = writes(script);
        Self::on(writes, left)
    }

    fn on(writes: Writes, left: Script) -> Self {
        let fenced = Fenced::default();
        let holds = HoldWriter::start(writes.clone(), 1, fenced.clone());
        let (sender, reports) = mpsc::unbounded_channel();
        let evictor = Evictor::start(writes, holds.clone(), fenced.clone(), sender);
        Self { left, fenced, holds, evictor, reports }
    }

    /// The claimant's Hold is to be written, and then its victim is to go.
    fn with_hold(script: Vec<(Method, u16, Value)>) -> Self {
        let stage = Self::new(script);
        stage.holds.write(hold());
        stage.evictor.evict(request(vec![(claimant(), jiff::Timestamp::UNIX_EPOCH)]));
        stage
    }

    /// Whether every scripted answer was used.
    fn is_played(&self) -> bool {
        self.left.lock().expect("the script").is_empty()
    }

    async fn played(&self) {
        while !self.is_played() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }

    /// Takes the Hold back, on a server that allows this many deletions.
    fn take_back_hold(&self, deletions: usize) {
        let answers = (0..deletions).map(|_| (Method::DELETE, 200, json!({})));
        self.left.lock().expect("the script").extend(answers);
        self.holds.delete(&claimant());
    }

    async fn report(&mut self, within: Duration) -> EvictReport {
        let report = tokio::time::timeout(within, self.reports.recv()).await;
        report.expect("in time").expect("a report")
    }
}

/// Evicts a gang of one pod; every scripted answer must be used.
async fn evict(script: Vec<(Method, u16, Value)>) -> (EvictReport, Fenced) {
    evict_as(request(Vec::new()), script).await
}

async fn evict_as(request: EvictRequest, script: Vec<(Method, u16, Value)>) -> (EvictReport, Fenced) {
    let mut stage = Stage::new(script);
    stage.evictor.evict(request);
    // A request that is not in the script panics its own task, and then there is no report.
    let report = stage.report(Duration::from_mins(10)).await;
    let Stage { left, fenced, evictor, .. } = stage;
    evictor.stop().await;
    assert!(left.lock().expect("the script").is_empty(), "answers left over: {:?}", report.outcome);
    (report, fenced)
}

fn pod(uid: &str, leaves: bool) -> Value {
    json!({ "metadata": { "uid": uid, "deletionTimestamp": leaves.then_some("2026-11-15T00:00:00Z") } })
}

#[tokio::test(start_paused = true)]
async fn a_pod_is_told_why_and_then_deleted_and_what_is_unclear_is_tried_again() {
    let told = || (Method::PATCH, 200, json!({}));
    let deleted = || (Method::DELETE, 200, json!({}));
    for script in [
        vec![told(), deleted()],
        vec![(Method::PATCH, 500, status(500, "who knows")), told(), deleted()],
        vec![(Method::PATCH, 404, status(404, "gone"))],
        vec![(Method::PATCH, 409, status(409, "uid")), (Method::GET, 200, pod("other", false))],
        vec![(Method::PATCH, 422, status(422, "uid")), (Method::GET, 200, pod("other", false))],
        vec![told(), (Method::DELETE, 404, status(404, "gone"))],
        vec![told(), (Method::DELETE, 429, status(429, "later")), deleted()],
        vec![told(), (Method::DELETE, 504, status(504, "who knows")), deleted()],
        vec![told(), (Method::DELETE, 409, status(409, "uid")), (Method::GET, 200, pod("other", false))],
        vec![told(), (Method::DELETE, 409, status(409, "uid")), (Method::GET, 200, pod("uid", true))],
        vec![
            told(),
            (Method::DELETE, 409, status(409, "conflict")),
            (Method::GET, 200, pod("uid", false)),
            deleted(),
        ],
    ] {
        let (report, _) = evict(script.clone()).await;
        assert_eq!(report.outcome, EvictOutcome::Leaves, "{script:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_pod_without_its_condition_is_not_deleted() {
    let refused = || [(Method::PATCH, 403, status(403, "no right")), (Method::GET, 200, pod("uid", false))];
    let (report, _) = evict((0..super::REFUSALS_MAX).flat_map(|_| refused()).collect()).await;
    assert_eq!(report.outcome, EvictOutcome::Refused);
}

#[tokio::test(start_paused = true)]
async fn the_fence_ends_it_all() {
    let (report, fenced) = evict(vec![(Method::PATCH, 422, status(422, FENCE))]).await;
    assert_eq!(report.outcome, EvictOutcome::Fenced);
    assert!(fenced.is_fenced());
}

fn claimant() -> GangKey {
    GangKey::new("ns", "claimant")
}

/// The claimant's Hold.
fn hold() -> HoldRecord {
    HoldRecord {
        gang: claimant(),
        rule: Some(EvictionRule::Reclaim),
        members: Vec::new(),
        victims: Vec::new(),
        expires: jiff::Timestamp::UNIX_EPOCH,
    }
}

#[tokio::test(start_paused = true)]
async fn who_could_not_be_told_yet_is_spared_when_its_hold_is_taken_back() {
    let written = (Method::POST, 201, json!({}));
    let mut stage = Stage::with_hold(vec![written, (Method::PATCH, 500, status(500, "who knows"))]);
    // The first try fails; before the next one the Hold goes. Another try would find no answer in the script, and panic.
    stage.played().await;
    stage.take_back_hold(1);
    assert_eq!(stage.report(Duration::from_mins(1)).await.outcome, EvictOutcome::Spared);
}

#[tokio::test(start_paused = true)]
async fn a_gang_of_which_one_pod_was_told_goes_whole_though_its_hold_is_taken_back() {
    let written = (Method::POST, 201, json!({}));
    let told = (Method::PATCH, 200, json!({}));
    let script = vec![written, told, (Method::DELETE, 500, status(500, "who knows"))];
    let mut stage = Stage::with_hold(script);
    stage.played().await;
    // The Hold and the pod.
    stage.take_back_hold(2);
    assert_eq!(stage.report(Duration::from_mins(1)).await.outcome, EvictOutcome::Leaves);
}

#[tokio::test(start_paused = true)]
async fn nobody_is_told_to_go_before_the_hold_is_written_and_nobody_without_one() {
    let script = (0..2).map(|_| (Method::POST, 500, status(500, "who knows"))).collect();
    let mut stage = Stage::with_hold(script);
    // Any write to the pod would find no answer in the script, and panic.
    tokio::time::sleep(Duration::from_millis(1500)).await;
    assert!(stage.is_played() && stage.reports.is_empty());
    stage.take_back_hold(1);
    assert_eq!(stage.report(Duration::from_mins(10)).await.outcome, EvictOutcome::Spared);
}

#[tokio::test(start_paused = true)]
async fn who_may_go_only_before_it_starts_stays_once_it_has() {
    let seen = |phase: &str| json!({ "metadata": { "uid": "uid" }, "status": { "phase": phase } });
    let pending = |field: &str, state: &Value| json!({ "metadata": { "uid": "uid" }, "status": { "phase": "Pending", field: [state] } });
    let initializes = json!({ "state": { "running": { "startedAt": "2026-11-15T00:00:00Z" } } });
    let ended = json!({ "state": { "terminated": { "exitCode": 0 } } });
    let again = json!({ "state": { "waiting": {} }, "lastState": { "terminated": { "exitCode": 1 } } });
    let pulls = json!({ "state": { "waiting": { "reason": "ContainerCreating" } }, "lastState": {} });
    for (script, expect) in [
        (vec![(Method::GET, 200, seen("Running"))], EvictOutcome::Started),
        (vec![(Method::GET, 200, pending("initContainerStatuses", &initializes))], EvictOutcome::Started),
        (vec![(Method::GET, 200, pending("initContainerStatuses", &again))], EvictOutcome::Started),
        (vec![(Method::GET, 200, pending("containerStatuses", &ended))], EvictOutcome::Started),
        (
            vec![
                (Method::GET, 200, pending("containerStatuses", &pulls)),
                (Method::PATCH, 200, json!({})),
                (Method::DELETE, 200, json!({})),
            ],
            EvictOutcome::Leaves,
        ),
        (
            vec![
                (Method::GET, 200, seen("Pending")),
                (Method::PATCH, 200, json!({})),
                (Method::DELETE, 200, json!({})),
            ],
            EvictOutcome::Leaves,
        ),
    ] {
        let (report, _) = evict_as(unless_started(), script).await;
        assert_eq!(report.outcome, expect);
    }
}

fn unless_started() -> EvictRequest {
    unwinding(true)
}

fn unwinding(unless_started: bool) -> EvictRequest {
    let cause = EvictCause::Unwind { why: "found no room".to_owned(), unless_started };
    EvictRequest { cause, ..request(Vec::new()) }
}

#[tokio::test(start_paused = true)]
async fn an_unwinding_that_is_called_off_before_anybody_was_told_deletes_nobody() {
    let unclear = |method: Method| (method, 500, status(500, "who knows"));
    for (unless_started, script) in
        [(false, vec![unclear(Method::PATCH)]), (true, vec![unclear(Method::GET)])]
    {
        let mut stage = Stage::new(script);
        stage.evictor.evict(unwinding(unless_started));
        // The first try fails; before the next one it is called off. Another try would find no answer in the script.
        stage.played().await;
        stage.evictor.call_off(GangKey::new("ns", "victim"));
        assert_eq!(stage.report(Duration::from_mins(1)).await.outcome, EvictOutcome::Spared);
    }
}

#[tokio::test(start_paused = true)]
async fn a_gang_of_which_one_pod_was_told_is_unwound_whole_though_that_is_called_off() {
    let told = || (Method::PATCH, 200, json!({}));
    let mut stage = Stage::new(vec![told(), (Method::DELETE, 500, status(500, "who knows"))]);
    stage.evictor.evict(unwinding(false));
    stage.played().await;
    stage.evictor.call_off(GangKey::new("ns", "victim"));
    stage.left.lock().expect("the script").push_back((Method::DELETE, 200, json!({})));
    assert_eq!(stage.report(Duration::from_mins(1)).await.outcome, EvictOutcome::Leaves);
    assert!(stage.is_played());
}

#[tokio::test(start_paused = true)]
async fn a_report_says_what_it_was_for() {
    let gone = |method: Method| (method, 404, status(404, "gone"));
    let (claimed, _) = evict_as(request(Vec::new()), vec![gone(Method::PATCH)]).await;
    assert_eq!(claimed.request, request(Vec::new()));
    let (unwound, _) = evict_as(unless_started(), vec![gone(Method::GET), gone(Method::PATCH)]).await;
    assert_eq!(unwound.request, unless_started());
}

#[tokio::test(start_paused = true)]
async fn a_read_without_a_clear_answer_does_not_say_that_a_pod_has_started() {
    let unclear = || [429, 500, 504].map(|code| (Method::GET, code, status(code, "who knows")));
    let seen = |phase: &str| json!({ "metadata": { "uid": "uid" }, "status": { "phase": phase } });
    let told_and_deleted = vec![(Method::PATCH, 200, json!({})), (Method::DELETE, 200, json!({}))];
    for (phase, rest, expect) in
        [("Pending", told_and_deleted, EvictOutcome::Leaves), ("Running", Vec::new(), EvictOutcome::Started)]
    {
        let read = (Method::GET, 200, seen(phase));
        let script = unclear().into_iter().chain([read]).chain(rest).collect();
        let (report, _) = evict_as(unless_started(), script).await;
        assert_eq!(report.outcome, expect, "{phase}");
    }
}

#[tokio::test(start_paused = true)]
async fn who_may_not_be_read_is_not_taken_for_started() {
    // A refusal is followed by a look whether the pod is gone.
    let refused = (0..2 * super::REFUSALS_MAX).map(|_| (Method::GET, 403, status(403, "no right")));
    let (report, _) = evict_as(unless_started(), refused.collect()).await;
    assert_eq!(report.outcome, EvictOutcome::Refused);
}

#[tokio::test(start_paused = true)]
async fn reads_without_an_answer_do_not_keep_the_evictor_from_stopping() {
    let mut stage = Stage::new((0..100).map(|_| (Method::GET, 500, status(500, "down"))).collect());
    stage.evictor.evict(unless_started());
    let reported = tokio::time::timeout(Duration::from_mins(1), stage.reports.recv()).await;
    assert!(reported.is_err(), "nothing is known: {reported:?}");
    // It waits for another try: nothing is under way.
    tokio::time::timeout(Duration::from_secs(1), stage.evictor.stop()).await.expect("it stops at once");
    assert_eq!(stage.reports.recv().await, None);
}

#[tokio::test(start_paused = true)]
async fn a_gangs_pods_are_read_together_and_every_request_counts_as_under_way() {
    type Server = fn(&Method) -> (u16, Value);
    // Each pod is read, told and deleted.
    let lets_them_go: Server = |_| (200, pod("uid", false));
    // Each pod is in conflict, and is read to learn that it is gone.
    let has_others: Server =
        |method| if *method == Method::GET { (200, pod("other", false)) } else { (409, status(409, "uid")) };
    for (server, request) in [(lets_them_go, unless_started()), (has_others, request(Vec::new()))] {
        let (writes, traffic) = slow_writes(server);
        let mut stage = Stage::on(writes, Script::default());
        let pods = (0..100).map(|index| PodKey::new("ns", format!("pod-{index}"), "uid")).collect();
        stage.evictor.evict(EvictRequest { pods, ..request });
        // At most 300 requests of a second, 32 at a time.
        let report = stage.report(Duration::from_secs(15)).await;
        assert_eq!(report.outcome, EvictOutcome::Leaves);
        assert_eq!(traffic.most(), super::IN_FLIGHT_MAX);
    }
}
