//! Spot, on demand, or wait for spot: for one waiting gang.
//!
//! ```text
//!   not spot: true ─────────────────────────────────────────────────► the cheapest that stays
//!   deadline too near for a try that fails (the guard) ─────────────► on demand
//!   spot is there, and expected to cost less ───────────────────────► spot; with a deadline, if the outlook agrees
//!   spot is there, but taken back so often that it costs no less ───► on demand
//!   spot is dry ── with a deadline: as the outlook says ────────────► wait, or on demand
//!               └─ without one: for at most PATIENCE, then ─────────► on demand
//!   on demand costs more than it may, or there is none ─────────────► spot, or nothing
//! ```
//!
//! **The guard** is that of [`crate::spot`], with a launch as the tick. An order binds the gang until it is given up,
//! at most `2 · boot + 60 s`, and 30 s more if it is ready and not used; if it comes, restoring takes two minutes. So
//! spot is ordered or waited for only while `laxity ≥ (boot on demand + restore) + lost work + (2 · boot of spot + 90
//! s + restore)`. If the try brings nothing, the first part is left when it is given up, which is what on-demand
//! machines take. Once a gang works on spot, laxity stays as it is: when the spot machine is taken back, the work
//! since the last save is lost, and the first part is left. This holds as long as on-demand machines come in their
//! boot time, and within the ceiling. `deadline_law.rs` tries to break it.
//!
//! **No flapping.** An offer that failed, or took a machine back, is left alone for 30 s, twice as long each further
//! time up to 10 minutes ([`Memory::failed`]). Between spot and on demand the learned rate decides. With spot at a
//! share `s` of the on-demand price, and `a` hours paid for again each time, spot is left at more than `(1/s - 1) /
//! a` interruptions an hour: for half the price and a quarter of an hour, four. The rate is `(n + 1) / (h + 4)` after
//! `n` in `h` hours. So it takes more than fifteen interruptions to leave spot, and after them some four hours
//! without one, or a day without evidence, to turn back. A gang has patience only once. Whether to leave machines
//! that work is [`crate::spot`]'s arithmetic, and not decided here.

use std::collections::BTreeMap;
use std::sync::Arc;

use cluster_model::GangKey;
use jiff::{SignedDuration, Timestamp};

use super::need::Need;
use super::offers::{Among, Lack, Offers, Quote};
use crate::launches::{RESTORE_SECONDS, UNUSED_MAX, late_after};
use crate::memory::{Memory, WaitsForSpot};
use crate::money::money;
use crate::spot::{
    self, Action, HourlyPrice, Lifetimes, Market, MarketHistory, MarketOffering, OutlookStakes, RunMachine,
    SpotOutlook, SpotRun, TimeLeft,
};
use crate::view::View;

/// How long a gang without a deadline waits for spot that is dry: as long as the longest time between two tries of an
/// offer.
pub const PATIENCE: SignedDuration = SignedDuration::from_mins(10);
/// How long an outlook is valid: it is made in steps of several minutes.
pub const OUTLOOK_GOOD: SignedDuration = SignedDuration::from_mins(1);
/// Outlooks of one decision, at up to 20 ms each. A gang without one is decided by price alone; the guard needs none.
const OUTLOOKS_MAX: u32 = 8;

/// What is decided about one gang.
pub(super) enum BuyDecision {
    /// Buy this.
    Buy { quote: Quote, why: String },
    /// There seems to be room for it.
    Room,
    /// Buy nothing.
    Nothing { why: String },
}

/// Decides for one gang after the other.
pub(super) struct Strategy<'a> {
    memory: &'a Memory,
    now: Timestamp,
    outlooks_left: u32,
    waits: BTreeMap<GangKey, WaitsForSpot>,
}

impl<'a> Strategy<'a> {
    pub fn new(view: &View<'_>, memory: &'a Memory) -> Self {
        Self { memory, now: view.now, outlooks_left: OUTLOOKS_MAX, waits: BTreeMap::new() }
    }

    /// The gangs that wait for spot.
    pub fn into_waits(self) -> BTreeMap<GangKey, WaitsForSpot> {
        self.waits
    }

    pub fn choose(&mut self, need: &Need<'_>, offers: &Offers<'_>) -> BuyDecision {
        let steady = offers.quote(need, Among::Steady);
        if !need.lead().terms.buys_spot {
            return match steady {
                Ok(quote) if quote.is_room() => BuyDecision::Room,
                Ok(quote) => BuyDecision::Buy { quote, why: self.beside(need) },
                Err(lack) => BuyDecision::Nothing { why: lack.why() },
            };
        }
        match (offers.quote(need, Among::Any), steady) {
            (Ok(best), _) if best.is_room() => BuyDecision::Room,
            (Ok(best), Ok(steady)) if best.has_spot => self.spot_or_steady(need, offers, best, steady),
            (Ok(_), Ok(steady)) => match offers.quote(need, Among::AnyIfSpotWereBack) {
                Ok(back) if back.has_spot => self.wait_or_steady(need, offers, &back, steady),
                _ if offers.spot_for(need).all(|(_, suits)| !suits) => {
                    self.on_demand(need, steady, "none is offered")
                }
                _ => self.on_demand(need, steady, "none costs less, with what is lost when it is taken back"),
            },
            (Ok(best), Err(lack)) => self.spot_alone(need, best, &lack),
            (Err(lack), _) => BuyDecision::Nothing { why: nothing(need, offers, &lack) },
        }
    }

    /// Spot is there, and expected to cost less.
    fn spot_or_steady(
        &mut self,
        need: &Need<'_>,
        offers: &Offers<'_>,
        best: Quote,
        steady: Quote,
    ) -> BuyDecision {
        let Some(run) = self.run(need, &steady) else {
            // What seems to be back was tried, and failed all the time that the gang waited for it.
            return if self.waited(need) >= PATIENCE {
                self.on_demand(need, steady, &out_of_patience())
            } else {
                self.spot_by_price(need, best, &steady)
            };
        };
        let tick = tick_seconds(&best);
        if run.laxity_seconds() < run.guard_seconds(tick) {
            return self.on_demand(need, steady, &guarded(&run, tick));
        }
        let Some(decision) = self.ask(need, offers, &run, &best, &steady, true) else {
            return self.spot_by_price(need, best, &steady);
        };
        let expected = format!("{} in all", in_money(decision.expected_micros));
        match decision.action {
            Action::Spot(_) | Action::Stay => self.spot(need, best, &steady, &expected),
            Action::OnDemand(_) => {
                self.on_demand(need, steady, &format!("spot would be dearer in the end; expected {expected}"))
            }
            Action::Wait => self.wait(need, "it is expected to be cheaper later", &expected, true),
        }
    }

    /// Spot would be bought, if there were any.
    fn wait_or_steady(
        &mut self,
        need: &Need<'_>,
        offers: &Offers<'_>,
        back: &Quote,
        steady: Quote,
    ) -> BuyDecision {
        let dry = offers.dry(need).unwrap_or_else(|| "spot is dry".to_owned());
        let Some(run) = self.run(need, &steady) else {
            let left = PATIENCE.saturating_sub(self.waited(need)).as_secs();
            if left <= 0 {
                return self.on_demand(need, steady, &out_of_patience());
            }
            let then = format!("on demand at {} in {}", money(steady.price_micros), period(left));
            return self.wait(need, &dry, &then, false);
        };
        let tick = tick_seconds(back);
        if run.laxity_seconds() < run.guard_seconds(tick) {
            return self.on_demand(need, steady, &guarded(&run, tick));
        }
        let then = self.times(need).unwrap_or_default();
        let was_asked = self.memory.waits_for_spot.get(need.gang).and_then(|waits| waits.asked);
        if was_asked.is_some_and(|asked| self.now.duration_since(asked) < OUTLOOK_GOOD) {
            return self.wait(need, &dry, &then, false);
        }
        match self.ask(need, offers, &run, back, &steady, false) {
            Some(decision) if matches!(decision.action, Action::OnDemand(_)) => {
                let expected = in_money(decision.expected_micros);
                let because = format!("{dry}, and waiting is expected to cost more than {expected} in all");
                self.on_demand(need, steady, &because)
            }
            Some(decision) => {
                let then = format!("{then}; expected {} in all", in_money(decision.expected_micros));
                self.wait(need, &dry, &then, true)
            }
            None => self.wait(need, &dry, &then, false),
        }
    }

    fn spot_by_price(&self, need: &Need<'_>, quote: Quote, steady: &Quote) -> BuyDecision {
        let micros = u64::try_from(quote.expected_micros).unwrap_or(0);
        let expected = format!("{} an hour with what it may lose", in_money(micros));
        self.spot(need, quote, steady, &expected)
    }

    fn spot(&self, need: &Need<'_>, quote: Quote, steady: &Quote, expected: &str) -> BuyDecision {
        let times = self.beside(need);
        let why = format!("; on demand is {}{times}; expected {expected}", money(steady.price_micros));
        BuyDecision::Buy { quote, why }
    }

    /// There are no on-demand machines to fall back on.
    fn spot_alone(&self, need: &Need<'_>, quote: Quote, lack: &Lack) -> BuyDecision {
        let times = self.beside(need);
        BuyDecision::Buy { quote, why: format!("; nothing on demand: {}{times}", lack.why()) }
    }

    fn on_demand(&self, need: &Need<'_>, quote: Quote, because: &str) -> BuyDecision {
        let times = self.beside(need);
        BuyDecision::Buy { quote, why: format!("; not spot: {because}{times}") }
    }

    fn wait(&mut self, need: &Need<'_>, because: &str, then: &str, is_asked: bool) -> BuyDecision {
        let before = self.memory.waits_for_spot.get(need.gang);
        let waits = WaitsForSpot {
            since: before.map_or(self.now, |before| before.since),
            asked: if is_asked { Some(self.now) } else { before.and_then(|before| before.asked) },
        };
        self.waits.insert(need.gang.clone(), waits);
        BuyDecision::Nothing { why: format!("waits for spot: {because}; {then}") }
    }

    /// How long it has waited for spot.
    fn waited(&self, need: &Need<'_>) -> SignedDuration {
        let before = self.memory.waits_for_spot.get(need.gang);
        before.map_or(SignedDuration::ZERO, |before| self.now.duration_since(before.since))
    }

    /// The gang as the market sees it, if it has a deadline.
    fn run(&self, need: &Need<'_>, steady: &Quote) -> Option<SpotRun> {
        Some(SpotRun {
            work_left_seconds: need.work_seconds,
            time_left: TimeLeft::Deadline(seconds(self.left(need)?)),
            changeover_seconds: steady.boot_seconds.saturating_add(RESTORE_SECONDS),
            lost_work_seconds_max: need.lost_seconds_max(),
            // Machines that cost more than they may have no quote.
            ceiling: None,
            machine: RunMachine::Nothing,
        })
    }

    /// Until its deadline.
    fn left(&self, need: &Need<'_>) -> Option<i64> {
        Some(need.lead().terms.deadline?.as_second() - self.now.as_second())
    }

    /// Its times, at the end of a sentence.
    fn beside(&self, need: &Need<'_>) -> String {
        self.times(need).map_or_else(String::new, |times| format!("; {times}"))
    }

    fn times(&self, need: &Need<'_>) -> Option<String> {
        let left = self.left(need)?;
        let when = if left > 0 { format!("in {}", period(left)) } else { "over".to_owned() };
        Some(format!("deadline {when}, {} of work left", period(i64::from(need.work_seconds))))
    }

    /// Asks the outlook; `None` if too many were asked for now.
    fn ask(
        &mut self,
        need: &Need<'_>,
        offers: &Offers<'_>,
        run: &SpotRun,
        spot: &Quote,
        steady: &Quote,
        has_spot: bool,
    ) -> Option<spot::SpotDecision> {
        self.outlooks_left = self.outlooks_left.checked_sub(1)?;
        let tick = tick_seconds(spot);
        let stakes = OutlookStakes {
            work_seconds: run.work_left_seconds,
            slack_seconds: seconds(run.laxity_seconds()),
            changeover_seconds: run.changeover_seconds,
            // A gang that works on spot stays there: the tick is what it took to begin, and was checked before.
            guard_seconds: seconds(run.guard_seconds(0)),
            spot_micros: price(spot).micros(),
            on_demand_micros: price(steady).micros(),
        };
        let (mut own, mut others) = (Lifetimes::default(), Lifetimes::default());
        for (offer, suits) in offers.spot_for(need) {
            let known = self.memory.interruptions.lifetimes_of(offer);
            let sum = if suits { &mut own } else { &mut others };
            sum.add(&known);
        }
        let outlook = SpotOutlook::new(stakes, &own.chances(&others, stakes.step_seconds()));
        let dry_since = offers.dry_since(need).filter(|_| !has_spot);
        let standing = dry_since.map_or(0, |since| seconds(self.now.duration_since(since).as_secs()));
        let offering = MarketOffering {
            name: Arc::from("spot"),
            has_spot,
            spot: price(spot),
            standing_seconds: standing,
            on_demand: price(steady),
        };
        let market = Market { offerings: vec![offering], standing_seconds: standing };
        Some(spot::decide(run, &market, &MarketHistory::default(), &outlook, tick))
    }
}

/// Neither spot nor on demand.
fn nothing(need: &Need<'_>, offers: &Offers<'_>, lack: &Lack) -> String {
    match (lack, offers.dry(need)) {
        (Lack::Ceiling { .. }, Some(dry)) => format!("{}; {dry}; spot is tried again soon", lack.why()),
        _ => lack.why(),
    }
}

/// How long an order of these machines may bind a gang before any work is done.
fn tick_seconds(quote: &Quote) -> u32 {
    seconds((late_after(quote.boot_seconds) + UNUSED_MAX).as_secs()).saturating_add(RESTORE_SECONDS)
}

fn guarded(run: &SpotRun, tick: u32) -> String {
    let (laxity, guard) = (run.laxity_seconds(), run.guard_seconds(tick));
    format!("{} to spare, and a try that fails may take {}", period(laxity.max(0)), period(guard))
}

fn out_of_patience() -> String {
    format!("it was not available for {}", period(PATIENCE.as_secs()))
}

fn price(quote: &Quote) -> HourlyPrice {
    HourlyPrice(u64::try_from(quote.price_micros).unwrap_or(0))
}

fn in_money(micros: u64) -> String {
    // Whole hundredths: it is an expectation.
    money(i64::try_from(micros / 10_000 * 10_000).unwrap_or(i64::MAX))
}

fn seconds(seconds: i64) -> u32 {
    u32::try_from(seconds.max(0)).unwrap_or(u32::MAX)
}

/// A time for people, in its largest unit and the next.
fn period(seconds: i64) -> String {
    match (seconds / 3_600, seconds / 60 % 60) {
        (0, 0) => format!("{seconds} s"),
        (0, minutes) => format!("{minutes} min"),
        (hours, 0) => format!("{hours} h"),
        (hours, minutes) => format!("{hours} h {minutes} min"),
    }
}
