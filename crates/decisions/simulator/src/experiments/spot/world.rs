//! The world of one window: what a buyer's actions come to.

use capacity::spot::{Action, HourlyPrice, Machine, Market, Offering, Run, TimeLeft};

use super::region::Region;

/// The job, and by when.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Contract {
    /// Work.
    pub work_seconds: u32,
    /// From the window's first look on.
    pub deadline_seconds: u32,
    /// Of every launch.
    pub changeover_seconds: u32,
    /// How often state is saved: a machine that goes takes the work since then along. Zero: saved on notice.
    pub saves_seconds: u32,
}

/// What came of it.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Outcome {
    /// Hours of progress on spot.
    pub spot_hours: f64,
    /// Hours of progress on on-demand.
    pub on_demand_hours: f64,
    /// Hours paid for without progress.
    pub changeover_hours: f64,
    /// Hours of progress that were lost with a machine, and done again.
    pub lost_hours: f64,
    /// What it cost, in micro-units.
    pub micros: f64,
    /// Launches.
    pub launches: u32,
    /// Whether it ended too late.
    pub is_late: bool,
}

/// Lets a buyer act, tick by tick, until the work is done. It is shown the run, the market and the tick.
pub fn live(
    region: &Region,
    contract: Contract,
    mut buy: impl FnMut(&Run, &Market, usize) -> Action,
) -> Outcome {
    let mut outcome = Outcome::default();
    let mut run = Run {
        work_left_seconds: contract.work_seconds,
        time_left: TimeLeft::Deadline(contract.deadline_seconds),
        changeover_seconds: contract.changeover_seconds,
        lost_work_seconds_max: contract.saves_seconds,
        ceiling: None,
        machine: Machine::Nothing,
    };
    let ticks = contract.deadline_seconds / region.tick_seconds;
    // Work since the last save, or the launch.
    let mut unsaved_seconds = 0;
    for tick in 0..region.ticks().min(ticks as usize) {
        if run.work_left_seconds == 0 {
            break;
        }
        let market = market(region, tick);
        if lose_machine(&mut run, &market) {
            run.work_left_seconds += unsaved_seconds;
            outcome.lost_hours += f64::from(unsaved_seconds) / 3_600.0;
        }
        let action = buy(&run, &market, tick);
        // Who leaves a machine by itself saves before.
        if action != Action::Stay || run.machine == Machine::Nothing {
            unsaved_seconds = 0;
        }
        let price = act(&mut run, &market, action, &mut outcome);
        if let Some(price) = price {
            let before = run.work_left_seconds;
            work(&mut run, region.tick_seconds, price, &mut outcome);
            unsaved_seconds += before - run.work_left_seconds;
            unsaved_seconds = unsaved_seconds.checked_rem(contract.saves_seconds).unwrap_or(0);
        }
        if let TimeLeft::Deadline(left) = &mut run.time_left {
            *left = left.saturating_sub(region.tick_seconds);
        }
    }
    outcome.is_late = run.work_left_seconds > 0;
    outcome
}

/// What is seen at a tick. How long it has been so is for the buyer to remember.
fn market(region: &Region, tick: usize) -> Market {
    let offering = |zone: &super::region::Zone| Offering {
        name: zone.name.clone(),
        has_spot: zone.available[tick],
        spot: zone.prices[tick],
        standing_seconds: 0,
        on_demand: region.on_demand,
    };
    Market { offerings: region.zones.iter().map(offering).collect(), standing_seconds: 0 }
}

/// Says whether the run had one whose spot is gone.
fn lose_machine(run: &mut Run, market: &Market) -> bool {
    let Machine::Spot { offering, .. } = &run.machine else { return false };
    let is_gone = market.offering(offering).is_none_or(|it| !it.has_spot);
    if is_gone {
        run.machine = Machine::Nothing;
    }
    is_gone
}

/// Does what the buyer says, and tells what the machine costs that the run has then.
fn act(run: &mut Run, market: &Market, action: Action, outcome: &mut Outcome) -> Option<HourlyPrice> {
    let changeover_left_seconds = run.changeover_seconds;
    match action {
        Action::Stay => {}
        Action::Wait => run.machine = Machine::Nothing,
        Action::Spot(offering) => run.machine = Machine::Spot { offering, changeover_left_seconds },
        Action::OnDemand(offering) => run.machine = Machine::OnDemand { offering, changeover_left_seconds },
    }
    let is_new = |left: u32| u32::from(left == changeover_left_seconds && changeover_left_seconds > 0);
    match &run.machine {
        Machine::Nothing => None,
        Machine::Spot { offering, changeover_left_seconds } => {
            outcome.launches += is_new(*changeover_left_seconds);
            let price = market.offering(offering).filter(|it| it.has_spot).map(|it| it.spot);
            assert!(price.is_some(), "a buyer took spot of {offering}, which has none");
            price
        }
        Machine::OnDemand { offering, changeover_left_seconds } => {
            outcome.launches += is_new(*changeover_left_seconds);
            market.offering(offering).map(|it| it.on_demand)
        }
    }
}

/// A tick on the machine: first what is left of the changeover, then work, and nothing is paid after the end.
fn work(run: &mut Run, tick_seconds: u32, price: HourlyPrice, outcome: &mut Outcome) {
    let is_spot = matches!(run.machine, Machine::Spot { .. });
    let (Machine::Spot { changeover_left_seconds: left, .. }
    | Machine::OnDemand { changeover_left_seconds: left, .. }) = &mut run.machine
    else {
        return;
    };
    let changeover = (*left).min(tick_seconds);
    *left -= changeover;
    let progress = (tick_seconds - changeover).min(run.work_left_seconds);
    run.work_left_seconds -= progress;
    let hours = |seconds: u32| f64::from(seconds) / 3_600.0;
    *(if is_spot { &mut outcome.spot_hours } else { &mut outcome.on_demand_hours }) += hours(progress);
    outcome.changeover_hours += hours(changeover);
    outcome.micros += price.micros() * hours(changeover + progress);
}
