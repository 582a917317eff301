use api_types::machine_type::CapacityType;
use api_types::names::LEAVING_TAINT;
use cluster_model::{ClusterChange, ClusterState, Pod, Taint, TaintEffect};

use super::Interruptions;
use crate::claim::Claim;
use crate::testing::{at, boot, catalogue, claims, launch, members, open, place, spot_machine, state};

/// Two spot machines in use.
fn in_use() -> (ClusterState, Vec<Claim>) {
    let mut state = state([]);
    let catalogue = catalogue([spot_machine("h100")]);
    let mut launch = launch("train", 0, 2);
    launch.machines.iter_mut().for_each(|(offer, _)| offer.place = place("a", CapacityType::Spot));
    let mut claims = claims(&launch);
    for claim in &mut claims {
        boot(&mut state, &catalogue, claim);
    }
    open(&mut state, &catalogue, &claims);
    for (pod, claim) in members("train", 2, 8).into_iter().zip(&claims) {
        state.apply(ClusterChange::Pod(Pod { node: claim.node.clone(), ..pod }));
    }
    (state, claims)
}

fn look(learned: &mut Interruptions, state: &ClusterState, claims: &[Claim], second: i64) -> usize {
    learned.look(state, claims, at(second)).len()
}

#[test]
fn hours_without_an_interruption_make_spot_better() {
    let ((state, claims), mut learned) = (in_use(), Interruptions::default());
    let offer = &claims[0].offer;
    assert!((learned.per_hour(offer) - 0.25).abs() < 1e-9, "four hours, before anything was seen");
    for second in (0..=4 * 3_600).step_by(60) {
        assert_eq!(look(&mut learned, &state, &claims, second), 0);
    }
    let rate = learned.per_hour(offer);
    assert!((0.125..0.13).contains(&rate), "eight hours for one, less what is forgotten of four: {rate}");
    look(&mut learned, &state, &claims, 20 * 3_600);
    let after_gap = learned.per_hour(offer);
    assert!(after_gap > rate, "of what was not looked at nothing is learned: {after_gap}");
}

#[test]
fn machines_that_go_together_are_one_interruption_and_each_is_counted_once() {
    let ((mut state, mut claims), mut learned) = (in_use(), Interruptions::default());
    look(&mut learned, &state, &claims, 0);
    // The first is told to leave; then its claim goes; then it is gone. The second vanishes soon after.
    let node = state.node_object(claims[0].node.as_ref().unwrap()).unwrap().clone();
    let leaving = Taint { key: LEAVING_TAINT.into(), value: "spot".into(), effect: TaintEffect::NoSchedule };
    state.apply(ClusterChange::Node(cluster_model::Node { taints: vec![leaving], ..node }));
    assert_eq!(look(&mut learned, &state, &claims, 10), 1);
    claims[0].leaving = true;
    assert_eq!(look(&mut learned, &state, &claims, 20), 0);
    let offer = claims.pop().unwrap().offer;
    assert_eq!(look(&mut learned, &state, &claims, 30), 1);
    assert_eq!(look(&mut learned, &state, &[], 40), 0);
    let rate = learned.per_hour(&offer);
    assert!((0.49..=0.5).contains(&rate), "two in four hours, one of them made up: {rate}");
}

#[test]
fn a_machine_that_is_given_back_was_not_taken_back() {
    let ((mut state, claims), mut learned) = (in_use(), Interruptions::default());
    look(&mut learned, &state, &claims, 0);
    for pod in members("train", 2, 8) {
        state.apply(ClusterChange::PodGone(pod.key));
    }
    assert_eq!(look(&mut learned, &state, &claims, 10), 0, "they have no pods any more");
    assert_eq!(look(&mut learned, &state, &[], 20), 0);
    let on_demand: Vec<Claim> = in_use()
        .1
        .into_iter()
        .map(|mut claim| {
            claim.offer.place.capacity_type = CapacityType::OnDemand;
            claim
        })
        .collect();
    let (state, _) = in_use();
    look(&mut learned, &state, &on_demand, 30);
    assert_eq!(look(&mut learned, &state, &[], 40), 0, "machines on demand are not taken back");
}

#[test]
fn the_market_is_looked_at_every_ten_minutes_and_outages_are_learned() {
    let ((state, claims), mut learned) = (in_use(), Interruptions::default());
    let offer = claims[0].offer.clone();
    let before = learned.lifetimes_of(&offer);
    look(&mut learned, &state, &claims, 0);
    for second in (0..3_600).step_by(60) {
        learned.look_at_market(std::iter::empty(), at(second));
    }
    let up = learned.lifetimes_of(&offer);
    for second in (3_600..40_000).step_by(60) {
        learned.look_at_market(std::iter::once(&offer), at(second));
    }
    let away = learned.lifetimes_of(&offer);
    let none = crate::spot::Lifetimes::default();
    let back = |lifetimes: &crate::spot::Lifetimes| lifetimes.chances(&none, 600).back[3];
    assert_ne!(before, up);
    assert!(back(&away) < back(&up), "an outage that lasts is expected to last");
}
