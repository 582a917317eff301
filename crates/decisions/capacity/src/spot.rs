//! One run, a market of spot machines and an on-demand price: what to do until the next look.
//!
//! ```text
//!   looks at the market ──► History ──► Chances ──► Outlook: expected cost of all that is left, by work and slack left
//!   (the past only)         lifetimes,  with a          │
//!                           outages     prior           ▼
//!   Run: work, deadline, changeover ────────────► decide ──► stay, wait, spot at X, on-demand; reasons, expected cost
//!   Market: offerings, prices now   ────────────►    ▲
//!                                                    └ the guard: no look-ahead, no learning, no miss
//! ```
//!
//! **The guard.** Laxity is time left minus work left. Until the next look, at most one tick away, a spot machine or
//! a wait may bring nothing, and losing the machine may cost work since the last save. So on-demand is taken as soon
//! as `laxity < changeover + lost work + tick`. One look before, laxity was at least that much. At worst the tick and
//! the lost work are gone now, and the changeover that is left suffices to start on-demand and end in time. What was
//! learned can make a run dearer, never late. This holds as long as on-demand machines can be bought below the
//! ceiling.
//!
//! **Slack is money.** An hour of slack is an hour in which dry spot can be waited out instead of buying on-demand.
//! The outlook prices it: a dynamic programme over work left, slack left and the market's age. So slack is spent
//! where spot is likely to come back soon, and kept where it is not.
//!
//! **No flapping.** From on-demand to spot and back are two changeovers, of money and of slack. The outlook counts
//! both, so on-demand is left only for spot that is expected to last longer than they cost. A machine that is
//! starting is left only if the guard says so. A working spot machine is left for another one only if that gains
//! twice what moving costs: with a changeover `c`, prices `p` and `q` and `h` expected hours, only if `(p - q) · h >
//! 2 · c · (q + the price of slack)`.

pub mod decide;
pub mod history;
pub mod lifetimes;
pub mod market;
pub mod outlook;
pub mod run;

pub use decide::{Action, SpotDecision, SpotReason, decide};
pub use history::MarketHistory;
pub use lifetimes::{Chances, Lifetimes};
pub use market::{HourlyPrice, Market, MarketOffering};
pub use outlook::{OutlookStakes, SpotOutlook};
pub use run::{RunMachine, SpotRun, TimeLeft};
