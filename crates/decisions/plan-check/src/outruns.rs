//! A gang that is expected to end soon may take from one that will run for long yet, saves its state, and runs on
//! what its queue borrows.

use cluster_model::GangKey;
use cluster_model::plan::{Eviction, Plan};
use cluster_model::policy::Policy;

use crate::facts::Facts;
use crate::gangs::Decision;
use crate::violation::Violation;

pub(crate) fn by_expected_work<'a>(
    facts: &Facts<'a>,
    plan: &'a Plan,
    eviction: &Eviction,
    policy: &Policy,
    violations: &mut Vec<Violation>,
) {
    let mut wrong = |what| violations.push(Violation::NotTheRule { gang: eviction.gang.clone(), what });
    if !policy.eviction.by_expected_work {
        return wrong("the policy evicts none by expected work");
    }
    let outruns = policy.eviction.outruns;
    let (Some(claims), Some(gives)) = (facts.lead(&eviction.claimant), facts.lead(&eviction.gang)) else {
        return;
    };
    if eviction.moves {
        wrong("a moved gang is not evicted by expected work");
    }
    if !gives.terms.eviction.checkpoints {
        wrong("it does not save its state");
    }
    if facts.members(&eviction.gang).any(|member| member.pod.priority > claims.priority) {
        wrong("it is of a higher priority");
    }
    if facts.queue_of(gives).is_none() || facts.queue_of(claims).is_none() {
        wrong("one of the two has no queue");
    }
    let now = plan.made_at.as_second();
    if now - claims.created.as_second() < i64::from(outruns.after_seconds) {
        wrong("the claimant has not waited for long enough");
    }
    // The gang as a whole has run since its last member started, and has waited since its first one did.
    let started = facts.members(&eviction.gang).filter_map(|member| member.pod.started).max();
    let Some(started) = started else { return wrong("it has not started") };
    let (ran, waited) = (now - started.as_second(), started.as_second() - gives.created.as_second());
    if waited > i64::from(outruns.waited_seconds_max) {
        wrong("it waited for too long before");
    }
    if ran < waited.max(i64::from(outruns.ran_seconds_min)) {
        wrong("it has not run for long enough");
    }
    let (gets, gpus) = (gpus_got(facts, plan, &eviction.claimant), gpus_held(facts, &eviction.gang));
    let expected = |gang: &GangKey, gpus| facts.history.expected_seconds(&gang.namespace, gpus, plan.made_at);
    let limit = claims.terms.time_limit_seconds.map_or(i64::MAX, i64::from);
    let short = expected(&eviction.claimant, gets).min(limit);
    let long = expected(&eviction.gang, gpus).max(ran);
    let times = i64::from(outruns.times);
    if long < short * times {
        wrong("it is not expected to run for so much longer");
    }
    if long * gpus.max(1) < short * gets.max(1) * times {
        wrong("it is not expected to use so much more");
    }
}

fn gpus_got<'a>(facts: &Facts<'a>, plan: &'a Plan, gang: &GangKey) -> i64 {
    let decisions = Decision::all(plan).filter(|decision| decision.gang == gang);
    decisions.flat_map(|decision| decision.pods(facts)).map(|(pod, _)| pod.requests.gpus).sum()
}

fn gpus_held(facts: &Facts<'_>, gang: &GangKey) -> i64 {
    facts.running(gang).map(|(pod, _)| pod.requests.gpus).sum()
}
