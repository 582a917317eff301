//! What to buy for gangs that wait: the cheapest machines, on which the planner itself says that they start.
//!
//! ```text
//!   state + machines on their way ─► plan ─► gangs that wait for nothing but nodes
//!                                                │ mix: the cheapest machines for each
//!                                                ▼
//!   the same + those machines     ─► plan ─► those that start: bought;  the others: why not
//! ```
//!
//! One brain: order, quotas, budgets and topology are judged by the planner of production, on a copy of its state. A gang
//! that would start by itself before new machines are there buys nothing.

use std::collections::{BTreeMap, BTreeSet};

use api_types::machine_type::CapacityType;
use cluster_model::plan::{Plan, WaitReason, WaitingGang};
use cluster_model::{Change, ClusterState, GangKey, Level, Node, Pod, Resources};
use jiff::{SignedDuration, Timestamp};
use placement::Policy;

use crate::View;
use crate::catalogue::{Machine, Offer, OfferKey};
use crate::claim::{Claim, Launch, LaunchKey, Purpose};
use crate::demand::{Demand, Limits, Together};
use crate::launches::UnderWay;
use crate::memory::Memory;
use crate::mix::{self, Mix, Refusal};
use crate::money::money;
use crate::offering::{self, Location, Offering, Room};
use crate::pools;
use crate::reserve;

/// Launches that are decided at a time; who is left comes next time, in less than a second.
const LAUNCHES_MAX: usize = 64;

/// What is bought, and for whom nothing is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Bought {
    /// Orders.
    pub launches: Vec<Launch>,
    /// Gangs that wait for machines which are not bought.
    pub refused: Vec<Refused>,
    /// Gangs of one for which a pool may buy.
    pub from_pools: BTreeSet<GangKey>,
}

/// A gang for which nothing is bought, though it waits for nodes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refused {
    /// The gang.
    pub gang: GangKey,
    /// Why, in a sentence without a full stop.
    pub why: String,
}

/// Decides what to buy.
pub fn buy(view: &View<'_>, under_way: &BTreeMap<GangKey, UnderWay>, memory: &Memory) -> Bought {
    let mut bought = Bought::default();
    if view.catalogue.is_empty() {
        return bought;
    }
    let mut trial = Trial::new(view, under_way);
    let plan = trial.plan();
    let mut wanting = wanting(view, under_way, &plan, &mut bought);
    if let Some(why) = memory.silence(view.now) {
        bought.refused.extend(wanting.drain(..).map(|gang| Refused { gang, why: why.to_owned() }));
    }
    // Members may share machines that are there already; if the planner has other plans for those, all get new ones.
    for with_rooms in [true, false] {
        let offers = Offers::new(view, memory);
        let (shapes, without) = shapes(&trial.state, &wanting, offers, with_rooms, &mut bought);
        wanting = trial.verify(shapes, with_rooms, &mut bought);
        wanting.extend(without);
    }
    let singles = plan.waiting.iter().filter(|waiting| is_for_nodes(waiting)).map(|waiting| &waiting.gang);
    let singles: Vec<&GangKey> = singles.filter(|gang| members(view.state, gang).len() == 1).collect();
    bought.from_pools = pools::from_pools(&trial.state, view, &singles);
    bought
}

/// What is said while nothing can be bought at all: whoever would be bought for is told why not.
pub fn nothing(view: &View<'_>, why: &str) -> Vec<Refused> {
    let mut bought = Bought::default();
    let plan = Trial::new(view, &BTreeMap::new()).plan();
    let wanting = wanting(view, &BTreeMap::new(), &plan, &mut bought);
    wanting.into_iter().map(|gang| Refused { gang, why: why.to_owned() }).collect()
}

/// Gangs that wait for nothing but nodes, and long enough for new ones to come first.
fn wanting(
    view: &View<'_>,
    under_way: &BTreeMap<GangKey, UnderWay>,
    plan: &Plan,
    bought: &mut Bought,
) -> Vec<GangKey> {
    let soonest = view.catalogue.values().map(|machine| machine.boot_seconds).min().unwrap_or(0);
    let ready =
        view.now.saturating_add(SignedDuration::from_secs(i64::from(soonest))).unwrap_or(Timestamp::MAX);
    let starts: BTreeMap<&GangKey, Timestamp> =
        plan.reservations.iter().map(|reservation| (&reservation.gang, reservation.start)).collect();
    let busy: BTreeSet<&GangKey> =
        view.claims.iter().filter_map(|claim| decided_now(claim, view.now)).collect();
    let mut found = Vec::new();
    for waiting in plan.waiting.iter().filter(|waiting| is_for_nodes(waiting)) {
        let gang = &waiting.gang;
        if under_way.contains_key(gang) || busy.contains(gang) || members(view.state, gang).len() < 2 {
            continue;
        }
        if let Some(start) = starts.get(gang).filter(|start| **start <= ready) {
            let why = format!("it starts at about {start:.0}, before a new machine could be ready");
            bought.refused.push(Refused { gang: gang.clone(), why });
            continue;
        }
        found.push(gang.clone());
    }
    found.truncate(LAUNCHES_MAX);
    found
}

/// The gang of a launch that was decided in this second: another one would have its name.
fn decided_now(claim: &Claim, now: Timestamp) -> Option<&GangKey> {
    match &claim.launch.purpose {
        Purpose::Gang(gang) if claim.launch.number >= now.as_second() => Some(gang),
        _ => None,
    }
}

/// Whether nodes are what it lacks. That others may have to give way for it some day, or could not all be looked at, is no reason
/// against machines that are there sooner.
fn is_for_nodes(waiting: &WaitingGang) -> bool {
    let lacks_nodes = |reason: &WaitReason| {
        matches!(
            reason,
            WaitReason::NoSuchGpuType { .. }
                | WaitReason::TooLargeForAnyNode { .. }
                | WaitReason::NotEnoughGpus { .. }
                | WaitReason::NotEnoughCpu { .. }
                | WaitReason::NodesRefused { .. }
                | WaitReason::NoRoomTogether { .. }
        )
    };
    let is_beside =
        |reason: &WaitReason| matches!(reason, WaitReason::ReclaimsAt { .. } | WaitReason::GaveUp { .. });
    let mut reasons = waiting.reasons.iter();
    reasons.clone().any(lacks_nodes) && reasons.all(|reason| lacks_nodes(reason) || is_beside(reason))
}

/// Members of a gang of which none has a node.
fn members<'a>(state: &'a ClusterState, gang: &GangKey) -> Vec<&'a Pod> {
    let Some(gang) = state.gang(gang) else { return Vec::new() };
    gang.pending().map(|pod| state.pod(pod).pod()).collect()
}

/// The copy of the state on which everything is tried.
struct Trial<'a> {
    state: ClusterState,
    policy: &'a Policy,
    now: Timestamp,
}

/// What one gang would get.
struct Shape {
    gang: GangKey,
    machines: Vec<(OfferKey, i64)>,
    nodes: Vec<Node>,
    boot_seconds: u32,
    why: String,
}

impl<'a> Trial<'a> {
    /// The state with the machines that are on their way.
    fn new(view: &View<'a>, under_way: &BTreeMap<GangKey, UnderWay>) -> Self {
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
                // One that is a node already is not to come.
                if let Some(position) = known.iter().position(|it| *it == offer) {
                    known.swap_remove(position);
                    continue;
                }
                let Some(machine) = view.catalogue.get(&offer.machine) else { continue };
                let node = machine.node(&offer.place, format!("{mark}-{index}"), &mark);
                state.apply(Change::Node(node));
            }
            tolerate(&mut state, gang);
        }
        Self { state, policy: view.policy, now: view.now }
    }

    fn plan(&mut self) -> Plan {
        placement::plan(&mut self.state, self.policy, self.now)
    }

    /// Plans with all of it at once. Those that start are bought; returns those that do not and may be tried again.
    fn verify(&mut self, shapes: Vec<Shape>, may_try_again: bool, bought: &mut Bought) -> Vec<GangKey> {
        if shapes.is_empty() {
            return Vec::new();
        }
        let mut tried = Trial { state: self.state.clone(), policy: self.policy, now: self.now };
        for shape in &shapes {
            shape.nodes.iter().for_each(|node| tried.state.apply(Change::Node(node.clone())));
            tolerate(&mut tried.state, &shape.gang);
        }
        let plan = tried.plan();
        let starts: BTreeSet<&GangKey> = plan.placements.iter().map(|placement| &placement.gang).collect();
        let mut again = Vec::new();
        for shape in shapes {
            if starts.contains(&shape.gang) {
                shape.nodes.iter().for_each(|node| self.state.apply(Change::Node(node.clone())));
                tolerate(&mut self.state, &shape.gang);
                bought.launches.push(shape.launch(self.now));
            } else if may_try_again {
                again.push(shape.gang);
            } else {
                let waiting = plan.waiting.iter().find(|waiting| waiting.gang == shape.gang);
                // Who may read this may not see the gangs of others.
                let reason =
                    waiting.and_then(|waiting| waiting.reasons.iter().find(|it| it.gang().is_none()));
                let why = reason.map_or_else(|| "others come first".to_owned(), ToString::to_string);
                let why = format!("with {} it would still wait: {why}", shape.why);
                bought.refused.push(Refused { gang: shape.gang, why });
            }
        }
        again
    }
}

impl Shape {
    fn launch(self, now: Timestamp) -> Launch {
        let boot = SignedDuration::from_secs(i64::from(self.boot_seconds));
        Launch {
            key: LaunchKey { purpose: Purpose::Gang(self.gang), number: now.as_second() },
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
        state.apply(Change::Pod(pod));
    }
}

/// What can be had now, and how many of each.
struct Offers<'a> {
    all: Vec<Available<'a>>,
}

struct Available<'a> {
    machine: &'a Machine,
    offer: &'a Offer,
    /// How many are left.
    left: Option<u32>,
    /// Why none are tried.
    shunned: Option<String>,
}

impl<'a> Offers<'a> {
    fn new(view: &View<'a>, memory: &Memory) -> Self {
        let available = |machine: &'a Machine, offer: &'a Offer| {
            let key = OfferKey { machine: machine.name.clone(), place: offer.place.clone() };
            let taken = view.claims.iter().filter(|claim| claim.offer == key).count();
            let taken = u32::try_from(taken).unwrap_or(u32::MAX);
            let left = offer.most.map(|most| most.saturating_sub(taken));
            let shunned = memory.shuns(&key, view.now).map(str::to_owned);
            Available { machine, offer, left, shunned }
        };
        let machines = view.catalogue.values();
        let all =
            machines.flat_map(|machine| machine.offers.iter().map(move |offer| available(machine, offer)));
        Self { all: all.collect() }
    }
}

/// The cheapest machines for each gang, one after the other: what one takes is not there for the next. Beside them, gangs for
/// which there seems to be room, though the planner finds none.
fn shapes(
    state: &ClusterState,
    gangs: &[GangKey],
    mut offers: Offers<'_>,
    with_rooms: bool,
    bought: &mut Bought,
) -> (Vec<Shape>, Vec<GangKey>) {
    let (mut shapes, mut without) = (Vec::new(), Vec::new());
    for gang in gangs {
        let pods = members(state, gang);
        let Some(lead) = pods.first() else { continue };
        let level = lead.terms.topology.required;
        let offerings = offers.offerings(lead, level);
        let rooms = if with_rooms { rooms(state, lead, level) } else { Vec::new() };
        let mix = mix::decide(&[demand(gang, &pods)], &offerings, &rooms, &Limits::default());
        if let Some(refused) = mix.refused.first() {
            let why = offers.why_not(lead, &in_words(&refused.reason));
            bought.refused.push(Refused { gang: gang.clone(), why });
            continue;
        }
        if mix.purchases.is_empty() {
            without.push(gang.clone());
        } else {
            shapes.push(offers.take(gang, &pods, &mix));
        }
    }
    (shapes, without)
}

/// Why one gang that is asked about alone is not served.
fn in_words(refusal: &Refusal) -> String {
    match refusal {
        Refusal::NoOffering(_) => "no machine type suits even one of its members".to_owned(),
        Refusal::Stock { members, places } => {
            format!("there are machines for {places} of its {members} members only")
        }
        Refusal::GangCeiling { ceiling, cheapest } => {
            let price = |micros: u64| money(i64::try_from(micros).unwrap_or(i64::MAX));
            format!(
                "it may cost {} an hour, and would cost {} at the least",
                price(*ceiling),
                price(*cheapest)
            )
        }
        Refusal::QueueGpus { .. } | Refusal::Budget { .. } | Refusal::Taken { .. } => {
            "no machines are left for it".to_owned()
        }
    }
}

fn demand(gang: &GangKey, pods: &[&Pod]) -> Demand {
    let lead = pods[0];
    // Members that differ all get what the largest needs: dearer than it must be, and never too little.
    let most = |read: fn(&Resources) -> i64| pods.iter().map(|pod| read(&pod.requests)).max().unwrap_or(0);
    let amount = |value: i64| u64::try_from(value).unwrap_or(0);
    Demand {
        id: gang.to_string(),
        queue: String::new(),
        order: 0,
        members: u32::try_from(pods.len()).unwrap_or(u32::MAX),
        member: offering::Resources {
            gpus: amount(most(|it| it.gpus)),
            cpu_milli: amount(most(|it| it.cpu_millis)),
            memory_bytes: amount(most(|it| it.memory_bytes)),
        },
        gpu_types: lead.gpu_types.iter().map(ToString::to_string).collect(),
        zones: Vec::new(),
        capacity_types: Vec::new(),
        together: match lead.terms.topology.required {
            None => Together::Anywhere,
            Some(Level(0)) => Together::OneZone,
            Some(_) => Together::OneDomain,
        },
        machine_ceiling: None,
        gang_ceiling: None,
        boot_seconds_max: None,
    }
}

impl Offers<'_> {
    /// What this gang may get, by its position in the list.
    fn offerings(&self, lead: &Pod, level: Option<Level>) -> Vec<Offering> {
        let suits = self.all.iter().enumerate().filter(|(_, it)| it.shunned.is_none() && it.suits(lead));
        suits.map(|(index, it)| it.offering(index, level)).collect()
    }

    /// Takes what was decided out of stock.
    fn take(&mut self, gang: &GangKey, pods: &[&Pod], mix: &Mix) -> Shape {
        let mark = reserve::mark(gang);
        let (mut machines, mut nodes, mut boot_seconds, mut words) = (Vec::new(), Vec::new(), 0, Vec::new());
        for purchase in &mix.purchases {
            let Some(it) = purchase.offering.parse::<usize>().ok().and_then(|index| self.all.get_mut(index))
            else {
                continue;
            };
            let key = OfferKey { machine: it.machine.name.clone(), place: it.offer.place.clone() };
            it.left = it.left.map(|left| left.saturating_sub(purchase.count));
            boot_seconds = boot_seconds.max(it.machine.boot_seconds);
            words.push(format!("{} × {key}", purchase.count));
            for _ in 0..purchase.count {
                let name = format!("{mark}-{}", nodes.len());
                nodes.push(it.machine.node(&it.offer.place, name, &mark));
                machines.push((key.clone(), it.offer.price_micros));
            }
        }
        let cost = money(i64::try_from(mix.cost_per_hour).unwrap_or(i64::MAX));
        let each = pods.first().map_or(0, |pod| pod.requests.gpus);
        let why = format!("{} at {cost} an hour for {} members of {each} GPUs", words.join(", "), pods.len());
        Shape { gang: gang.clone(), machines, nodes, boot_seconds, why }
    }

    /// Why nothing can be had; offers that would suit and failed of late come first.
    fn why_not(&self, lead: &Pod, otherwise: &str) -> String {
        let shunned: BTreeSet<&str> =
            self.all.iter().filter(|it| it.suits(lead)).filter_map(|it| it.shunned.as_deref()).collect();
        if shunned.is_empty() {
            return otherwise.to_owned();
        }
        let tried: Vec<&str> = shunned.into_iter().collect();
        format!("{}; tried again soon", tried.join("; "))
    }
}

impl Available<'_> {
    /// Whether a member may be placed on it, but for room.
    fn suits(&self, pod: &Pod) -> bool {
        let is_spot = self.offer.place.capacity_type == CapacityType::Spot;
        let node = self.machine.node(&self.offer.place, "", "");
        (!is_spot || pod.terms.takes_spot && pod.terms.buys_spot) && admits(&node, pod)
    }

    fn offering(&self, index: usize, level: Option<Level>) -> Offering {
        let node = self.machine.node(&self.offer.place, "", "");
        Offering {
            id: index.to_string(),
            instance_type: self.machine.instance_type.to_string(),
            location: location(&node, level),
            price_per_hour: u64::try_from(self.offer.price_micros).unwrap_or(0),
            machine: room(&self.machine.room),
            boot_seconds: self.machine.boot_seconds,
            stock: self.left,
        }
    }
}

/// Whether a pod may be on a node, but for room and the taint of gangs.
pub(crate) fn admits(node: &Node, pod: &Pod) -> bool {
    let is_ours = |key: &str| key == api_types::names::FOR_GANG_TAINT;
    node.schedulable
        && pod.node_selector.iter().all(|(key, value)| node.labels.get(key) == Some(value))
        && pod.node_affinity.as_ref().is_none_or(|affinity| affinity.admits(node))
        && node.repelling().all(|taint| is_ours(&taint.key) || taint.tolerated_by(&pod.tolerations))
}

/// Free room on machines that are there.
fn rooms(state: &ClusterState, pod: &Pod, level: Option<Level>) -> Vec<Room> {
    let fits = state.nodes().filter_map(|(_, node)| {
        let object = node.object()?;
        let is_open = reserve::reserved_for(object).is_none() && (!object.spot || pod.terms.takes_spot);
        let takes = is_open && admits(object, pod) && pod.requests.fits(&node.free());
        takes.then(|| Room {
            id: node.name().to_string(),
            location: location(object, level),
            free: room(&node.free()),
            ready_in_seconds: 0,
        })
    });
    fits.collect()
}

fn location(node: &Node, level: Option<Level>) -> Location {
    let depth = level.map_or(0, |level| usize::from(level.0) + 1);
    let path = node.topology.get(..depth).filter(|_| depth > 1);
    Location {
        zone: node.topology.first().map(ToString::to_string).unwrap_or_default(),
        domain: path.map(|path| path.join("/")),
        capacity_type: if node.spot {
            offering::CapacityType::Spot
        } else {
            offering::CapacityType::OnDemand
        },
        gpu_type: node.gpu_type.as_ref().map(ToString::to_string),
    }
}

fn room(resources: &Resources) -> offering::Resources {
    let amount = |value: i64| u64::try_from(value).unwrap_or(0);
    offering::Resources {
        gpus: amount(resources.gpus),
        cpu_milli: amount(resources.cpu_millis),
        memory_bytes: amount(resources.memory_bytes),
    }
}

#[cfg(test)]
mod tests;
