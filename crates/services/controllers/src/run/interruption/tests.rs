use api_types::Run;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use super::{behind_failure, interruption};
use crate::nodes::{Leaving, NodeFacts};
use crate::run::job::JobFacts;
use crate::run::member::{Member, PodPhase};
use crate::run::sight::{Sight, World};
use crate::run::testing::{NO_NODES, at, attempted, exited, job, nodes, running, starting, waiting, world};

fn word(run: &Run, pods: &[Member], world: &World<'_>) -> Option<String> {
    interruption(Sight { run, job: Some(&job()), pods }, world).map(|it| it.reason)
}

fn taken(why: &str) -> Member {
    Member { deleted: true, disruption: Some(why.to_owned()), ..running(1) }
}

#[test]
fn each_way_to_lose_a_machine_has_its_word() {
    let run = attempted(Some("job-uid"));
    let leaving = |why: &str| {
        let at = Some("2026-11-16T12:00:00Z".to_owned());
        NodeFacts { leaving: Some(Leaving { why: why.to_owned(), at }), ..NodeFacts::default() }
    };
    let sick = NodeFacts { sick: Some("reset-gpu".to_owned()), ..NodeFacts::default() };
    let lost = NodeFacts { lost_since: Some(at(50)), ..NodeFacts::default() };
    for (facts, expect) in [
        (leaving("spot"), Some("SpotNotice")),
        (leaving("maintenance"), Some("Maintenance")),
        (sick, Some("GpuSick")),
        (lost, Some("NodeLost")),
        (NodeFacts::default(), None),
    ] {
        let nodes = nodes([("node-1", facts)]);
        let world = World { nodes: &nodes, ..world() };
        assert_eq!(word(&run, &[running(0), running(1)], &world).as_deref(), expect);
        assert_eq!(word(&run, &[running(0), starting(1)], &world).as_deref(), expect, "not started yet");
        assert_eq!(word(&run, &[running(0), exited(1, 0, 60)], &world), None, "that member is done");
        assert_eq!(word(&run, &[running(0), running(2)], &world), None, "another machine");
    }
}

#[test]
fn who_takes_a_member_away_is_told() {
    let run = attempted(Some("job-uid"));
    for (why, expect) in [
        ("PreemptionByWarpyard", "Preempted"),
        ("GangStartFailed", "Unwound"),
        ("MovedByWarpyard", "Moved"),
        ("DeletionByPodGC", "NodeLost"),
        ("DeletionByTaintManager", "NodeLost"),
        ("EvictionByEvictionAPI", "Evicted"),
        ("TerminationByKubelet", "Evicted"),
    ] {
        assert_eq!(word(&run, &[running(0), taken(why)], &world()).as_deref(), Some(expect), "{why}");
    }
    let waits = Member { disruption: Some("GangStartFailed".to_owned()), ..waiting(1) };
    assert_eq!(word(&run, &[waits], &world()), None, "nothing had begun");
}

#[test]
fn a_deleted_pod_interrupts_unless_the_others_end_because_of_a_failure() {
    let run = attempted(Some("job-uid"));
    let deleted = Member { deleted: true, ..running(1) };
    assert_eq!(word(&run, &[running(0), deleted.clone()], &world()).as_deref(), Some("PodDeleted"));
    assert_eq!(word(&run, &[exited(0, 1, 50), deleted.clone()], &world()), None);
    let failing = JobFacts { failing_since: Some(at(60)), ..job() };
    let pods = [running(0), deleted];
    assert_eq!(interruption(Sight { run: &run, job: Some(&failing), pods: &pods }, &world()), None);
}

#[test]
fn a_member_that_was_replaced_unseen_is_noticed() {
    let mut run = attempted(Some("job-uid"));
    run.status.as_mut().unwrap().attempts[0].started_at = Some(Time(at(10)));
    let young = Member { created: Some(at(11)), ..running(1) };
    assert_eq!(word(&run, &[running(0), running(1)], &world()), None);
    assert_eq!(word(&run, &[running(0), young.clone()], &world()).as_deref(), Some("MemberLost"));
    let bound_later = |pod: Member| Member { bound_at: Some(at(12)), ..pod };
    let slow = [bound_later(running(0)), bound_later(young)];
    assert_eq!(word(&run, &slow, &world()), None, "the clock of a node is slow");
}

#[test]
fn a_member_whose_kubelet_did_not_take_or_keep_it_did_not_fail_itself() {
    let run = attempted(Some("job-uid"));
    let reason =
        |pods: &[Member]| behind_failure(Sight { run: &run, job: None, pods }, NO_NODES).map(|it| it.reason);
    let refused = |why: &str| Member { phase: PodPhase::Failed, reason: Some(why.to_owned()), ..starting(1) };
    for why in ["UnexpectedAdmissionError", "OutOfnvidia.com/gpu", "NodeAffinity"] {
        assert_eq!(reason(&[exited(0, 1, 50), refused(why)]).as_deref(), Some("NodeRefused"), "{why}");
    }
    assert_eq!(reason(&[refused("DeadlineExceeded")]), None);
    let mut lost = exited(1, 137, 50);
    lost.exit.as_mut().unwrap().reason = Some("ContainerStatusUnknown".to_owned());
    assert_eq!(reason(&[lost]).as_deref(), Some("NodeRestarted"));
    assert_eq!(reason(&[exited(1, 137, 50)]), None);
}

#[test]
fn when_most_machines_are_silent_it_is_not_the_machines() {
    let run = attempted(Some("job-uid"));
    let silent = NodeFacts { lost_since: Some(at(90)), ..NodeFacts::default() };
    let nodes = nodes([("node-0", silent)]);
    let at = |is_deaf| World { nodes: &nodes, is_deaf, ..world() };
    assert_eq!(word(&run, &[running(0)], &at(false)).as_deref(), Some("NodeLost"));
    assert_eq!(word(&run, &[running(0)], &at(true)), None);
}

#[test]
fn a_failure_on_a_sick_machine_is_the_machines() {
    let run = attempted(Some("job-uid"));
    let sick = NodeFacts { sick: Some("inspect".to_owned()), ..NodeFacts::default() };
    let sight = |pods| Sight { run: &run, job: None, pods };
    let pods = [running(0), exited(1, 1, 50)];
    assert_eq!(behind_failure(sight(&pods), &nodes([("node-1", sick.clone())])).unwrap().reason, "GpuSick");
    assert_eq!(behind_failure(sight(&pods), &nodes([("node-0", sick)])), None);
    let evicted = Member { phase: PodPhase::Failed, ..taken("TerminationByKubelet") };
    assert_eq!(behind_failure(sight(&[evicted]), NO_NODES).unwrap().reason, "Evicted");
}
