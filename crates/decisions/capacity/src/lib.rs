//! Which machines to buy, keep and let go, at what price, and why. Decisions only: it never buys, never reads a clock, and
//! knows no cloud.
//!
//! ```text
//!   state (a copy) ─┐            ┌─► launches.rs  orders under way: whole, or given back      ─► releases, opens
//!   catalogue      ─┼─► decide ──┼─► idle.rs      machines without pods, spares               ─► releases, spares
//!   claims         ─┤            ├─► buy.rs       who waits for nodes ─► mix ─► plan again    ─► launches, refusals
//!   memory         ─┘            └─► moves.rs     who could have it cheaper ─► plan, buy, worth ─► moves, releases
//! ```
//!
//! | | |
//! |---|---|
//! | `catalogue.rs` | what can be bought |
//! | `claim.rs` | what was ordered |
//! | `mix.rs` | the cheapest machines for demands, with a bound that proves it |
//! | `pools.rs` | gangs of one, for which pools buy |
//! | `spot.rs` | when spot, when on demand, so that no deadline is missed; `buy/strategy.rs` asks it for gangs |
//! | `interruptions.rs` | how often spot is taken back |
//! | `reserve.rs` | machines are kept for the gang that they were bought for |
//! | `holdings.rs` | what was bought, in sums |
//! | `memory.rs` | what failed, what is under way, what is idle since when |

pub mod buy;
pub mod catalogue;
pub mod claim;
pub mod demand;
pub mod holdings;
pub mod idle;
pub mod interruptions;
pub mod launches;
pub mod memory;
pub mod mix;
pub mod money;
pub mod moves;
pub mod offering;
pub mod pools;
pub mod reserve;
pub mod spares;
pub mod spot;
#[cfg(test)]
mod testing;

use std::collections::{BTreeMap, BTreeSet};

use cluster_model::{ClusterState, GangKey, NodeName};
use jiff::Timestamp;
use placement::Policy;

use crate::buy::Refused;
use crate::catalogue::Catalogue;
use crate::claim::{Claim, Launch, LaunchKey};
use crate::launches::{Release, UnderWay};
use crate::memory::{Memory, Ordered};
use crate::moves::Move;

/// All that a decision is made from, but for what is remembered.
#[derive(Clone, Copy, Debug)]
pub struct View<'a> {
    /// The cluster, as the planner sees it.
    pub state: &'a ClusterState,
    /// By what the planner decides.
    pub policy: &'a Policy,
    /// What can be bought.
    pub catalogue: &'a Catalogue,
    /// What was bought.
    pub claims: &'a [Claim],
    /// The time.
    pub now: Timestamp,
}

/// What to do, and how things stand.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Decision {
    /// Orders.
    pub launches: Vec<Launch>,
    /// Machines to give back.
    pub releases: Vec<Release>,
    /// Launches for gangs that were given up and have not gone yet, those of this decision among them.
    pub given_up: BTreeSet<LaunchKey>,
    /// Gangs that leave their machines for cheaper ones, or for room elsewhere.
    pub moves: Vec<Move>,
    /// Nodes that lose the taint of the gang that they were bought for.
    pub opens: Vec<NodeName>,
    /// Launches that go on, those of this decision among them, by the gang that waits for them.
    pub under_way: BTreeMap<GangKey, UnderWay>,
    /// Gangs that wait for nodes and get none.
    pub refused: Vec<Refused>,
    /// Gangs of one for which a pool may buy a node.
    pub from_pools: BTreeSet<GangKey>,
    /// When to decide again though nothing happens.
    pub look_again_at: Option<Timestamp>,
}

/// Decides about everything that can be bought or was bought. What is decided counts as ordered from now on.
pub fn decide(view: &View<'_>, memory: &mut Memory) -> Decision {
    let claims: Vec<Claim> =
        view.claims.iter().map(|claim| as_seen(claim, view.state, view.catalogue)).collect();
    let view = View { claims: &claims, ..*view };
    let follow = launches::follow(view.state, view.catalogue, &claims, memory, view.now);
    memory.look(view.state, &claims, view.now);
    let mut under_way = follow.under_way;
    let going_on = going_on(&under_way, memory);
    // Whoever leaves a machine leaves it for good: it is nobody's spare.
    let kept: Vec<Claim> = claims.iter().filter(|it| !memory.moves.leaves(&it.name)).cloned().collect();
    let idle = idle::idle(view.state, view.catalogue, &kept, &going_on, memory, view.now);
    let bought = buy::buy(&view, &under_way, memory);
    memory.remember_waits(bought.waits_for_spot, view.state);
    let mut launches = bought.launches;
    launches.extend(spares::spares(&view, &idle.spares_missing, memory));
    let is_quiet = under_way.is_empty() && launches.is_empty() && memory.ordered.is_empty();
    let moving = moves::moves(&view, is_quiet, memory);
    for launch in &launches {
        let ordered = Ordered { launch: launch.clone(), at: view.now, seen: BTreeSet::new() };
        memory.ordered.insert(launch.key.clone(), ordered);
        under_way.extend(launch.under_way(view.now));
    }
    let releases = follow.releases.into_iter().chain(idle.releases).chain(moving.releases).collect();
    let spot = view.now.checked_add(buy::OUTLOOK_GOOD).ok().filter(|_| !memory.waits_for_spot.is_empty());
    let moments = [follow.look_again_at, idle.look_again_at, memory.next_try(view.now), spot];
    Decision {
        launches,
        releases,
        given_up: memory.given_up.iter().filter(|key| key.gang().is_some()).cloned().collect(),
        moves: moving.moves,
        opens: follow.opens,
        under_way,
        refused: bought.refused,
        from_pools: bought.from_pools,
        look_again_at: moments.into_iter().flatten().min(),
    }
}

/// A machine is ready when the planner knows its node, its GPUs are there, which is later than the node, and nothing keeps pods
/// from it but what we put there ourselves.
fn as_seen(claim: &Claim, state: &ClusterState, catalogue: &Catalogue) -> Claim {
    let node = claim.node.as_ref().and_then(|name| state.node_object(name));
    let is_ours =
        |key: &str| [api_types::names::FOR_GANG_TAINT, api_types::names::GPU_NODE_TAINT].contains(&key);
    let gpus = catalogue.get(&claim.offer.machine).map_or(0, |machine| machine.room.gpus);
    let takes_pods = node.is_some_and(|node| {
        let is_open = node.schedulable && node.repelling().all(|taint| is_ours(&taint.key));
        is_open && node.allocatable.gpus >= gpus
    });
    Claim { ready: claim.ready && takes_pods, ..claim.clone() }
}

fn going_on(under_way: &BTreeMap<GangKey, UnderWay>, memory: &Memory) -> BTreeSet<LaunchKey> {
    let awaited = under_way.values().map(|under_way| &under_way.launch);
    awaited.chain(memory.ordered.keys()).chain(&memory.given_up).cloned().collect()
}

#[cfg(test)]
mod tests {
    use cluster_model::{Change, Node, Taint, TaintEffect};

    use super::as_seen;
    use crate::testing::{boot, catalogue, claims, launch, machine, state};

    #[test]
    fn a_machine_is_ready_once_its_gpus_are_there_and_only_we_keep_pods_from_it() {
        let (mut state, catalogue) = (state([]), catalogue([machine("h100")]));
        let mut claim = claims(&launch("train", 1_000, 1)).remove(0);
        assert!(!as_seen(&claim, &state, &catalogue).ready, "it has no node");
        boot(&mut state, &catalogue, &mut claim);
        assert!(as_seen(&claim, &state, &catalogue).ready);
        let node = state.node_object(&(&*claim.name).into()).expect("it has booted").clone();
        let mut without_gpus = node.clone();
        without_gpus.allocatable.gpus -= 1;
        let mut tainted = node.clone();
        let (key, value) = ("any".into(), "".into());
        tainted.taints.push(Taint { key, value, effect: TaintEffect::NoSchedule });
        for node in [without_gpus, tainted, Node { schedulable: false, ..node }] {
            state.apply(Change::Node(node));
            assert!(!as_seen(&claim, &state, &catalogue).ready);
        }
    }
}
