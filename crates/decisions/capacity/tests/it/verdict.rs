//! How far a mix is from the best one, and whether the right demands are served: both proven by the solver, or not claimed.
//! Shared with the benchmark.

use std::time::Duration;

use capacity::demand::Demand;
use capacity::mix::{Mix, Refusal};

use super::cases::Case;
use super::solver::{Answer, cheapest};

/// What the solver says about a mix.
#[derive(Clone, Debug, PartialEq)]
pub enum Verdict {
    /// The right demands are served, for this many percent more than the proven best.
    Over(f64),
    /// A demand was refused that could have been served.
    RefusedInVain(String),
    /// The solver says that the served demands cannot be served, or only for more: one of the two is wrong.
    Contradiction(String),
    /// The solver could not prove something.
    Unproven,
}

/// Asks the solver, with this much time for each question.
pub fn judge(case: &Case, mix: &Mix, time_max: Duration) -> Verdict {
    let mut in_order: Vec<&Demand> = case.demands.iter().collect();
    in_order.sort_by_key(|demand| (demand.order, demand.id.clone()));
    let refusal = |demand: &Demand| mix.refused.iter().find(|it| it.demand == demand.id).map(|it| &it.reason);
    let mut served: Vec<&Demand> = Vec::new();
    for demand in in_order {
        let Some(reason) = refusal(demand) else {
            served.push(demand);
            continue;
        };
        let gpus = |demand: &Demand| demand.member.gpus * u64::from(demand.members);
        let used: u64 = served.iter().filter(|it| it.queue == demand.queue).map(|it| gpus(it)).sum();
        let limit = case.limits.queues.get(&demand.queue).and_then(|limit| limit.gpus);
        let is_over = limit.is_some_and(|limit| used + gpus(demand) > limit);
        if matches!(reason, Refusal::QueueGpus { .. }) || is_over {
            if !is_over {
                return Verdict::RefusedInVain(format!("{}: {reason:?}, used {used}", demand.id));
            }
            continue;
        }
        let with: Vec<&Demand> = served.iter().copied().chain([demand]).collect();
        match cheapest(case, &with, time_max) {
            Answer::Impossible => {}
            Answer::Cost(cost) => {
                return Verdict::RefusedInVain(format!("{}: {reason:?}, but {cost} would do", demand.id));
            }
            Answer::Unproven => return Verdict::Unproven,
        }
    }
    match cheapest(case, &served, time_max) {
        Answer::Unproven => Verdict::Unproven,
        Answer::Impossible => Verdict::Contradiction("the solver finds no way to serve them".to_owned()),
        Answer::Cost(best) if best > mix.cost_per_hour + 1 || mix.bound > best + 1 => Verdict::Contradiction(
            format!("the solver's best is {best}, ours {}, the bound {}", mix.cost_per_hour, mix.bound),
        ),
        Answer::Cost(best) => {
            #[expect(clippy::cast_precision_loss, reason = "costs of cases are far below 2^53")]
            let over = mix.cost_per_hour.saturating_sub(best) as f64 / (best.max(1) as f64) * 100.0;
            // The solver counts in floating point: one micro-unit is nothing.
            Verdict::Over(if mix.cost_per_hour <= best + 1 { 0.0 } else { over })
        }
    }
}
