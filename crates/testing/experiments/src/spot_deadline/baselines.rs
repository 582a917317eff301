//! Policies for comparison, which only experiments use.

use capacity::spot::{Action, Market, MarketOffering, RunMachine, SpotRun, TimeLeft};

use super::world::Contract;

/// Published policies, and on-demand only.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Baseline {
    /// No spot.
    OnDemand,
    /// Spot while it is available, waiting while it is not, and on-demand to the end when it is needed.
    Greedy,
    /// Uniform Progress of "Can't Be Late": never behind the line from no work at the start to all work at the
    /// deadline. A run on on-demand leaves it when it is ahead of where the line is after two changeovers. The
    /// paper can be read in two ways:
    UniformProgress {
        /// True: it takes available spot at once, and hysteresis applies only to leaving on-demand to wait.
        /// False: hysteresis applies to both.
        takes_spot_at_once: bool,
    },
}

impl Baseline {
    /// The action of the baseline.
    pub fn buy(self, contract: Contract, tick_seconds: u32, run: &SpotRun, market: &Market) -> Action {
        let on_demand = || match (&run.machine, market.on_demand(None)) {
            (RunMachine::OnDemand { .. }, _) => Action::Stay,
            (_, Some(cheapest)) => Action::OnDemand(cheapest.name.clone()),
            (_, None) => Action::Wait,
        };
        let is_on_demand = matches!(run.machine, RunMachine::OnDemand { .. });
        let must = run.laxity_seconds() < run.guard_seconds(tick_seconds);
        if self == Self::OnDemand || must {
            return on_demand();
        }
        if matches!(run.machine, RunMachine::Spot { .. }) {
            return Action::Stay;
        }
        let spot = cheapest_spot(market).map(|it| Action::Spot(it.name.clone()));
        let Self::UniformProgress { takes_spot_at_once } = self else {
            return if is_on_demand { Action::Stay } else { spot.unwrap_or(Action::Wait) };
        };
        let is_ahead =
            progress_over_line(contract, run, if is_on_demand { 2 * contract.changeover_seconds } else { 0 });
        match spot {
            Some(spot) if !is_on_demand || takes_spot_at_once || is_ahead => spot,
            _ if is_ahead => Action::Wait,
            _ => on_demand(),
        }
    }
}

/// Whether progress reaches the line as it is `in_seconds` from now.
fn progress_over_line(contract: Contract, run: &SpotRun, in_seconds: u32) -> bool {
    let TimeLeft::Deadline(left) = run.time_left else { return true };
    let elapsed = u64::from(contract.deadline_seconds - left + in_seconds);
    let done = u64::from(contract.work_seconds - run.work_left_seconds);
    done * u64::from(contract.deadline_seconds) >= elapsed * u64::from(contract.work_seconds)
}

/// Ties by name.
fn cheapest_spot(market: &Market) -> Option<&MarketOffering> {
    market.offerings.iter().filter(|it| it.has_spot).min_by_key(|it| (it.spot, &it.name))
}
