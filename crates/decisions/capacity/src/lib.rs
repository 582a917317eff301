//! Which machines to buy, keep and let go, at what price, and why. Decisions only: it never buys, never reads a clock, and
//! knows no cloud.
//!
//! ```text
//!   state (a copy) ─┐            ┌─► launches.rs  orders under way: whole, or given back        ─► releases, opens
//!   catalogue      ─┼─► decide ──┼─► idle.rs      machines without pods, spares                 ─► releases, spares
//!   claims         ─┤            ├─► buy.rs       gangs that wait ─► mix ─► plan again          ─► launches, refusals
//!   memory         ─┘            └─► moves.rs     gangs that could pay less ─► plan, buy, worth ─► moves, releases
//! ```
//!
//! | | |
//! |---|---|
//! | `catalogue.rs` | what can be bought |
//! | `caps.rs`, `tally.rs` | whether anything is bought, how much at most, and what was bought so far |
//! | `claim.rs` | what was ordered |
//! | `mix.rs` | the cheapest machines for demands, with a bound that proves it |
//! | `pools.rs` | gangs of one, for which pools buy |
//! | `spot.rs` | when spot, when on demand, so that no deadline is missed; `buy/strategy.rs` asks it for gangs |
//! | `interruptions.rs` | how often spot is taken back |
//! | `reserve.rs` | machines are kept for the gang that they were bought for |
//! | `holdings.rs` | what was bought, in sums |
//! | `memory.rs` | what failed, what is under way, what is idle since when |
//! | `backoff.rs` | who paid in vain, and when it is tried again |
//! | `real_room.rs`, `real_rooms.rs` | what machines have, if their types promise more |

pub mod backoff;
pub mod buy;
pub mod caps;
pub mod catalogue;
pub mod claim;
mod cluster;
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
mod patience;
pub mod pools;
pub mod real_room;
pub mod real_rooms;
pub mod reserve;
pub mod spares;
pub mod spot;
mod tally;
#[cfg(test)]
mod testing;
mod view;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use cluster_model::{ClusterState, GangKey, NodeName};
use jiff::Timestamp;

use crate::buy::RefusedGang;
use crate::catalogue::Catalogue;
use crate::claim::{Claim, Launch, LaunchKey};
use crate::launches::{Release, UnderWay};
use crate::memory::{Memory, Ordered};
use crate::moves::Move;
use crate::real_room::RealRoom;
pub use crate::view::View;

/// What to do, and how things are.
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
    /// Launches under way, those of this decision among them, by the gang that waits for them.
    pub under_way: BTreeMap<GangKey, UnderWay>,
    /// Gangs that wait for nodes and get none.
    pub refused: Vec<RefusedGang>,
    /// Gangs of one for which a pool may buy a node.
    pub from_pools: BTreeSet<GangKey>,
    /// How many launches failed: the cloud had no such machine, or the buyer did not take up the order.
    pub failed: usize,
    /// How many launches were paid for in vain.
    pub in_vain: usize,
    /// Types whose machines have less than they promise, or no longer: people are told.
    pub real_rooms: BTreeMap<Arc<str>, Option<RealRoom>>,
    /// When to decide again even if nothing happens.
    pub look_again_at: Option<Timestamp>,
}

/// Decides about everything that can be bought or was bought. What is decided counts as ordered from now on.
pub fn decide(view: &View<'_>, memory: &mut Memory) -> Decision {
    let promised = view.catalogue;
    for machine in promised.values() {
        memory.rooms.recall(machine);
    }
    memory.rooms.look(view.state, promised, view.claims, view.now);
    memory.backoff.tidy(view.state, promised);
    let catalogue = memory.rooms.correct(promised);
    let claims: Vec<Claim> = view.claims.iter().map(|claim| as_seen(claim, view.state, &catalogue)).collect();
    let follow = launches::follow(view.state, &catalogue, &claims, memory, view.now);
    let in_vain: Vec<&Claim> = claims.iter().filter(|claim| follow.in_vain.contains(&claim.launch)).collect();
    memory.rooms.compare(view.state, promised, &in_vain, view.now);
    let catalogue = memory.rooms.correct(promised);
    let view = View { claims: &claims, catalogue: &catalogue, ..*view };
    memory.look(view.state, &claims, view.now);
    let mut under_way = follow.under_way;
    let going_on = going_on(&under_way, memory);
    // A machine that is left is left for good: it is not a spare.
    let kept: Vec<Claim> = claims.iter().filter(|it| !memory.moves.leaves(&it.name)).cloned().collect();
    let idle = idle::idle(view.state, view.catalogue, &kept, &going_on, memory, view.now);
    let bought = buy::buy(&view, &under_way, memory);
    memory.remember_waits(bought.waits_for_spot, view.state);
    let mut launches = bought.launches;
    let spares = spares::spares(&view, &idle.spares_missing, &launches, memory);
    launches.extend(spares);
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
        failed: follow.failed,
        in_vain: follow.in_vain.len(),
        real_rooms: memory.rooms.news(promised, view.now),
        look_again_at: moments.into_iter().flatten().min(),
    }
}

/// A machine is ready when the planner knows its node, its GPUs are there, which is later than the node, and only our
/// own taints keep pods off it.
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
    use cluster_model::{ClusterChange, Node, Taint, TaintEffect};

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
            state.apply(ClusterChange::Node(node));
            assert!(!as_seen(&claim, &state, &catalogue).ready);
        }
    }
}
