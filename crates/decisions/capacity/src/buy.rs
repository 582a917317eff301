//! What to buy for waiting gangs: the cheapest machines on which the planner itself starts them.
//!
//! ```text
//!   state + machines on their way ─► plan ─► gangs that wait only for nodes                    wanting.rs
//!                                                │ the cheapest machines for each              offers.rs
//!                                                │ spot, on demand, or wait for spot?          strategy.rs
//!                                                ▼
//!   the same + those machines     ─► plan ─► those that start: bought;  the others: why not    trial.rs
//! ```
//!
//! The planner of production judges order, quotas, budgets and topology, on a copy of its state. Nothing is bought
//! for a gang that would start by itself before new machines are there.

mod bought;
mod need;
mod offers;
mod strategy;
mod trial;
mod wanting;

use std::collections::BTreeMap;

use cluster_model::{ClusterState, GangKey};

pub use self::bought::{Bought, RefusedGang};
use self::need::Need;
pub(crate) use self::need::admits;
use self::offers::Offers;
use self::strategy::{BuyDecision, Strategy};
pub use self::strategy::{OUTLOOK_GOOD, PATIENCE};
use self::trial::{Shape, Trial};
pub use self::wanting::is_for_nodes;
use self::wanting::{members, wanting};
use crate::launches::UnderWay;
use crate::memory::Memory;
use crate::pools;
use crate::tally::Tally;
use crate::view::View;

/// Decides what to buy. If a state is copied and a gang is made to wait in the copy, this tells what would be bought
/// for it now.
pub fn buy(view: &View<'_>, under_way: &BTreeMap<GangKey, UnderWay>, memory: &Memory) -> Bought {
    let mut bought = Bought::default();
    if view.catalogue.is_empty() {
        return bought;
    }
    let mut trial = Trial::new(view, under_way);
    let plan = trial.plan();
    let mut wanting = wanting(view, under_way, &plan, &mut bought);
    if let Some(why) = memory.silence(view.now) {
        bought.refused.extend(wanting.drain(..).map(|gang| RefusedGang { gang, why: why.to_owned() }));
    }
    if let Some(why) = &view.buying.stopped {
        bought.refused.extend(wanting.drain(..).map(|gang| RefusedGang { gang, why: why.to_string() }));
    }
    let mut strategy = Strategy::new(view, memory);
    // Members may share existing machines. If the planner has other plans for those, all members get new ones.
    for with_rooms in [true, false] {
        let stock =
            Stock { offers: Offers::new(view, memory), tally: Tally::so_far(view, memory, &bought.launches) };
        let (shapes, without) =
            shapes(trial.state(), &wanting, stock, with_rooms, &mut strategy, &mut bought);
        wanting = trial.verify(shapes, with_rooms, &mut bought);
        wanting.extend(without);
    }
    bought.waits_for_spot = strategy.into_waits();
    let singles = plan.waiting.iter().filter(|waiting| is_for_nodes(waiting)).map(|waiting| &waiting.gang);
    let singles: Vec<&GangKey> = singles.filter(|gang| members(view.state, gang).len() == 1).collect();
    bought.from_pools = pools::from_pools(trial.state(), view, &singles);
    let is_full = || Tally::so_far(view, memory, &bought.launches).is_full().then(|| POOLS_FULL.into());
    if let Some(why) = view.buying.stopped.clone().or_else(is_full) {
        // Without this, Karpenter would buy by itself what we may not.
        let singles = std::mem::take(&mut bought.from_pools).into_iter();
        bought.refused.extend(singles.map(|gang| RefusedGang { gang, why: why.to_string() }));
    }
    bought
}

/// The reason of gangs of one that a pool would buy for.
const POOLS_FULL: &str = "as many machines as the BuyingPolicy allows are there";

/// What can be bought, and how much may be.
struct Stock<'a> {
    offers: Offers<'a>,
    tally: Tally<'a>,
}

/// The answer while nothing can be bought at all: each gang that would get machines gets the reason.
pub fn nothing(view: &View<'_>, why: &str) -> Vec<RefusedGang> {
    let mut bought = Bought::default();
    let plan = Trial::new(view, &BTreeMap::new()).plan();
    let wanting = wanting(view, &BTreeMap::new(), &plan, &mut bought);
    wanting.into_iter().map(|gang| RefusedGang { gang, why: why.to_owned() }).collect()
}

/// How many launches are decided at a time; other gangs come next time, in less than a second. Gangs for which
/// nothing is bought do not count: they would keep all gangs behind them waiting.
const LAUNCHES_MAX: usize = 64;

/// What each gang would get, one after the other: what one takes is not there for the next. Also the gangs for which
/// there seems to be room, though the planner finds none.
fn shapes(
    state: &ClusterState,
    gangs: &[GangKey],
    mut stock: Stock<'_>,
    with_rooms: bool,
    strategy: &mut Strategy<'_>,
    bought: &mut Bought,
) -> (Vec<Shape>, Vec<GangKey>) {
    let (mut shapes, mut without) = (Vec::new(), Vec::new());
    for gang in gangs {
        if shapes.len() == LAUNCHES_MAX {
            break;
        }
        let Some(need) = Need::new(state, gang, with_rooms) else { continue };
        match strategy.choose(&need, &stock.offers) {
            BuyDecision::Buy { quote, why } => {
                let shape = stock.offers.shape(&need, &quote, &why);
                if let Some(beyond) = stock.tally.refuses(shape.queue.as_ref(), &shape.machines) {
                    bought.refused.push(RefusedGang { gang: gang.clone(), why: beyond.to_string() });
                    continue;
                }
                stock.tally.take(shape.queue.as_ref(), &shape.machines);
                stock.offers.take(&quote);
                shapes.push(shape);
            }
            BuyDecision::Room => without.push(gang.clone()),
            BuyDecision::Nothing { why } => bought.refused.push(RefusedGang { gang: gang.clone(), why }),
        }
    }
    (shapes, without)
}

#[cfg(test)]
mod deadline_law;
#[cfg(test)]
mod spot_tests;
#[cfg(test)]
mod tests;
