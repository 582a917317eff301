//! Our side: the stored objects as our watches would bring them, the state, the planner's verdict, and the
//! verdict of the judge, which has code of its own.

use std::collections::BTreeMap;

use anyhow::Context;
use api_types::names;
use cluster_convert::{namespace_change, node_change, pod_change, pod_key};
use cluster_model::{ClusterChange, ClusterState, NodeName, PodKey, Queue};
use jiff::Timestamp;
use placement::{GangPlacement, MemberPlacement, Plan, Policy};
use plan_check::check_plan;
use serde::de::DeserializeOwned;
use serde_json::Value;
use slim_objects::{SlimNamespace, SlimNode, SlimPod};

use crate::case::{Case, Judged};
use crate::generate::pod::QUEUE;

/// No rule on nodes looks at the time.
const NOW: Timestamp = Timestamp::UNIX_EPOCH;

/// Our differences from upstream, in words; empty if our predicates and the judge agree on every node, and the
/// planner acts accordingly.
pub fn disagreements(judged: &Judged) -> anyhow::Result<Vec<String>> {
    let (mut state, pod) = state_of(&judged.stored)?;
    let ours = placement::testing::verdicts(&state, &pod);
    let mut found = different_verdicts(judged, &ours);
    found.extend(wrong_judgements(judged, &state, &pod));
    found.extend(wrong_placement(judged, placed_on(&mut state, &pod).as_ref()));
    Ok(found)
}

/// Whether the pod that waits is in our queue and names our scheduler, and no other pod waits for us: it would compete.
pub fn is_ours_to_place(case: &Case) -> bool {
    let is_ours = |pod: &Value| pod["spec"]["schedulerName"] == names::SCHEDULER_NAME;
    let others_are_bound = case.pods.iter().all(|pod| !is_ours(pod) || !pod["spec"]["nodeName"].is_null());
    is_ours(&case.pod) && case.pod["metadata"]["labels"][names::QUEUE_LABEL] == QUEUE && others_are_bound
}

/// The state of a case, and its waiting pod.
fn state_of(case: &Case) -> anyhow::Result<(ClusterState, PodKey)> {
    let mut state = ClusterState::default();
    let mut queue = Queue::new(QUEUE);
    for namespace in &case.namespaces {
        let name = namespace["metadata"]["name"].as_str().context("a namespace without a name")?;
        queue.namespaces.insert(name.into());
        state.apply(namespace_change(&read::<SlimNamespace>(namespace)?));
    }
    state.apply(ClusterChange::Queue(queue));
    for node in &case.nodes {
        state.apply(node_change(&read::<SlimNode>(node)?));
    }
    for pod in &case.pods {
        state.apply(pod_change(&read::<SlimPod>(pod)?));
    }
    let waiting: SlimPod = read(&case.pod)?;
    state.apply(pod_change(&waiting));
    Ok((state, pod_key(&waiting)))
}

fn read<T: DeserializeOwned>(object: &Value) -> anyhow::Result<T> {
    T::deserialize(object).with_context(|| format!("cannot read {object}"))
}

fn different_verdicts(judged: &Judged, ours: &BTreeMap<NodeName, bool>) -> Vec<String> {
    let mut found = Vec::new();
    for (name, theirs) in &judged.nodes {
        match ours.get(&NodeName::from(name.as_str())) {
            Some(fits) if *fits == theirs.fits => {}
            Some(true) => found.push(format!("{name} fits us; {} says: {}", theirs.plugin, theirs.reason)),
            Some(false) => found.push(format!("{name} fits upstream, and not us")),
            None => found.push(format!("we do not know {name}")),
        }
    }
    let unknown = ours.keys().filter(|name| !judged.nodes.contains_key(name.as_str()));
    found.extend(unknown.map(|name| format!("upstream does not know {name}")));
    found
}

/// Shows the judge a plan for each node that puts the pod there. It must refuse exactly those that upstream
/// refuses.
fn wrong_judgements(judged: &Judged, state: &ClusterState, pod: &PodKey) -> Vec<String> {
    let Some(id) = state.pod_id(pod) else { return vec!["the pod is not in the model".to_owned()] };
    let gang = &state.pod(id).pod().gang;
    let mut found = Vec::new();
    for (name, theirs) in &judged.nodes {
        let mut plan = Plan::empty(state.generation(), NOW);
        let member = MemberPlacement { pod: pod.clone(), node: name.as_str().into(), devices: Vec::new() };
        let gang =
            GangPlacement { gang: gang.clone(), queue: QUEUE.into(), run: None, members: vec![member] };
        plan.placements.push(gang);
        let violations = check_plan(state, &plan, &Policy::default());
        match (theirs.fits, violations.first()) {
            (true, Some(violation)) => {
                found.push(format!("{name} fits upstream, and the judge says: {violation:?}"));
            }
            (false, None) => {
                found.push(format!("the judge allows {name}; {} says: {}", theirs.plugin, theirs.reason));
            }
            _ => {}
        }
    }
    found
}

/// The node that the planner chooses, if only predicates count.
fn placed_on(state: &mut ClusterState, pod: &PodKey) -> Option<NodeName> {
    let plan = placement::plan(state, &Policy::default(), NOW);
    let mut members = plan.placements.iter().flat_map(|gang| &gang.members);
    members.find(|member| member.pod == *pod).map(|member| member.node.clone())
}

fn wrong_placement(judged: &Judged, placed: Option<&NodeName>) -> Option<String> {
    let fitting = judged.nodes.iter().find(|(_, verdict)| verdict.fits).map(|(name, _)| name);
    match (placed, fitting) {
        (None, Some(fitting)) => Some(format!("the plan leaves it waiting, and it fits {fitting}")),
        (Some(node), _) if !judged.nodes.get(node.as_str()).is_some_and(|it| it.fits) => {
            Some(format!("the plan puts it on {node}, where it does not fit"))
        }
        _ => None,
    }
}
