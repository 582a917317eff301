//! The world of one window: the results of a buyer's actions.

use capacity::spot::{Action, HourlyPrice, Market, MarketOffering, RunMachine, SpotRun, TimeLeft};

use super::region::Region;

/// A job and its deadline.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Contract {
    /// Work.
    pub work_seconds: u32,
    /// From the window's first look on.
    pub deadline_seconds: u32,
    /// Of every launch.
    pub changeover_seconds: u32,
    /// How often state is saved: work since the last save is lost with the machine. Zero: saved on notice.
    pub saves_seconds: u32,
}

/// The outcome of a job in a window.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct BuyingOutcome {
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
    mut buy: impl FnMut(&SpotRun, &Market, usize) -> Action,
) -> BuyingOutcome {
    let mut outcome = BuyingOutcome::default();
    let mut run = SpotRun {
        work_left_seconds: contract.work_seconds,
        time_left: TimeLeft::Deadline(contract.deadline_seconds),
        changeover_seconds: contract.changeover_seconds,
        lost_work_seconds_max: contract.saves_seconds,
        ceiling: None,
        machine: RunMachine::Nothing,
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
        // A run that leaves a machine by choice saves first.
        if action != Action::Stay || run.machine == RunMachine::Nothing {
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

/// The market at a tick, without its past.
fn market(region: &Region, tick: usize) -> Market {
    let offering = |zone: &super::region::Zone| MarketOffering {
        name: zone.name.clone(),
        has_spot: zone.available[tick],
        spot: zone.prices[tick],
        standing_seconds: 0,
        on_demand: region.on_demand,
    };
    Market { offerings: region.zones.iter().map(offering).collect(), standing_seconds: 0 }
}

/// Takes the machine if its spot is gone; returns whether it was.
fn lose_machine(run: &mut SpotRun, market: &Market) -> bool {
    let RunMachine::Spot { offering, .. } = &run.machine else { return false };
    let is_gone = market.offering(offering).is_none_or(|it| !it.has_spot);
    if is_gone {
        run.machine = RunMachine::Nothing;
    }
    is_gone
}

/// Carries out the buyer's action; returns the price of the run's machine after it.
fn act(
    run: &mut SpotRun,
    market: &Market,
    action: Action,
    outcome: &mut BuyingOutcome,
) -> Option<HourlyPrice> {
    let changeover_left_seconds = run.changeover_seconds;
    match action {
        Action::Stay => {}
        Action::Wait => run.machine = RunMachine::Nothing,
        Action::Spot(offering) => run.machine = RunMachine::Spot { offering, changeover_left_seconds },
        Action::OnDemand(offering) => {
            run.machine = RunMachine::OnDemand { offering, changeover_left_seconds }
        }
    }
    let is_new = |left: u32| u32::from(left == changeover_left_seconds && changeover_left_seconds > 0);
    match &run.machine {
        RunMachine::Nothing => None,
        RunMachine::Spot { offering, changeover_left_seconds } => {
            outcome.launches += is_new(*changeover_left_seconds);
            let price = market.offering(offering).filter(|it| it.has_spot).map(|it| it.spot);
            assert!(price.is_some(), "a buyer took spot of {offering}, which has none");
            price
        }
        RunMachine::OnDemand { offering, changeover_left_seconds } => {
            outcome.launches += is_new(*changeover_left_seconds);
            market.offering(offering).map(|it| it.on_demand)
        }
    }
}

/// A tick on the machine: first the rest of the changeover, then work; nothing is paid after the end.
fn work(run: &mut SpotRun, tick_seconds: u32, price: HourlyPrice, outcome: &mut BuyingOutcome) {
    let is_spot = matches!(run.machine, RunMachine::Spot { .. });
    let (RunMachine::Spot { changeover_left_seconds: left, .. }
    | RunMachine::OnDemand { changeover_left_seconds: left, .. }) = &mut run.machine
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
