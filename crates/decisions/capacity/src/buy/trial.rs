//! The copy of the state on which everything is tried.

use std::collections::{BTreeMap, BTreeSet};

use cluster_model::plan::Plan;
use cluster_model::{ClusterChange, ClusterState, GangKey, Node, Pod, QueueName};
use jiff::{SignedDuration, Timestamp};
use placement::Policy;

use super::bought::{Bought, RefusedGang};
use super::wanting::members;
use crate::catalogue::OfferKey;
use crate::claim::{Launch, LaunchKey, Purpose};
use crate::launches::UnderWay;
use crate::reserve;
use crate::view::View;

/// See the module.
pub(super) struct Trial<'a> {
    state: ClusterState,
    policy: &'a Policy,
    now: Timestamp,
}

/// What one gang would get.
pub(super) struct Shape {
    pub gang: GangKey,
    pub queue: Option<QueueName>,
    /// With the price of each.
    pub machines: Vec<(OfferKey, i64)>,
    /// What they would be.
    pub nodes: Vec<Node>,
    pub boot_seconds: u32,
    pub why: String,
}

impl<'a> Trial<'a> {
    /// The state with the machines that are on their way.
    pub fn new(view: &View<'a>, under_way: &BTreeMap<GangKey, UnderWay>) -> Self {
        let mut state = view.state.clone();
        state.advance(view.now);
        for (gang, launch) in under_way {
            let mark = reserve::mark(gang);
            let there: BTreeSet<&LaunchKey> = [&launch.launch].into();
            let names = view.claims.iter().filter(|claim| there.contains(&claim.launch));
            let known =
                names.filter(|claim| claim.node.as_ref().is_some_and(|it| state.node_id(it).is_some()));
            let mut known: Vec<OfferKey> = known.map(|claim| claim.offer.clone()).collect();
            for (index, offer) in offers_of(launch).into_iter().enumerate() {
                // A machine that is a node already is not on its way.
                if let Some(position) = known.iter().position(|it| *it == offer) {
                    known.swap_remove(position);
                    continue;
                }
                let Some(machine) = view.catalogue.get(&offer.machine) else { continue };
                let node = machine.node(&offer.place, format!("{mark}-{index}"), &mark);
                state.apply(ClusterChange::Node(node));
            }
            tolerate(&mut state, gang);
        }
        Self { state, policy: view.policy, now: view.now }
    }

    /// With all that was bought so far.
    pub fn state(&self) -> &ClusterState {
        &self.state
    }

    /// What the planner would do.
    pub fn plan(&mut self) -> Plan {
        placement::plan(&mut self.state, self.policy, self.now)
    }

    /// Plans with all of it at once. Those that start are bought; returns those that do not and may be tried again.
    pub fn verify(&mut self, shapes: Vec<Shape>, may_try_again: bool, bought: &mut Bought) -> Vec<GangKey> {
        if shapes.is_empty() {
            return Vec::new();
        }
        let mut tried = Trial { state: self.state.clone(), policy: self.policy, now: self.now };
        for shape in &shapes {
            tried.add(shape);
        }
        let plan = tried.plan();
        let starts: BTreeSet<&GangKey> = plan.placements.iter().map(|placement| &placement.gang).collect();
        let mut again = Vec::new();
        for shape in shapes {
            if starts.contains(&shape.gang) {
                self.add(&shape);
                bought.launches.push(shape.launch(self.now));
            } else if may_try_again {
                again.push(shape.gang);
            } else {
                let waiting = plan.waiting.iter().find(|waiting| waiting.gang == shape.gang);
                // People who read this may not be allowed to see the gangs of others.
                let reason =
                    waiting.and_then(|waiting| waiting.reasons.iter().find(|it| it.about().gang.is_none()));
                let why = reason.map_or_else(|| "others come first".to_owned(), ToString::to_string);
                let why = format!("with {} it would still wait: {why}", shape.why);
                bought.refused.push(RefusedGang { gang: shape.gang, why });
            }
        }
        again
    }

    fn add(&mut self, shape: &Shape) {
        shape.nodes.iter().for_each(|node| self.state.apply(ClusterChange::Node(node.clone())));
        tolerate(&mut self.state, &shape.gang);
    }
}

impl Shape {
    fn launch(self, now: Timestamp) -> Launch {
        let boot = SignedDuration::from_secs(i64::from(self.boot_seconds));
        Launch {
            key: LaunchKey { purpose: Purpose::Gang(self.gang), number: now.as_second() },
            queue: self.queue,
            price_micros: self.machines.iter().map(|(_, price)| price).sum(),
            machines: self.machines,
            ready_by: now.saturating_add(boot).unwrap_or(Timestamp::MAX),
            why: self.why,
        }
    }
}

fn offers_of(launch: &UnderWay) -> Vec<OfferKey> {
    let machines = launch.machines.iter();
    machines.flat_map(|(offer, count)| std::iter::repeat_n(offer.clone(), *count as usize)).collect()
}

/// The gang's pods tolerate its machines' taint, as in production.
fn tolerate(state: &mut ClusterState, gang: &GangKey) {
    let mark = reserve::mark(gang);
    let pods: Vec<Pod> = members(state, gang).into_iter().cloned().collect();
    for mut pod in pods {
        reserve::tolerate(&mut pod, &mark);
        state.apply(ClusterChange::Pod(pod));
    }
}
