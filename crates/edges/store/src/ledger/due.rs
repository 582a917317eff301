//! When an account must be folded again although no record has changed. Pure.

use costing::{Account, End, Moment, NodeRecord, PodRecord, PriceBook};

/// The next second at which time alone changes the account's lines; `None` if it never does. A fold sees what
/// is before its `now`. So use that ends at a moment is closed in the fold of that moment, and use that begins
/// then shows a second later.
pub(crate) fn next_due(
    account: &Account,
    nodes: &[NodeRecord],
    pods: &[PodRecord],
    prices: &PriceBook,
    now: Moment,
    has_open_lines: bool,
) -> Option<Moment> {
    let midnight = account.day.end();
    if now <= account.day.start() {
        // Before the first second of a day is over, nothing of the day shows, not even use that goes on from
        // the day before.
        return Some(Moment(account.day.start().0 + 1));
    }
    let of_pods = pods
        .iter()
        .flat_map(|pod| [Some(pod.scheduled_at), pod.started_at, pod.lost_from, pod.ended.map(End::at)])
        .flatten();
    let of_nodes = nodes.iter().flat_map(|node| {
        let shapes = node.shapes.iter().flat_map(|(at, shape)| {
            // `changes` leaves out its first moment, and a price may begin at `now`.
            let of_prices = prices.changes(shape, Moment(now.0 - 1), midnight);
            of_prices.into_iter().chain([*at])
        });
        let opened = node.bought.as_ref().and_then(|bought| bought.start.as_ref()?.opened_at);
        shapes.chain([node.created_at]).chain(opened).chain(node.ended.map(End::at)).collect::<Vec<_>>()
    });
    let to_come = of_pods.chain(of_nodes).filter(|at| now <= *at && *at < midnight);
    let due = to_come.map(|at| if at == now { Moment(at.0 + 1) } else { at }).min();
    due.or(has_open_lines.then_some(midnight))
}
