//! The tree of queues with gangs of one tier, walked from the root.
//!
//! ```text
//!   root ──► child by place ──► … ──► queue with gangs ──► class by turn ──► its next gang
//!                ▲                            │
//!                └── places of the queues above are found again after each gang ─┘
//! ```
//!
//! Gangs in a queue that has queues below it compete with those as one more child, of weight 1 and without a quota.

use std::collections::{BTreeMap, BTreeSet};

use cluster_model::{ClusterState, GangKey, Queue, QueueName};
use jiff::Timestamp;

use crate::order::classes::Class;
use crate::order::share::{Past, Share};
use crate::order::turn::Turn;
use crate::quota::{QuotaStanding, standing_of};
use cluster_model::policy::OrderPolicy;

/// The queues with gangs of one tier, and those above them.
pub(super) struct Tree {
    policy: OrderPolicy,
    now: Timestamp,
    classes: Vec<Class>,
    /// The root, then the queues by name: so the lower number is the lower name.
    nodes: Vec<Node>,
    /// The queue and class of the gang that was given out last.
    last: Option<(usize, usize)>,
}

#[derive(Default)]
struct Node {
    kind: Kind,
    past: Past,
    parent: Option<usize>,
    children: Siblings,
    /// Whether it is its parent's only child: then it comes first, whatever it holds.
    is_only_child: bool,
    /// Classes with gangs that were not looked at yet, by the turn of their next gang.
    turns: BTreeSet<(Turn, usize)>,
    /// The class of the gang that would be next from here, and the place among the siblings that this gives.
    next: Option<(usize, Place)>,
}

#[derive(Clone, Default)]
enum Kind {
    /// Above all queues. Also gangs without a queue, which only wait to be told so.
    #[default]
    NoQueue,
    /// A queue with all that is below it.
    Queue(QueueName),
    /// The gangs in a queue itself, apart from its children.
    Own(QueueName),
}

/// Where a queue stands among its siblings.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
struct Place {
    borrows: bool,
    share: Share,
}

impl Tree {
    pub fn new(state: &ClusterState, classes: Vec<Class>, policy: OrderPolicy, now: Timestamp) -> Self {
        let mut tree = Self { policy, now, classes, nodes: vec![Node::default()], last: None };
        // First come, first served ignores queues: all gangs are in one.
        let leaves = if policy == OrderPolicy::StrictAge { BTreeMap::new() } else { tree.grow(state) };
        for class in 0..tree.classes.len() {
            let queue = tree.classes[class].queue.as_ref();
            let leaf = queue.and_then(|queue| leaves.get(queue)).copied().unwrap_or_else(|| tree.no_queue());
            tree.take_turn(leaf, class);
        }
        tree.find_only_children();
        let mut depths: Vec<(usize, usize)> =
            (0..tree.nodes.len()).map(|node| (tree.depth(node), node)).collect();
        depths.sort_unstable();
        for (_, node) in depths.into_iter().rev() {
            tree.find_place(state, node);
        }
        tree
    }

    /// The next gang, as things stand in `planned`.
    pub fn next(&mut self, planned: &ClusterState) -> Option<GangKey> {
        if let Some((leaf, class)) = self.last.take() {
            self.classes[class].go_on(planned);
            self.take_turn(leaf, class);
            let mut above = Some(leaf);
            while let Some(node) = above {
                self.find_place(planned, node);
                above = self.nodes[node].parent;
            }
        }
        let mut leaf = 0;
        while let Some(child) = self.nodes[leaf].children.first() {
            leaf = child;
        }
        let (_, class) = self.nodes[leaf].turns.pop_first()?;
        self.last = Some((leaf, class));
        self.classes[class].next.as_ref().map(|(_, gang)| gang.clone())
    }

    /// Skips all further gangs of the class of the last one.
    pub fn drop_class(&mut self) {
        if let Some((_, class)) = self.last {
            self.classes[class].next = None;
        }
    }

    /// Makes a node for each queue with gangs and each queue above one. Returns where the gangs of each queue stand.
    fn grow(&mut self, state: &ClusterState) -> BTreeMap<QueueName, usize> {
        let with_gangs: BTreeSet<QueueName> =
            self.classes.iter().filter_map(|class| class.queue.clone()).collect();
        let mut parents: BTreeMap<QueueName, Option<QueueName>> = BTreeMap::new();
        for queue in &with_gangs {
            let mut next = Some(queue.clone());
            // This ends: the chain was found valid when the class was read.
            while let Some(name) = next.filter(|name| !parents.contains_key(name)) {
                next = state.queue(&name).and_then(|(queue, _)| queue.parent.clone());
                parents.insert(name, next.clone());
            }
        }
        let numbers: BTreeMap<QueueName, usize> = parents.keys().cloned().zip(1..).collect();
        let has_children: BTreeSet<&QueueName> = parents.values().flatten().collect();
        for (queue, parent) in &parents {
            let parent = parent.as_ref().map_or(0, |parent| numbers[parent]);
            let (kind, past) = (Kind::Queue(queue.clone()), Past::of(state, queue));
            self.nodes.push(Node { kind, past, parent: Some(parent), ..Node::default() });
        }
        let mut leaves = numbers.clone();
        for queue in with_gangs.into_iter().filter(|queue| has_children.contains(queue)) {
            let below = state.queues_below(Some(&queue)).map(|(child, _)| Past::of(state, &child.name));
            let past = below.fold(Past::of(state, &queue), Past::without);
            let parent = Some(numbers[&queue]);
            leaves.insert(queue.clone(), self.nodes.len());
            self.nodes.push(Node { kind: Kind::Own(queue), past, parent, ..Node::default() });
        }
        leaves
    }

    /// Where gangs without a queue stand.
    fn no_queue(&mut self) -> usize {
        let last = self.nodes.len() - 1;
        if last > 0 && matches!(self.nodes[last].kind, Kind::NoQueue) {
            return last;
        }
        self.nodes.push(Node { parent: Some(0), ..Node::default() });
        last + 1
    }

    fn find_only_children(&mut self) {
        let mut children = vec![0; self.nodes.len()];
        for parent in self.nodes.iter().filter_map(|node| node.parent) {
            children[parent] += 1;
        }
        for node in &mut self.nodes {
            node.is_only_child = node.parent.is_none_or(|parent| children[parent] == 1);
        }
    }

    fn depth(&self, node: usize) -> usize {
        std::iter::successors(self.nodes[node].parent, |node| self.nodes[*node].parent).count()
    }

    /// Puts a class among those of its queue, by the turn of its next gang, if it has one.
    fn take_turn(&mut self, leaf: usize, class: usize) {
        let of = &self.classes[class];
        if let Some((created, gang)) = &of.next {
            let turn = Turn::new(of, gang, *created, self.policy, self.now);
            self.nodes[leaf].turns.insert((turn, class));
        }
    }

    /// Finds the place of a queue among its siblings again.
    fn find_place(&mut self, state: &ClusterState, index: usize) {
        let node = &self.nodes[index];
        let class = match node.turns.first() {
            Some((_, class)) => Some(*class),
            None => node.children.first().and_then(|child| self.nodes[child].next).map(|(class, _)| class),
        };
        let place_for = |class: usize| {
            if node.is_only_child { Place::default() } else { place(state, node, &self.classes[class]) }
        };
        let next = class.map(|class| (class, place_for(class)));
        let (parent, old) = (node.parent, std::mem::replace(&mut self.nodes[index].next, next));
        let (old, new) = (old.map(|(_, place)| place), next.map(|(_, place)| place));
        if let Some(parent) = parent.filter(|_| old != new) {
            self.nodes[parent].children.replace(index, old, new);
        }
    }
}

/// Where a queue stands among its siblings if a gang of this class is next from it.
fn place(state: &ClusterState, node: &Node, class: &Class) -> Place {
    let no_queue = Place { borrows: true, share: Share::default() };
    match &node.kind {
        Kind::NoQueue => no_queue,
        Kind::Queue(name) => {
            let Some((queue, usage)) = state.queue(name) else { return no_queue };
            let run_seconds = class.expected_seconds();
            let standings =
                class.needs.iter().map(|needs| standing_of(state, queue, usage, needs, run_seconds));
            // A gang that takes one of several GPU types has the best standing that any of them gives.
            let borrows = !standings.min().unwrap_or(QuotaStanding::Borrows).is_entitled();
            Place { borrows, share: Share::of(state, queue, usage, node.past, borrows) }
        }
        Kind::Own(name) => {
            let above = state.queue(name).zip(state.own_usage(name));
            let Some(((above, _), usage)) = above else { return no_queue };
            let own = Queue { half_life_seconds: above.half_life_seconds, ..Queue::new(name.clone()) };
            Place { borrows: true, share: Share::of(state, &own, usage, node.past, true) }
        }
    }
}

/// Queues under one parent, those that are entitled before those that borrow.
#[derive(Default)]
struct Siblings {
    /// By what they used and hold, per weight.
    by_used: BTreeSet<(bool, i128, usize)>,
    /// By what they hold, per weight.
    by_held: BTreeSet<(bool, i128, usize)>,
    shares: BTreeMap<usize, Share>,
    /// What all hold, and their weight; of those that are entitled, and of those that borrow.
    sums: [(i128, i128); 2],
}

impl Siblings {
    /// The one to be served next: a queue that holds less than half of its share of what all of them hold, else the
    /// one that used least.
    fn first(&self) -> Option<usize> {
        let (borrows, _, least_used) = *self.by_used.first()?;
        let (_, _, least_held) = *self.by_held.first()?;
        let share = &self.shares[&least_held];
        let (held, weight) = self.sums[usize::from(borrows)];
        // Multiplied crosswise, because a division would round.
        let is_below_half = 2 * share.held * weight < held * share.weight;
        Some(if is_below_half { least_held } else { least_used })
    }

    fn replace(&mut self, index: usize, old: Option<Place>, new: Option<Place>) {
        for (place, sign) in [(old, -1), (new, 1)] {
            let Some(Place { borrows, share }) = place else { continue };
            let (used, held) = ((borrows, share.used, index), (borrows, share.held_per_weight(), index));
            let (held_sum, weight_sum) = &mut self.sums[usize::from(borrows)];
            *held_sum += sign * share.held;
            *weight_sum += sign * share.weight;
            if sign < 0 {
                self.by_used.remove(&used);
                self.by_held.remove(&held);
                self.shares.remove(&index);
            } else {
                self.by_used.insert(used);
                self.by_held.insert(held);
                self.shares.insert(index, share);
            }
        }
    }
}
