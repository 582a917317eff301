//! 100 groups of 20 one-GPU pods: no two of a group on one host, and even over the racks.

use k8s_openapi::api::core::v1::{Affinity, Pod, TopologySpreadConstraint};
use serde_json::json;

use crate::scheduler::contender::Contender;
use crate::scheduler::contest::Load;
use crate::scheduler::report::Report;
use crate::scheduler::yard::{NAMESPACE, RACK, gangs, nodes};

const GROUPS: usize = 100;
const PODS_PER_GROUP: usize = 20;
const NODES: usize = 1_000;
/// Of 50 nodes each.
const RACKS: usize = 20;
const GROUP_LABEL: &str = "example.com/group";

pub async fn run(report: Report) -> anyhow::Result<()> {
    let groups = report.size(GROUPS);
    let mut pods = gangs("pod", NAMESPACE, groups * PODS_PER_GROUP, 1, 1);
    for (index, pod) in pods.iter_mut().enumerate() {
        spread(pod, &format!("group-{}", index / PODS_PER_GROUP))?;
    }
    let load = Load { nodes: nodes(report.size(NODES).max(RACKS), RACKS), pods, is_profiled: false };
    let bare = load.drain(Contender::Bare).await?;
    let contenders = [Contender::KubeScheduler, Contender::Ours];
    let rounds = load.contest(contenders, report).await?;
    let ratio = rounds.each(|[theirs, ours]| ours.per_second / theirs.per_second);
    let [theirs, ours] = [0, 1].map(|contender| rounds.each(|of| of[contender].per_second).median);
    let planning = rounds.each(|[_, ours]| ours.planning_percent).median;
    let reference = format!(
        "{ratio}; {ours:.0} pods/s; kube-scheduler {theirs:.0}, bare {:.0}; {groups} groups × {PODS_PER_GROUP}, {} nodes, {RACKS} \
         racks, {planning:.2} % planning; bar: 8",
        bare.per_second, load.nodes.count
    );
    report.figure("spread.ours_over_kube_scheduler", ratio.median, "ratio", &reference);
    Ok(())
}

/// Puts the pod into a group.
fn spread(pod: &mut Pod, group: &str) -> anyhow::Result<()> {
    let of_group = json!({ "matchLabels": { GROUP_LABEL: group } });
    let affinity: Affinity = serde_json::from_value(json!({
        "podAntiAffinity": { "requiredDuringSchedulingIgnoredDuringExecution": [{
            "labelSelector": of_group,
            "topologyKey": "kubernetes.io/hostname",
        }] },
    }))?;
    let over_racks: TopologySpreadConstraint = serde_json::from_value(json!({
        "maxSkew": 1,
        "topologyKey": RACK,
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": of_group,
    }))?;
    let labels = pod.metadata.labels.get_or_insert_default();
    labels.insert(GROUP_LABEL.to_owned(), group.to_owned());
    let spec = pod.spec.get_or_insert_default();
    spec.affinity = Some(affinity);
    spec.topology_spread_constraints = Some(vec![over_racks]);
    Ok(())
}
