//! What to buy for gangs that wait: the cheapest machines, on which the planner itself says that they start.
//!
//! ```text
//!   state + machines on their way ─► plan ─► gangs that wait for nothing but nodes             wanting.rs
//!                                                │ the cheapest machines for each              offers.rs
//!                                                │ spot, on demand, or wait for spot?          strategy.rs
//!                                                ▼
//!   the same + those machines     ─► plan ─► those that start: bought;  the others: why not    trial.rs
//! ```
//!
//! One brain: order, quotas, budgets and topology are judged by the planner of production, on a copy of its state. A gang
//! that would start by itself before new machines are there buys nothing.

mod need;
mod offers;
mod strategy;
mod trial;
mod wanting;

use std::collections::{BTreeMap, BTreeSet};

use cluster_model::{ClusterState, GangKey};

use self::need::Need;
use self::offers::Offers;
pub(crate) use self::offers::admits;
use self::strategy::{Choice, Strategy};
pub use self::strategy::{OUTLOOK_GOOD, PATIENCE};
use self::trial::{Shape, Trial};
pub use self::wanting::is_for_nodes;
use self::wanting::{members, wanting};
use crate::View;
use crate::claim::Launch;
use crate::launches::UnderWay;
use crate::memory::{Memory, WaitsForSpot};
use crate::pools;

/// What is bought, and for whom nothing is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Bought {
    /// Orders.
    pub launches: Vec<Launch>,
    /// Gangs that wait for machines which are not bought.
    pub refused: Vec<Refused>,
    /// Gangs that wait for spot, though on-demand machines could be had: they are among the refused too.
    pub waits_for_spot: BTreeMap<GangKey, WaitsForSpot>,
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

/// Decides what to buy. A gang of a copied state that is made to wait in it gets what would be bought for it now.
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
    let mut strategy = Strategy::new(view, memory);
    // Members may share machines that are there already; if the planner has other plans for those, all get new ones.
    for with_rooms in [true, false] {
        let offers = Offers::new(view, memory);
        let (shapes, without) =
            shapes(trial.state(), &wanting, offers, with_rooms, &mut strategy, &mut bought);
        wanting = trial.verify(shapes, with_rooms, &mut bought);
        wanting.extend(without);
    }
    bought.waits_for_spot = strategy.into_waits();
    let singles = plan.waiting.iter().filter(|waiting| is_for_nodes(waiting)).map(|waiting| &waiting.gang);
    let singles: Vec<&GangKey> = singles.filter(|gang| members(view.state, gang).len() == 1).collect();
    bought.from_pools = pools::from_pools(trial.state(), view, &singles);
    bought
}

/// What is said while nothing can be bought at all: whoever would be bought for is told why not.
pub fn nothing(view: &View<'_>, why: &str) -> Vec<Refused> {
    let mut bought = Bought::default();
    let plan = Trial::new(view, &BTreeMap::new()).plan();
    let wanting = wanting(view, &BTreeMap::new(), &plan, &mut bought);
    wanting.into_iter().map(|gang| Refused { gang, why: why.to_owned() }).collect()
}

/// Launches that are decided at a time; who is left comes next time, in less than a second. Those for whom nothing is bought do not
/// count: they would keep everybody behind them waiting.
const LAUNCHES_MAX: usize = 64;

/// What each gang would get, one after the other: what one takes is not there for the next. Beside them, gangs for which there
/// seems to be room, though the planner finds none.
fn shapes(
    state: &ClusterState,
    gangs: &[GangKey],
    mut offers: Offers<'_>,
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
        match strategy.choose(&need, &offers) {
            Choice::Buy { quote, why } => shapes.push(offers.take(&need, &quote, &why)),
            Choice::Room => without.push(gang.clone()),
            Choice::Nothing { why } => bought.refused.push(Refused { gang: gang.clone(), why }),
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
