//! Nodes for members that are alike: best fit, in one walk over the nodes in the order of what is free.
//!
//! Filling a node until nothing more fits and then going on to the next one is the same as choosing the best fit for
//! each member anew, because a node that was just used is still the fullest that fits. So a group costs one
//! walk, however many members it has.

use std::collections::HashMap;
use std::sync::Arc;

use cluster_model::plan::{Refusals, WaitReason};
use cluster_model::{ClusterState, GpuType, NodeId, NodeName, Pool, PoolKey, Resources};

use crate::gang::{Group, Request, Shape};
use crate::{Packing, Policy};

/// Searches of one plan. What failed once fails again: within a plan free capacity only shrinks.
pub(crate) struct Searches {
    packing: Packing,
    failed: HashMap<Class, Vec<WaitReason>>,
}

/// Gangs that find or miss the same nodes. Queue and priority do not matter for that.
type Class = (Vec<(Arc<Shape>, usize)>, Option<GpuType>);

impl Searches {
    pub fn new(policy: &Policy) -> Self {
        Self { packing: policy.packing, failed: HashMap::new() }
    }

    /// The reasons that a gang of the same class got earlier in this plan, with the numbers of that moment.
    pub fn failed_before(&self, request: &Request, gpu_type: Option<&GpuType>) -> Option<Vec<WaitReason>> {
        if self.failed.is_empty() {
            return None;
        }
        self.failed.get(&(request.class(), gpu_type.cloned())).cloned()
    }

    /// One node for each member of the group, or why not.
    pub fn find(
        &mut self,
        state: &ClusterState,
        request: &Request,
        group: &Group,
        gpu_type: Option<&GpuType>,
    ) -> Result<Vec<NodeId>, Vec<WaitReason>> {
        let gpu_type_of_group = gpu_type.filter(|_| group.shape.requests.gpus > 0);
        let found = match self.packing {
            Packing::BestFit => best_fit(state, group, gpu_type_of_group),
        };
        if let Err(reasons) = &found {
            self.failed.insert((request.class(), gpu_type.cloned()), reasons.clone());
        }
        found
    }
}

fn best_fit(
    state: &ClusterState,
    group: &Group,
    gpu_type: Option<&GpuType>,
) -> Result<Vec<NodeId>, Vec<WaitReason>> {
    let Shape { requests, node_selector, tolerations } = &*group.shape;
    let asked = group.members.len();
    let pools = match gpu_type {
        Some(gpu_type) => pools_of(state, gpu_type),
        None => state.pools().iter().collect(),
    };
    if let Some(gpu_type) = gpu_type {
        possible_at_all(&pools, gpu_type, requests.gpus)?;
    }
    let (open, closed): (Vec<_>, Vec<_>) = pools
        .into_iter()
        .partition(|(key, _)| key.taints.iter().all(|taint| taint.tolerated_by(tolerations)));

    let mut nodes = Vec::with_capacity(asked);
    let mut refusals = Refusals::default();
    // Members more that would fit if GPUs (or CPU, for members without GPUs) were all that counts.
    let mut fit_otherwise: i64 = 0;
    for (_, id) in candidates(&open, requests) {
        let node = state.node(id);
        let free = node.free();
        let labels = &node.object().expect("a node in a pool is there").labels;
        let matches = node_selector.iter().all(|(key, value)| labels.get(key) == Some(value));
        let fit = if matches { times(requests, &free) } else { 0 };
        let fit_by_leading = times(&leading(requests), &free);
        if fit < fit_by_leading {
            fit_otherwise = fit_otherwise.saturating_add(fit_by_leading - fit);
            refuse(&mut refusals, matches, requests, &left_over(&free, requests, fit));
        }
        let take = usize::try_from(fit).unwrap_or(usize::MAX).min(asked - nodes.len());
        nodes.extend(std::iter::repeat_n(id, take));
        if nodes.len() == asked {
            return Ok(nodes);
        }
    }
    for (_, id) in candidates(&closed, requests) {
        refusals.taint += 1;
        fit_otherwise = fit_otherwise.saturating_add(times(&leading(requests), &state.node(id).free()));
    }
    let gpus_free = open.iter().chain(&closed).map(|(_, pool)| pool.gpus_free()).sum();
    Err(shortage(group, gpu_type, nodes.len(), fit_otherwise, refusals, gpus_free))
}

fn pools_of<'a>(state: &'a ClusterState, gpu_type: &GpuType) -> Vec<(&'a PoolKey, &'a Pool)> {
    let first = PoolKey { gpu_type: Some(gpu_type.clone()), taints: Vec::new() };
    state.pools().range(first..).take_while(|(key, _)| key.gpu_type.as_ref() == Some(gpu_type)).collect()
}

fn possible_at_all(
    pools: &[(&PoolKey, &Pool)],
    gpu_type: &GpuType,
    asks: i64,
) -> Result<(), Vec<WaitReason>> {
    let largest = pools.iter().map(|(_, pool)| pool.largest_node_gpus()).max();
    match largest {
        None => Err(vec![WaitReason::NoSuchGpuType { gpu_type: Some(gpu_type.clone()) }]),
        Some(largest) if largest < asks => {
            Err(vec![WaitReason::TooLargeForAnyNode { gpu_type: gpu_type.clone(), asks, largest }])
        }
        Some(_) => Ok(()),
    }
}

/// Nodes with enough of what leads the search, the fullest first, ties by name. Members with GPUs look at free
/// GPUs; members without look at free CPU, on nodes without GPUs before all others.
fn candidates<'a>(
    pools: &[(&'a PoolKey, &'a Pool)],
    requests: &Resources,
) -> Box<dyn Iterator<Item = (&'a NodeName, NodeId)> + 'a> {
    if requests.gpus > 0 {
        let gpus = requests.gpus;
        return Box::new(merged(pools.iter().map(|(_, pool)| pool.with_free_gpus(gpus)).collect()));
    }
    // Who asks for no CPU fits on a node whose CPU is overcommitted.
    let cpu = if requests.cpu_millis > 0 { requests.cpu_millis } else { i64::MIN };
    let (with, without): (Vec<_>, Vec<_>) = pools.iter().partition(|(key, _)| key.gpu_type.is_some());
    let by_cpu = |pools: Vec<&(&'a PoolKey, &'a Pool)>| {
        merged(pools.into_iter().map(|(_, pool)| pool.with_free_cpu(cpu)).collect())
    };
    Box::new(by_cpu(without).chain(by_cpu(with)))
}

/// One order from several; there are as many as there are sets of taints, which are few.
fn merged<'a, I>(orders: Vec<I>) -> impl Iterator<Item = (&'a NodeName, NodeId)>
where
    I: Iterator<Item = (i64, &'a NodeName, NodeId)>,
{
    let mut orders: Vec<_> = orders.into_iter().map(Iterator::peekable).collect();
    std::iter::from_fn(move || {
        let heads = orders.iter_mut().enumerate().filter_map(|(index, order)| Some((*order.peek()?, index)));
        let (_, index) = heads.min()?;
        orders[index].next().map(|(_, name, id)| (name, id))
    })
}

/// How often `requests` fits into `free`.
fn times(requests: &Resources, free: &Resources) -> i64 {
    let pairs = [
        (requests.gpus, free.gpus),
        (requests.cpu_millis, free.cpu_millis),
        (requests.memory_bytes, free.memory_bytes),
        (requests.pods, free.pods),
    ];
    pairs
        .into_iter()
        .filter(|(asked, _)| *asked > 0)
        .map(|(asked, free)| (free / asked).max(0))
        .min()
        .unwrap_or(i64::MAX)
}

/// Only the resource that leads the search.
fn leading(requests: &Resources) -> Resources {
    match *requests {
        Resources { gpus, .. } if gpus > 0 => Resources { gpus, ..Resources::default() },
        Resources { cpu_millis, .. } if cpu_millis > 0 => Resources { cpu_millis, ..Resources::default() },
        Resources { pods, .. } => Resources { pods, ..Resources::default() },
    }
}

fn left_over(free: &Resources, requests: &Resources, times: i64) -> Resources {
    Resources {
        gpus: free.gpus - requests.gpus * times,
        cpu_millis: free.cpu_millis - requests.cpu_millis * times,
        memory_bytes: free.memory_bytes - requests.memory_bytes * times,
        pods: free.pods - requests.pods * times,
    }
}

fn refuse(refusals: &mut Refusals, matches: bool, requests: &Resources, free: &Resources) {
    let short = |asked: i64, free: i64| asked > 0 && free < asked;
    let count = if !matches {
        &mut refusals.node_selector
    } else if short(requests.cpu_millis, free.cpu_millis) {
        &mut refusals.cpu
    } else if short(requests.memory_bytes, free.memory_bytes) {
        &mut refusals.memory
    } else {
        &mut refusals.pods
    };
    *count += 1;
}

fn shortage(
    group: &Group,
    gpu_type: Option<&GpuType>,
    fit: usize,
    fit_otherwise: i64,
    refusals: Refusals,
    gpus_free: i64,
) -> Vec<WaitReason> {
    let count = |members: usize| u32::try_from(members).unwrap_or(u32::MAX);
    let (members_asked, members_that_fit) = (count(group.members.len()), count(fit));
    let requests = group.shape.requests;
    let mut reasons = Vec::new();
    if i64::from(members_that_fit).saturating_add(fit_otherwise) < i64::from(members_asked) {
        reasons.push(match gpu_type {
            Some(gpu_type) => WaitReason::NotEnoughGpus {
                gpu_type: gpu_type.clone(),
                members_asked,
                gpus_each: requests.gpus,
                members_that_fit,
                gpus_free,
            },
            None => WaitReason::NotEnoughCpu {
                members_asked,
                cpu_millis_each: requests.cpu_millis,
                members_that_fit,
            },
        });
    }
    if refusals.total() > 0 {
        let gpu_type = gpu_type.cloned();
        reasons.push(WaitReason::NodesRefused { gpu_type, members_asked, members_that_fit, refusals });
    }
    reasons
}
