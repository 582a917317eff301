//! From records to lines.
//!
//! ```text
//!   node records ─► lives ─► stretches (what the node has and costs) ─┬─► lines of pods ──┐
//!                     │                                               │                   ├─► closed, open
//!   pod records ──────┴─► uses (cut into lives) ──────────────────────┴─► lines of idle ──┘
//! ```
//!
//! A pod's use is cut where a life ends, and goes on in the next life of that name if the pod is still there: a kubelet
//! that registers its node again keeps its pods.
//!
//! Only what is within the day and before `now` is on a line. A line is as long as it can be: it ends where its
//! class, its GPUs or its rate changes, at midnight and at `now`, and nowhere else. So news that changes nothing cuts
//! nothing, and no closed line changes because time passes.

use std::collections::BTreeMap;

use crate::account::{Account, Attribution, Class, Fold, Line, OpenLine, Problem, Subject};
use crate::capacity::{Held, Stretch, stretches};
use crate::lives::lives;
use crate::money::Amount;
use crate::price::PriceBook;
use crate::purchase::{MachineStart, Purchase};
use crate::record::{End, NodeRecord, PodRecord};
use crate::time::Moment;

/// Everything that is known about an account, as lines. `nodes` are the lives of the account's node, `pods` those
/// that were ever on it. What is outside the day is ignored, with one exception: a pod's certain end, on whatever
/// day, shows that a node whose end is provisional was there until then. Lines that ended before `now` are closed;
/// lines that continue are open. Closed and open lines together are exactly the node's seconds in the day before
/// `now`, times its price.
pub fn fold(
    account: &Account,
    nodes: &[NodeRecord],
    pods: &[PodRecord],
    prices: &PriceBook,
    now: Moment,
) -> Fold {
    let window = Window {
        from: account.day.start(),
        to: account.day.end().min(now),
        day_is_over: account.day.end() <= now,
    };
    let pods: Vec<_> = pods.iter().filter(|pod| pod.node == account.node).collect();
    let lives = lives(&account.node, nodes, &pods);
    let mut fold = Fold::default();
    let mut uses: Vec<Vec<Use<'_>>> = lives.iter().map(|_| Vec::new()).collect();
    for pod in pods {
        let end = pod.ended.map(End::at);
        // Before the node's first life and between two lives, the pod is outside. With the last life it ends.
        let mut outside = Vec::new();
        let mut outside_from = pod.scheduled_at;
        for (life, uses) in lives.iter().zip(&mut uses) {
            let Some((from, to)) = life.part_of(pod.scheduled_at, end) else { continue };
            uses.extend(window.part_of(from, to).map(|span| Use { pod, span }));
            outside.push((outside_from, Some(from)));
            outside_from = to.unwrap_or(from);
        }
        if outside.is_empty() {
            outside.push((pod.scheduled_at, end));
        }
        if outside.into_iter().any(|(from, to)| window.part_of(from, to).is_some()) {
            fold.problems.push(Problem::OutsideNode { pod_uid: pod.uid.clone() });
        }
    }
    for (life, uses) in lives.iter().zip(&uses) {
        let Some(span) = window.part_of(life.from, life.end) else { continue };
        let stretches = stretches(life, prices, span.from, span.to);
        for used in uses {
            fold.take(&pod_pieces(used, &stretches), used.span, life.node, Some(used.pod));
        }
        let idle = idle_pieces(life.node, uses, &stretches, &mut fold.problems);
        fold.take(&idle, span, life.node, None);
    }
    fold.closed.sort_unstable();
    fold.open.sort_unstable();
    fold.problems.sort_unstable();
    fold
}

/// The part of the account's day that is before the fold's `now`.
struct Window {
    from: Moment,
    to: Moment,
    day_is_over: bool,
}

/// A part of the day. It continues if only `now` cut it.
#[derive(Clone, Copy)]
struct Span {
    from: Moment,
    to: Moment,
    goes_on: bool,
}

struct Use<'a> {
    pod: &'a PodRecord,
    span: Span,
}

/// What becomes a line.
struct Piece {
    from: Moment,
    to: Moment,
    class: Class,
    gpus: i64,
    rate: Option<Amount>,
    saved_rate: Amount,
}

impl Piece {
    /// Whether it is nothing at all, such as the rest of a node that is held whole.
    fn is_nothing(&self) -> bool {
        (self.gpus, self.rate, self.saved_rate) == (0, Some(Amount::ZERO), Amount::ZERO)
    }

    /// Whether the next piece only continues it.
    fn is_continued_by(&self, next: &Self) -> bool {
        let what = |it: &Self| (it.class, it.gpus, it.rate, it.saved_rate);
        self.to == next.from && what(self) == what(next)
    }
}

impl Window {
    fn part_of(&self, from: Moment, end: Option<Moment>) -> Option<Span> {
        let goes_on = !self.day_is_over && end.is_none_or(|end| end > self.to);
        let (from, to) = (from.max(self.from), end.map_or(self.to, |end| end.min(self.to)));
        (from < to).then_some(Span { from, to, goes_on })
    }
}

impl Fold {
    /// Takes the pieces of one subject as lines: of a pod, or of the rest of the node.
    fn take(&mut self, pieces: &[Piece], span: Span, node: &NodeRecord, pod: Option<&PodRecord>) {
        for piece in pieces {
            if pod.is_none() && piece.is_nothing() {
                continue;
            }
            let attribution = match (pod, &node.bought) {
                (Some(pod), _) => Attribution::of(pod),
                (None, Some(Purchase { start: Some(start), .. })) if piece.class == Class::NodeStarting => {
                    start.buyer.clone()
                }
                (None, _) => Attribution::default(),
            };
            let line = Line {
                subject: pod.map_or(Subject::Idle, |pod| Subject::Pod(pod.uid.clone())),
                node_uid: node.uid.clone(),
                class: piece.class,
                from: piece.from,
                to: piece.to,
                gpus: piece.gpus,
                attribution,
                rate: piece.rate,
                saved_rate: piece.saved_rate,
            };
            if span.goes_on && piece.to == span.to {
                self.open.push(OpenLine { line });
            } else {
                self.closed.push(line);
            }
        }
    }
}

impl Attribution {
    fn of(pod: &PodRecord) -> Self {
        Self {
            namespace: Some(pod.namespace.clone()),
            pod: Some(pod.name.clone()),
            run: pod.run.clone(),
            attempt: pod.attempt,
            queue: pod.queue.clone(),
            user: pod.user.clone(),
        }
    }
}

/// A pod's use: starting, then productive, then lost, at what its part of the node costs then.
fn pod_pieces(used: &Use<'_>, stretches: &[Stretch]) -> Vec<Piece> {
    let Use { pod, span } = used;
    let held = Held::by(pod);
    // Clocks of two machines can give a start before the reservation or after the end.
    let started = pod.started_at.map_or(span.to, |at| at.clamp(span.from, span.to));
    let lost = pod.lost_from.map_or(span.to, |at| at.clamp(started, span.to));
    let mut pieces = Vec::new();
    let parts = [
        (Class::Starting, span.from, started),
        (Class::Productive, started, lost),
        (Class::Lost, lost, span.to),
    ];
    for (class, from, to) in parts {
        for stretch in stretches {
            let (from, to) = (stretch.from.max(from), stretch.to.min(to));
            let (rate, saved_rate) = (stretch.capacity.share(held), stretch.capacity.saved_share(held));
            add(&mut pieces, Piece { from, to, class, gpus: held.gpus, rate, saved_rate });
        }
    }
    pieces
}

/// What no pod holds, from each change of what is held to the next: starting until the machine is open to pods, then
/// idle.
fn idle_pieces(
    node: &NodeRecord,
    uses: &[Use<'_>],
    stretches: &[Stretch],
    problems: &mut Vec<Problem>,
) -> Vec<Piece> {
    let start = node.bought.as_ref().and_then(|bought| bought.start.as_ref());
    let opens = start.map_or(node.created_at, MachineStart::until);
    let mut changes: BTreeMap<Moment, Held> = BTreeMap::new();
    for Use { pod, span } in uses {
        *changes.entry(span.from).or_default() += Held::by(pod);
        *changes.entry(span.to).or_default() += Held::by(pod).given_back();
    }
    let mut changes = changes.into_iter().peekable();
    let mut held = Held::default();
    let mut pieces = Vec::new();
    for stretch in stretches {
        let mut from = stretch.from;
        while from < stretch.to {
            while let Some((_, change)) = changes.next_if(|(at, _)| *at <= from) {
                held += change;
            }
            let mut to = changes.peek().map_or(stretch.to, |(at, _)| (*at).min(stretch.to));
            let mut class = Class::NodeIdle;
            if from < opens {
                (to, class) = (to.min(opens), Class::NodeStarting);
            }
            let left = stretch.capacity.left(held);
            if left.is_overcommitted {
                report_overcommitted(problems, from, to);
            }
            let (gpus, rate, saved_rate) = (left.gpus, left.rate, left.saved);
            add(&mut pieces, Piece { from, to, class, gpus, rate, saved_rate });
            from = to;
        }
    }
    pieces
}

/// Adds a piece, unless it is empty. A piece that only continues the last one becomes part of it.
fn add(pieces: &mut Vec<Piece>, piece: Piece) {
    if piece.from >= piece.to {
        return;
    }
    match pieces.last_mut() {
        Some(last) if last.is_continued_by(&piece) => last.to = piece.to,
        _ => pieces.push(piece),
    }
}

fn report_overcommitted(problems: &mut Vec<Problem>, begins: Moment, ends: Moment) {
    match problems.last_mut() {
        Some(Problem::Overcommitted { to, .. }) if *to == begins => *to = ends,
        _ => problems.push(Problem::Overcommitted { from: begins, to: ends }),
    }
}
