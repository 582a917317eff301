//! Decisions in invented markets.

use std::sync::Arc;

use capacity::spot::{
    Action, HourlyPrice, Lifetimes, Market, MarketHistory, MarketOffering, OutlookStakes, RunMachine,
    SpotDecision, SpotOutlook, SpotReason, SpotRun, TimeLeft, decide,
};

const HOUR: u32 = 3_600;
const TICK: u32 = 600;

fn offering(name: &str, has_spot: bool, spot: u64) -> MarketOffering {
    let (spot, on_demand) = (HourlyPrice(spot), HourlyPrice(3_000_000));
    MarketOffering { name: name.into(), has_spot, spot, standing_seconds: 2 * HOUR, on_demand }
}

fn market(offerings: Vec<MarketOffering>) -> Market {
    Market { offerings, standing_seconds: 2 * HOUR }
}

fn run(machine: RunMachine, laxity_seconds: u32) -> SpotRun {
    SpotRun {
        work_left_seconds: 10 * HOUR,
        time_left: TimeLeft::Deadline(10 * HOUR + laxity_seconds),
        changeover_seconds: 720,
        lost_work_seconds_max: 0,
        ceiling: None,
        machine,
    }
}

fn on_spot(name: &str) -> RunMachine {
    RunMachine::Spot { offering: name.into(), changeover_left_seconds: 0 }
}

fn on_demand() -> RunMachine {
    RunMachine::OnDemand { offering: "a".into(), changeover_left_seconds: 0 }
}

/// Spot that was there for some hours, away for some, and so on, for ten days.
fn history(up_hours: i64, away_hours: i64) -> MarketHistory {
    let mut history = MarketHistory::default();
    let name: Arc<str> = "a".into();
    for tick in 0..1_440 {
        let hour = tick / 6 % (up_hours + away_hours);
        history.look(tick * i64::from(TICK), [(&name, hour < up_hours)]);
    }
    history
}

fn decided(run: &SpotRun, market: &Market, history: &MarketHistory) -> SpotDecision {
    let stakes = OutlookStakes {
        work_seconds: run.work_left_seconds,
        slack_seconds: u32::try_from(run.laxity_seconds()).unwrap_or(0),
        changeover_seconds: run.changeover_seconds,
        guard_seconds: u32::try_from(run.guard_seconds(TICK)).unwrap(),
        spot_micros: 1_000_000.0,
        on_demand_micros: 3_000_000.0,
    };
    let chances = history.lifetimes().chances(&Lifetimes::default(), stakes.step_seconds());
    decide(run, market, history, &SpotOutlook::new(stakes, &chances), TICK)
}

#[test]
fn on_demand_is_taken_when_laxity_is_below_a_changeover_and_a_tick_and_not_before() {
    let market = market(vec![offering("a", true, 1_000_000)]);
    let near = decided(&run(RunMachine::Nothing, 720 + TICK - 1), &market, &history(20, 2));
    assert_eq!(near.action, Action::OnDemand("a".into()));
    assert_eq!(near.why, SpotReason::DeadlineNear { laxity_seconds: 1_319, guard_seconds: 1_320 });
    // Ten hours and a changeover at three an hour.
    assert_eq!(near.expected_micros, 30_600_000);
    let far = decided(&run(RunMachine::Nothing, 4 * HOUR), &market, &history(20, 2));
    assert_eq!(far.action, Action::Spot("a".into()));
    assert!(far.expected_micros < near.expected_micros);
}

#[test]
fn work_that_may_be_lost_with_a_machine_is_part_of_the_guard() {
    let market = market(vec![offering("a", true, 1_000_000)]);
    let mut run = run(on_spot("a"), 720 + TICK);
    assert_eq!(decided(&run, &market, &history(20, 2)).action, Action::Stay);
    run.lost_work_seconds_max = 1;
    assert_eq!(decided(&run, &market, &history(20, 2)).action, Action::OnDemand("a".into()));
}

#[test]
fn a_deadline_that_cannot_be_met_is_said_by_how_much() {
    let market = market(vec![offering("a", true, 1_000_000)]);
    let late = decided(&run(RunMachine::Nothing, 20), &market, &history(20, 2));
    assert_eq!(late.action, Action::OnDemand("a".into()));
    assert_eq!(late.why, SpotReason::TooLate { by_seconds: 700 });
}

#[test]
fn slack_is_spent_on_a_young_outage_and_kept_from_one_that_has_grown_old() {
    // Five hours of spot and a look without, four times; then a day without.
    let mut history = MarketHistory::default();
    let name: Arc<str> = "a".into();
    for tick in 0..2_880 {
        let place = tick % 268;
        history.look(tick * i64::from(TICK), [(&name, place < 124 && place % 31 != 30)]);
    }
    let mut market = market(vec![offering("a", false, 1_000_000)]);
    let mut run = run(RunMachine::Nothing, 2 * HOUR);
    run.work_left_seconds = 40 * HOUR;
    run.time_left = TimeLeft::Deadline(43 * HOUR);
    market.standing_seconds = 600;
    let young = decided(&run, &market, &history);
    assert_eq!(young.action, Action::Wait);
    assert_eq!(young.why, SpotReason::SpotDry { for_seconds: 600 });
    market.standing_seconds = 4 * HOUR;
    assert_eq!(decided(&run, &market, &history).action, Action::OnDemand("a".into()));
}

#[test]
fn on_demand_is_left_when_spot_that_lasts_is_back_and_not_for_spot_that_flickers() {
    let market = market(vec![offering("a", true, 1_000_000)]);
    assert_eq!(
        decided(&run(on_demand(), 4 * HOUR), &market, &history(20, 4)).action,
        Action::Spot("a".into())
    );
    // There for a look, away for an hour: a changeover brings nothing.
    let mut flickers = MarketHistory::default();
    let name: Arc<str> = "a".into();
    for tick in 0..1_440 {
        flickers.look(tick * i64::from(TICK), [(&name, tick % 7 == 0)]);
    }
    let mut young = market.clone();
    young.standing_seconds = TICK;
    assert_eq!(decided(&run(on_demand(), 4 * HOUR), &young, &flickers).action, Action::Stay);
}

#[test]
fn a_working_spot_machine_is_left_for_a_much_cheaper_one_only() {
    let slightly = market(vec![offering("a", true, 1_000_000), offering("b", true, 950_000)]);
    let stays = decided(&run(on_spot("a"), 4 * HOUR), &slightly, &history(20, 2));
    assert_eq!(stays.action, Action::Stay);
    assert!(
        matches!(stays.why, SpotReason::NotWorthLeaving { gain_micros, needed_micros } if gain_micros < needed_micros)
    );
    let much = market(vec![offering("a", true, 2_500_000), offering("b", true, 500_000)]);
    assert_eq!(
        decided(&run(on_spot("a"), 4 * HOUR), &much, &history(20, 2)).action,
        Action::Spot("b".into())
    );
}

#[test]
fn a_machine_that_is_starting_is_not_left() {
    let market = market(vec![offering("a", true, 2_500_000), offering("b", true, 500_000)]);
    let starting = RunMachine::Spot { offering: "a".into(), changeover_left_seconds: 120 };
    assert_eq!(decided(&run(starting, 4 * HOUR), &market, &history(20, 2)).action, Action::Stay);
    let starting = RunMachine::OnDemand { offering: "a".into(), changeover_left_seconds: 120 };
    assert_eq!(decided(&run(starting, 4 * HOUR), &market, &history(20, 2)).action, Action::Stay);
}

#[test]
fn of_equal_prices_the_offering_that_lasts_longer_is_taken() {
    let names: [Arc<str>; 2] = ["a".into(), "b".into()];
    let mut history = MarketHistory::default();
    for tick in 0..1_440_i64 {
        // `a` goes every three hours for a look, `b` every two days.
        history.look(tick * i64::from(TICK), [(&names[0], tick % 18 != 0), (&names[1], tick % 288 != 0)]);
    }
    let mut market = market(vec![offering("a", true, 1_000_000), offering("b", true, 1_000_000)]);
    for offering in &mut market.offerings {
        offering.standing_seconds = 10_000;
    }
    assert_eq!(
        decided(&run(RunMachine::Nothing, 4 * HOUR), &market, &history).action,
        Action::Spot("b".into())
    );
}

#[test]
fn with_on_demand_above_the_ceiling_spot_below_it_is_all_there_is() {
    let mut run = run(RunMachine::Nothing, 4 * HOUR);
    run.ceiling = Some(HourlyPrice(900_000));
    let dear = decided(&run, &market(vec![offering("a", true, 1_000_000)]), &history(20, 2));
    assert_eq!(dear.action, Action::Wait);
    assert_eq!(dear.why, SpotReason::CeilingBelowOnDemand { ceiling: HourlyPrice(900_000) });
    let cheap = decided(&run, &market(vec![offering("a", true, 800_000)]), &history(20, 2));
    assert_eq!(cheap.action, Action::Spot("a".into()));
}

#[test]
fn a_run_without_a_deadline_goes_to_on_demand_when_its_patience_is_used_up() {
    let market = market(vec![offering("a", false, 1_000_000)]);
    let mut run = run(RunMachine::Nothing, 0);
    run.time_left = TimeLeft::Patience(0);
    assert_eq!(decided(&run, &market, &history(6, 1)).action, Action::OnDemand("a".into()));
    run.time_left = TimeLeft::Patience(5 * HOUR);
    let mut young = market.clone();
    young.standing_seconds = 600;
    assert_eq!(decided(&run, &young, &history(6, 1)).action, Action::Wait);
}
