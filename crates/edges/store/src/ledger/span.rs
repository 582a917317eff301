//! Which days of which node a change to a record can alter. Pure.
//!
//! Too many days only cost time. Too few would leave a wrong line. So every change but the two frequent ones (a
//! pod starts, something ends) marks all days that the record covers.

use costing::{Day, End, Moment, NodeRecord, PodRecord};

/// Days of one node, from `first` to `last`, both included; without `last`, to the last day of its accounts.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Span {
    pub(crate) node: String,
    pub(crate) first: Day,
    pub(crate) last: Option<Day>,
}

/// The span of a pod's change: no other accounts can change.
pub(crate) fn of_pod(before: Option<&PodRecord>, now: &PodRecord) -> Vec<Span> {
    let Some(before) = before else { return vec![whole_pod(now)] };
    let frequent = PodRecord { started_at: before.started_at, ended: before.ended, ..now.clone() };
    if frequent != *before {
        return vec![whole_pod(before), whole_pod(now)];
    }
    let start = first_difference(before.started_at, now.started_at);
    let end = match now.ended {
        // A certain end may show that the node lived on after it was taken to be gone: see `costing::fold`.
        Some(End::Certain(_)) if before.ended != now.ended => Some(now.scheduled_at),
        _ => end_difference(before.ended, now.ended),
    };
    let Some(first) = start.into_iter().chain(end).min() else {
        return Vec::new();
    };
    vec![span(&now.node, first.max(now.scheduled_at), later_end(before.ended, now.ended))]
}

/// The span of a node's change. Accounts of later days can change too, if they exist: an earlier node of that
/// name may end where this one begins.
pub(crate) fn of_node(before: Option<&NodeRecord>, now: &NodeRecord) -> Vec<Span> {
    let Some(before) = before else { return vec![whole_node(now)] };
    if (&before.name, before.created_at, &before.bought) != (&now.name, now.created_at, &now.bought) {
        return vec![whole_node(before), whole_node(now)];
    }
    let shape = (before.shapes != now.shapes).then(|| {
        let seen = |node: &NodeRecord| node.shapes.iter().cloned().collect::<std::collections::BTreeSet<_>>();
        let (before, now) = (seen(before), seen(now));
        before.symmetric_difference(&now).map(|(at, _)| *at).min().unwrap_or_default()
    });
    // The first shape stands for the time before it was seen, so a new first one changes everything.
    let shape = shape.map(|at| if at <= first_seen(before) { now.created_at } else { at });
    let Some(first) = shape.into_iter().chain(end_difference(before.ended, now.ended)).min() else {
        return Vec::new();
    };
    vec![span(&now.name, first.max(now.created_at), later_end(before.ended, now.ended))]
}

fn whole_pod(pod: &PodRecord) -> Span {
    span(&pod.node, pod.scheduled_at, pod.ended.map(End::at))
}

fn whole_node(node: &NodeRecord) -> Span {
    span(&node.name, node.created_at, node.ended.map(End::at))
}

fn first_seen(node: &NodeRecord) -> Moment {
    node.shapes.iter().map(|(at, _)| *at).min().unwrap_or(node.created_at)
}

/// The earlier of two different moments; an unknown one is later than any.
fn first_difference(one: Option<Moment>, other: Option<Moment>) -> Option<Moment> {
    if one == other { None } else { one.into_iter().chain(other).min() }
}

/// From the last second before the end: use that ends at midnight belongs to the day before. Certainty counts
/// too: pods can override only a provisional end.
fn end_difference(one: Option<End>, other: Option<End>) -> Option<Moment> {
    if one == other {
        return None;
    }
    one.into_iter().chain(other).map(End::at).min().map(|at| Moment(at.0 - 1))
}

fn later_end(one: Option<End>, other: Option<End>) -> Option<Moment> {
    Some(one?.at().max(other?.at()))
}

/// The days of a node from a moment until before another, or without end.
pub(crate) fn span(node: &str, first: Moment, end: Option<Moment>) -> Span {
    let first = day(first);
    let last = end.map(|end| day(Moment(end.0 - 1)).max(first));
    Span { node: node.to_owned(), first, last }
}

/// 1970 to 9999, the years that both jiff and PostgreSQL can represent.
fn day(moment: Moment) -> Day {
    moment.day().clamp(Day(0), Day(2_932_896))
}

#[cfg(test)]
mod tests {
    use costing::{HourlyPrice, NodeShape, Purchase};

    use super::*;

    const DAY: i64 = 86_400;

    fn pod(started_at: Option<i64>, ended: Option<End>) -> PodRecord {
        PodRecord {
            uid: "uid".into(),
            namespace: "vision".into(),
            name: "pod".into(),
            node: "n1".into(),
            run: None,
            attempt: None,
            queue: None,
            user: None,
            gpus: 1,
            cpu_millis: 0,
            scheduled_at: Moment(10 * DAY + 5),
            started_at: started_at.map(Moment),
            ended,
            lost_from: None,
        }
    }

    fn certain(at: i64) -> End {
        End::Certain(Moment(at))
    }

    fn days(spans: &[Span]) -> Vec<(i32, Option<i32>)> {
        spans.iter().map(|span| (span.first.0, span.last.map(|day| day.0))).collect()
    }

    #[test]
    fn a_pod_alters_the_days_that_the_change_can_reach() {
        let running = pod(None, None);
        let ended = pod(None, Some(certain(13 * DAY)));
        assert_eq!(days(&of_pod(None, &running)), [(10, None)]);
        assert_eq!(days(&of_pod(None, &ended)), [(10, Some(12))], "midnight belongs to the day before");
        assert_eq!(days(&of_pod(Some(&running), &pod(Some(12 * DAY), None))), [(12, None)]);
        assert_eq!(days(&of_pod(Some(&running), &ended)), [(10, None)], "it was open until now");
        assert_eq!(days(&of_pod(Some(&ended), &pod(None, Some(certain(14 * DAY + 1))))), [(10, Some(14))]);
        let lost = PodRecord { lost_from: Some(Moment(12 * DAY)), ..ended.clone() };
        assert_eq!(days(&of_pod(Some(&ended), &lost)), [(10, Some(12)), (10, Some(12))]);
        let more = PodRecord { gpus: 2, ..ended.clone() };
        assert_eq!(days(&of_pod(Some(&ended), &more)), [(10, Some(12)), (10, Some(12))]);
    }

    #[test]
    fn certainty_alone_alters_what_the_pod_covers() {
        let taken = pod(None, Some(End::Provisional(Moment(13 * DAY))));
        assert_eq!(days(&of_pod(Some(&taken), &pod(None, Some(certain(13 * DAY))))), [(10, Some(12))]);
        assert_eq!(of_pod(Some(&taken), &taken), []);
    }

    #[test]
    fn a_node_alters_the_days_from_its_first_difference_on() {
        let shape = |gpus| NodeShape { gpus, ..NodeShape::default() };
        let node = NodeRecord {
            uid: "uid".into(),
            name: "n1".into(),
            created_at: Moment(10 * DAY),
            shapes: vec![(Moment(10 * DAY + 3), shape(8))],
            ended: None,
            bought: None,
        };
        assert_eq!(days(&of_node(None, &node)), [(10, None)]);
        let seen = |at, gpus| {
            let mut node = node.clone();
            node.shapes.push((Moment(at), shape(gpus)));
            node.shapes.sort();
            node
        };
        assert_eq!(days(&of_node(Some(&node), &seen(14 * DAY, 16))), [(14, None)]);
        assert_eq!(days(&of_node(Some(&node), &seen(10 * DAY + 1, 16))), [(10, None)], "a new first shape");
        let gone = NodeRecord { ended: Some(certain(12 * DAY + 1)), ..node.clone() };
        assert_eq!(days(&of_node(Some(&node), &gone)), [(12, None)]);
        let paid = Purchase { paid: HourlyPrice(1), on_demand: None, start: None };
        let bought = NodeRecord { bought: Some(paid), ..gone.clone() };
        assert_eq!(days(&of_node(Some(&gone), &bought)), [(10, Some(12)), (10, Some(12))], "all of it");
        assert_eq!(of_node(Some(&node), &node), []);
    }
}
