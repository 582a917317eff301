use std::collections::BTreeMap;

use api_types::run::Attempt;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use super::{grow_after, next_members, resize, room};
use crate::nodes::NodeFacts;
use crate::run::sight::{Sight, World};
use crate::run::testing::{at, attempted, job, nodes, run, running, waiting, world};

fn node(gpus: u32) -> NodeFacts {
    NodeFacts { takes_pods: true, gpus, gpu_type: Some("H100".to_owned()), ..NodeFacts::default() }
}

#[test]
fn room_is_counted_by_whole_members_on_nodes_that_take_pods() {
    let mut spec = run().spec;
    let away = NodeFacts { takes_pods: false, ..node(8) };
    let nodes = nodes([("a", node(8)), ("b", node(16)), ("c", node(4)), ("d", away)]);
    assert_eq!(room(&spec, &nodes, &BTreeMap::new()), 3);
    let used = BTreeMap::from([("b".to_owned(), 1)]);
    assert_eq!(room(&spec, &nodes, &used), 2);
    spec.gpu_type = Some("A100".to_owned());
    assert_eq!(room(&spec, &nodes, &used), 0);
}

#[test]
fn an_elastic_run_takes_what_there_is_and_a_rigid_one_waits() {
    let mut run = run();
    let with = |room| World { room, ..world() };
    assert_eq!(next_members(&run, &with(2)), 4);
    run.spec.min_members = Some(2);
    for (room, expect) in [(0, 4), (1, 4), (2, 2), (3, 3), (4, 4), (9, 4)] {
        assert_eq!(next_members(&run, &with(room)), expect, "room for {room}");
    }
}

#[test]
fn it_grows_after_a_minute_and_shrinks_when_it_waits() {
    let mut run = attempted(Some("job-uid"));
    run.spec.min_members = Some(1);
    let status = run.status.as_mut().unwrap();
    (status.attempts[0].members, status.attempts[0].started_at) = (2, Some(Time(at(40))));
    let word = |run: &api_types::Run, pods: &[_], room, now| {
        let world = World { room, now: at(now), ..world() };
        resize(Sight { run, job: Some(&job()), pods }, &world).map(|it| it.reason)
    };
    let pods = [running(0), running(1)];
    assert_eq!(word(&run, &pods, 2, 99), None);
    assert_eq!(word(&run, &pods, 2, 100).as_deref(), Some("Growing"));
    assert_eq!(word(&run, &pods, 0, 100), None);
    run.status.as_mut().unwrap().attempts[0].members = 4;
    assert_eq!(word(&run, &pods, 9, 100), None, "it has all");
    run.status.as_mut().unwrap().attempts[0].started_at = None;
    assert_eq!(word(&run, &[waiting(0)], 2, 14), None);
    assert_eq!(word(&run, &[waiting(0)], 2, 15).as_deref(), Some("Shrinking"));
    assert_eq!(word(&run, &[waiting(0)], 9, 15).as_deref(), Some("Shrinking"), "quota is in the way");
    run.spec.min_members = Some(4);
    assert_eq!(word(&run, &[waiting(0)], 2, 15), None, "it is as small as may be");
    run.spec.min_members = None;
    assert_eq!(word(&run, &[waiting(0)], 2, 15), None, "not elastic");
}

/// Attempts of these sizes: those that started, and those that waited in vain.
fn history(attempts: &[(u32, bool)]) -> api_types::Run {
    let mut run = attempted(Some("job-uid"));
    run.spec.min_members = Some(1);
    let attempt = |(members, has_started): &(u32, bool)| Attempt {
        members: *members,
        started_at: has_started.then(|| Time(at(0))),
        reason: Some(if *has_started { "Growing" } else { "Shrinking" }.to_owned()),
        ..Attempt::default()
    };
    run.status.as_mut().unwrap().attempts = attempts.iter().map(attempt).collect();
    run
}

#[test]
fn what_did_not_start_is_followed_by_less_whatever_room_there_seems_to_be() {
    let next = |attempts: &[(u32, bool)], room| next_members(&history(attempts), &World { room, ..world() });
    assert_eq!(next(&[(4, false)], 9), 1);
    assert_eq!(next(&[(4, false)], 3), 3);
    assert_eq!(next(&[(2, true), (4, false)], 4), 2, "as many as have started");
    assert_eq!(next(&[(4, true), (4, false)], 4), 3);
    assert_eq!(next(&[(4, false), (1, true)], 4), 4);
}

#[test]
fn growing_in_vain_is_tried_ever_later() {
    let after =
        |attempts: &[(u32, bool)]| grow_after(&history(attempts).status.unwrap().attempts, 2).as_secs();
    assert_eq!(after(&[(2, true)]), 60);
    assert_eq!(after(&[(2, true), (4, false), (2, true)]), 120);
    assert_eq!(after(&[(2, true), (4, false), (2, true), (4, false), (2, true)]), 240);
    assert_eq!(after(&[(2, true), (4, false), (2, true), (4, true), (2, true)]), 60, "it worked in between");
    assert_eq!(after(&[(4, false); 60]), 64 * 60);
}
