//! What a case was told and what was planned, short enough to read.

use std::fmt::Write;

use cluster_model::plan::{MemberPlacement, Plan};
use cluster_model::{Amounts, ClusterChange, GpuType, Node, Pod, Queue, Resources, Terms};
use jiff::Timestamp;

pub fn change(change: &ClusterChange) -> String {
    match change {
        ClusterChange::Node(it) => node(it),
        ClusterChange::Pod(it) => pod(it),
        ClusterChange::Queue(it) => queue(it),
        ClusterChange::NodeGone(name) => format!("node {name} is gone"),
        ClusterChange::PodGone(key) => format!("pod {} ({}) is gone", key.name, key.uid),
        ClusterChange::QueueGone(name) => format!("queue {name} is gone"),
        ClusterChange::Namespace { name, labels } => format!("namespace {name} {labels:?}"),
        ClusterChange::NamespaceGone(name) => format!("namespace {name} is gone"),
        ClusterChange::Budget(it) => {
            format!("budget {} allows {} of {:?}", it.key.name, it.allowed, it.selector)
        }
        ClusterChange::BudgetGone(key) => format!("budget {} is gone", key.name),
    }
}

pub fn plan(plan: &Plan) -> String {
    let mut lines = String::new();
    let mut line = |text: String| writeln!(lines, "  {text}").expect("a string takes it");
    for it in &plan.placements {
        line(format!("starts {} in {}: {}", it.gang.name, it.queue, members(&it.members)));
    }
    for it in &plan.evictions {
        line(format!(
            "evicts {} for {} by {:?}, loses {}, moves {}",
            it.gang.name, it.claimant.name, it.why, it.lost_gpu_seconds, it.moves
        ));
    }
    for it in &plan.holds {
        line(format!(
            "holds for {} until {}: {}",
            it.gang.name,
            it.expires.as_second(),
            members(&it.members)
        ));
    }
    for it in &plan.reservations {
        line(format!("reserves for {} at {}: {:?}", it.gang.name, it.start.as_second(), it.nodes));
    }
    for it in &plan.waiting {
        let reasons: Vec<_> = it.reasons.iter().map(ToString::to_string).collect();
        line(format!("{} waits: {}", it.gang.name, reasons.join(" | ")));
    }
    lines
}

fn members(members: &[MemberPlacement]) -> String {
    let one = |it: &MemberPlacement| {
        let devices = if it.devices.is_empty() { String::new() } else { format!(" {:?}", it.devices) };
        format!("{}@{}{devices}", it.pod.name, it.node)
    };
    members.iter().map(one).collect::<Vec<_>>().join(", ")
}

fn resources(it: &Resources) -> String {
    format!("{} gpus {}m cpu {} Gi {} pods", it.gpus, it.cpu_millis, it.memory_bytes >> 30, it.pods)
}

fn node(it: &Node) -> String {
    let gpu_type = it.gpu_type.as_ref().map_or("no", |it| it.as_str());
    let mut text =
        format!("node {}: {gpu_type} {} at {:?}", it.name, resources(&it.allocatable), it.topology);
    let odd = [
        (!it.schedulable, "takes no pods"),
        (it.exact, "exact"),
        (it.spot, "spot"),
        (!it.labels.is_empty(), "labelled"),
        (!it.taints.is_empty(), "tainted"),
        (it.cordoned, "cordoned"),
    ];
    for (_, word) in odd.iter().filter(|(is, _)| *is) {
        write!(text, ", {word}").expect("a string takes it");
    }
    if !it.other_allocatable.is_empty() {
        write!(text, ", {:?} {:?}", it.labels, it.other_allocatable).expect("a string takes it");
    }
    if let Some(power) = it.power {
        write!(text, ", {} + {} W", power.idle_watts, power.gpu_watts).expect("a string takes it");
    }
    text
}

fn amounts(it: Option<&Amounts>) -> String {
    let Some(it) = it else { return "none".to_owned() };
    let gpus: Vec<_> = it.gpus.iter().map(|(name, gpus)| format!("{gpus} {name}")).collect();
    format!("[{}] cpu {:?} memory {:?}", gpus.join(" "), it.cpu_millis, it.memory_bytes.map(|it| it >> 30))
}

fn queue(it: &Queue) -> String {
    format!(
        "queue {} under {:?} weight {}: quota {}, limit {}, lends {}, {:?} {:?} half life {} up to {:?}{}",
        it.name,
        it.parent.as_ref().map(ToString::to_string),
        it.weight,
        amounts(it.quota.as_ref()),
        amounts(it.limit.as_ref()),
        amounts(it.lend.as_ref()),
        it.reclaim,
        it.bank,
        it.half_life_seconds,
        it.highest_tier,
        if it.out_of_budget { ", out of budget" } else { "" }
    )
}

fn pod(it: &Pod) -> String {
    let mut text = format!("pod {} ({}) size {:?}", it.key.name, it.key.uid, it.gang_size);
    let queue = it.queue.as_ref().map_or("none", |it| it.as_str());
    let types: Vec<_> = it.gpu_types.iter().map(GpuType::as_str).collect();
    let mut add = |part: String| text.push_str(&part);
    add(format!(" in {queue} priority {}: {} {types:?}", it.priority, resources(&it.requests)));
    add(format!(" {:?} since {}", it.device, it.created.as_second()));
    if let Some(affinity) = &it.node_affinity {
        add(format!(" {affinity:?}"));
    }
    if !it.other_requests.is_empty() || !it.host_ports.is_empty() {
        add(format!(" {:?} {:?}", it.other_requests, it.host_ports));
    }
    if let Some(node) = &it.node {
        add(format!(" ON {node} {:?} from {:?}", it.devices, it.started.map(Timestamp::as_second)));
        add(format!(" saved {:?}", it.checkpointed.map(Timestamp::as_second)));
    }
    let odd = [
        (it.terminating, "terminating".to_owned()),
        (it.gated, "gated".to_owned()),
        (!it.ours, "foreign".to_owned()),
        (!it.unsupported.is_empty(), "unsupported".to_owned()),
        (it.group.is_some(), format!("group {:?}", it.group)),
        (!it.labels.is_empty(), format!("{:?}", it.labels)),
        (it.neighbours.is_some(), format!("{:?}", it.neighbours)),
        (!it.node_selector.is_empty(), "labelled nodes only".to_owned()),
        (!it.tolerations.is_empty(), "tolerant".to_owned()),
        (*it.terms != Terms::default(), format!("{:?}", it.terms)),
    ];
    for (_, word) in odd.iter().filter(|(is, _)| *is) {
        add(format!(", {word}"));
    }
    text
}
