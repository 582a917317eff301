//! The reference: second by second, with fractions. It is naive on purpose. It knows nothing of intervals, joins, lives
//! or lines, and takes from the crate under test only the words.
//!
//! The one rule it shares is the stated one for shares that do not divide: on a node that is shared by CPU, a
//! thousandth of a core costs a whole number of units, and the rest stays with the node. GPUs divide exactly here.

use std::collections::{BTreeMap, BTreeSet};

use costing::{Attribution, Class, Day, End, Moment, NodeShape, PodRecord, Price, PriceUnit, Purchase};

use super::bill::{Bill, GoesOn, Money, Row, Used};
use super::generate::Observation;

const SECONDS_PER_DAY: i64 = 86_400;
/// Prices are in millionths for an hour.
const MICRO_HOURS: i128 = 1_000_000 * 3_600;
/// The smallest part of the money is this part of a millionth for an hour.
const PARTS: i128 = 2_882_880;

/// The bill if this is all that was ever reported, and no second from `now` on counts. Nothing but prices is before
/// `start`.
pub fn bill(told: &[Observation], prices: &[Price], start: Moment, now: Moment) -> Bill {
    let (nodes, pods) = facts(told);
    let names: BTreeSet<&str> =
        nodes.iter().map(|node| node.name).chain(pods.iter().map(|pod| pod.about.node.as_str())).collect();
    let mut walk = Walk { nodes, pods, prices, alike: BTreeMap::new(), node_price_sums: BTreeMap::new() };
    let mut bill = Bill::default();
    for name in names {
        let nodes: Vec<usize> = (0..walk.nodes.len()).filter(|node| walk.nodes[*node].name == name).collect();
        // Nothing comes or goes after the last second that was told.
        let seconds = start.0..=walk.last_told().max(now.0);
        let there: Vec<_> = seconds.map(|second| (second, node_at(&walk.nodes, &nodes, second))).collect();
        let pods: Vec<(usize, Option<i64>)> = (0..walk.pods.len())
            .filter(|pod| walk.pods[*pod].about.node == name)
            .map(|pod| (pod, walk.pods[pod].last_second_on_a_node(&there)))
            .collect();
        for (second, node) in there.into_iter().filter(|(second, _)| *second < now.0) {
            walk.take_second(name, node, &pods, second, &mut bill);
        }
    }
    walk.add_up(&mut bill);
    bill
}

/// Which pods use a node in this second, and which nodes are there.
pub fn goes_on(told: &[Observation], second: Moment) -> GoesOn {
    let (nodes, pods) = facts(told);
    let of_name = |name: &str| (0..nodes.len()).filter(|node| nodes[*node].name == name).collect::<Vec<_>>();
    let mut goes_on = GoesOn::new();
    for (node, fact) in nodes.iter().enumerate() {
        if node_at(&nodes, &of_name(fact.name), second.0) == Some(node) {
            goes_on.insert((None, fact.uid.to_owned()));
        }
    }
    for pod in pods.iter().filter(|pod| pod.holds(second.0)) {
        if let Some(node) = node_at(&nodes, &of_name(&pod.about.node), second.0) {
            goes_on.insert((Some(pod.about.uid.clone()), nodes[node].uid.to_owned()));
        }
    }
    goes_on
}

/// On its way through the seconds.
struct Walk<'a> {
    nodes: Vec<NodeFact<'a>>,
    pods: Vec<PodFact<'a>>,
    prices: &'a [Price],
    /// How many seconds of each kind there were.
    alike: BTreeMap<Cell, i64>,
    /// For each node the sum of its prices for an hour over all its seconds.
    node_price_sums: BTreeMap<usize, i128>,
}

impl Walk<'_> {
    /// One second of a name, and the node that has it then. `pods` are all that were ever on it, with the last second
    /// in which they were on a node.
    fn take_second(
        &mut self,
        name: &str,
        node: Option<usize>,
        pods: &[(usize, Option<i64>)],
        second: i64,
        bill: &mut Bill,
    ) {
        let day = Day(i32::try_from(second.div_euclid(SECONDS_PER_DAY)).unwrap());
        let holding = || pods.iter().filter(|(pod, _)| self.pods[*pod].holds(second));
        let Some(node) = node else {
            // A pod that will be on no node any more has ended with the last one.
            for (pod, _) in holding().filter(|(_, last)| last.is_none_or(|last| second < last)) {
                bill.outside.insert((self.pods[*pod].about.uid.clone(), day));
            }
            return;
        };
        let (shape, has) = self.nodes[node].shape_at(second);
        let (paid, saved) = self.nodes[node].paid();
        let price = paid.or_else(|| price_at(self.prices, shape, has.0, second));
        let mut cells = Vec::new();
        let mut all_held = (0, 0);
        for (pod, _) in holding() {
            let fact = &self.pods[*pod];
            let (class, held) = (fact.class_at(second), (i64::from(fact.about.gpus), fact.about.cpu_millis));
            all_held = (all_held.0 + held.0, all_held.1 + held.1);
            cells.push(Cell { pod: Some(*pod), node, day, class, price, saved, has, held });
        }
        let class = if self.nodes[node].starts_in(second) { Class::NodeStarting } else { Class::NodeIdle };
        cells.push(Cell { pod: None, node, day, class, price, saved, has, held: all_held });
        if all_held.0 > has.0 || (has.0 == 0 && all_held.1 > has.1) {
            bill.overcommitted.insert((name.to_owned(), second));
        }
        for cell in cells {
            *self.alike.entry(cell).or_default() += 1;
        }
        *self.node_price_sums.entry(node).or_default() += price.unwrap_or_default();
    }

    fn last_told(&self) -> i64 {
        let of_nodes = self.nodes.iter().flat_map(|node| [Some(node.created), node.ends.known()]);
        let of_pods = self.pods.iter().flat_map(|pod| [Some(pod.scheduled), pod.ends.known()]);
        of_nodes.chain(of_pods).flatten().max().unwrap_or_default()
    }

    fn add_up(self, bill: &mut Bill) {
        for (cell, seconds) in &self.alike {
            let about = cell.pod.map(|pod| self.pods[pod].about);
            let row = Row {
                pod_uid: about.map(|about| about.uid.clone()),
                node_uid: self.nodes[cell.node].uid.to_owned(),
                day: cell.day,
                class: cell.class,
                attribution: match about {
                    Some(about) => attribution(about),
                    None if cell.class == Class::NodeStarting => self.nodes[cell.node].buyer(),
                    None => Attribution::default(),
                },
            };
            bill.rows.entry(row).or_default().add(&cell.used(*seconds));
        }
        bill.rows.retain(|_, used| !used.is_nothing());
        for (node, sum) in self.node_price_sums.into_iter().filter(|(_, sum)| *sum != 0) {
            bill.nodes.insert(self.nodes[node].uid.to_owned(), Money::fraction(sum, MICRO_HOURS));
        }
    }
}

/// Seconds that are alike are counted, and multiplied once.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Cell {
    pod: Option<usize>,
    node: usize,
    day: Day,
    class: Class,
    /// Of the whole node for an hour, in millionths.
    price: Option<i128>,
    /// By how much that is below the price on demand.
    saved: i128,
    /// GPUs and thousandths of CPU cores of the node.
    has: (i64, i64),
    /// The same, of the pod; on the node's own cell, of all pods.
    held: (i64, i64),
}

impl Cell {
    fn used(&self, seconds: i64) -> Used {
        let gpus = if self.pod.is_some() { self.held.0 } else { self.has.0 - self.held.0 };
        let mut used = Used { gpu_seconds: gpus * seconds, ..Used::default() };
        if self.pod.is_some() {
            used.seconds = seconds;
        }
        let Some(price) = self.price else {
            used.unpriced = (gpus * seconds, seconds);
            return used;
        };
        used.money = self.part_of(price).times(seconds);
        used.saved = self.part_of(self.saved).times(seconds);
        used
    }

    /// For a second: what is held; on the node's own cell, what is not.
    fn part_of(&self, price: i128) -> Money {
        let share = self.share(price);
        if self.pod.is_some() { share } else { Money::fraction(price, MICRO_HOURS).minus(&share) }
    }

    /// What is held costs, for a second.
    fn share(&self, price: i128) -> Money {
        if self.has.0 > 0 {
            return Money::fraction(price * i128::from(self.held.0), MICRO_HOURS * i128::from(self.has.0));
        }
        if self.has.1 == 0 {
            return Money::default();
        }
        let parts_each = (price * PARTS).div_euclid(i128::from(self.has.1));
        Money::fraction(parts_each * i128::from(self.held.1), MICRO_HOURS * PARTS)
    }
}

struct NodeFact<'a> {
    uid: &'a str,
    name: &'a str,
    created: i64,
    seen: Vec<&'a (Moment, NodeShape)>,
    purchases: Vec<&'a Purchase>,
    ends: Ends,
    /// The last second in which a pod was on it whose end is certain.
    surely_used: Option<i64>,
}

struct PodFact<'a> {
    about: &'a PodRecord,
    scheduled: i64,
    started: Option<i64>,
    lost: Option<i64>,
    ends: Ends,
}

/// All that were told.
#[derive(Default)]
struct Ends {
    certain: Option<i64>,
    provisional: Option<i64>,
}

impl Ends {
    fn add(&mut self, end: Option<End>) {
        match end {
            Some(End::Certain(at)) => self.certain = Some(self.certain.map_or(at.0, |known| known.max(at.0))),
            Some(End::Provisional(at)) => {
                self.provisional = Some(self.provisional.map_or(at.0, |known| known.min(at.0)));
            }
            None => {}
        }
    }

    fn known(&self) -> Option<i64> {
        self.certain.or(self.provisional)
    }

    fn before_or_at(&self, second: i64) -> bool {
        self.known().is_some_and(|end| end <= second)
    }
}

fn facts(told: &[Observation]) -> (Vec<NodeFact<'_>>, Vec<PodFact<'_>>) {
    let (mut nodes, mut pods): (Vec<NodeFact<'_>>, Vec<PodFact<'_>>) = (Vec::new(), Vec::new());
    for observation in told {
        match observation {
            Observation::Node(node) => {
                let index = nodes.iter().position(|fact| fact.uid == node.uid).unwrap_or_else(|| {
                    let (uid, name) = (node.uid.as_str(), node.name.as_str());
                    let (seen, purchases, ends) = (Vec::new(), Vec::new(), Ends::default());
                    let created = node.created_at.0;
                    nodes.push(NodeFact { uid, name, created, seen, purchases, ends, surely_used: None });
                    nodes.len() - 1
                });
                nodes[index].created = nodes[index].created.min(node.created_at.0);
                nodes[index].seen.extend(&node.shapes);
                nodes[index].purchases.extend(&node.bought);
                nodes[index].ends.add(node.ended);
            }
            Observation::Pod(pod) => {
                let index = pods.iter().position(|fact| fact.about.uid == pod.uid).unwrap_or_else(|| {
                    let ends = Ends::default();
                    pods.push(PodFact {
                        about: pod,
                        scheduled: pod.scheduled_at.0,
                        started: None,
                        lost: None,
                        ends,
                    });
                    pods.len() - 1
                });
                pods[index].scheduled = pods[index].scheduled.min(pod.scheduled_at.0);
                let started = pod.started_at.map(|at| at.0);
                pods[index].started = pods[index].started.into_iter().chain(started).min();
                let lost = pod.lost_from.map(|at| at.0);
                pods[index].lost = pods[index].lost.into_iter().chain(lost).min();
                pods[index].ends.add(pod.ended);
            }
        }
    }
    for pod in &pods {
        let of_name: Vec<_> =
            (0..nodes.len()).filter(|node| nodes[*node].name == pod.about.node.as_str()).collect();
        for second in pod.scheduled..pod.ends.certain.unwrap_or(pod.scheduled) {
            if let Some(node) = newest_at(&nodes, &of_name, second) {
                nodes[node].surely_used = nodes[node].surely_used.max(Some(second));
            }
        }
    }
    (nodes, pods)
}

/// A newer node of the name shows that those before it are gone.
fn newest_at(nodes: &[NodeFact<'_>], of_name: &[usize], second: i64) -> Option<usize> {
    let created = of_name.iter().copied().filter(|node| nodes[*node].created <= second);
    created.max_by_key(|node| nodes[*node].created)
}

/// The node of the name that exists in this second. It is not gone while some pod is surely yet to use it, unless it
/// was seen to go.
fn node_at(nodes: &[NodeFact<'_>], of_name: &[usize], second: i64) -> Option<usize> {
    let newest = newest_at(nodes, of_name, second)?;
    let node = &nodes[newest];
    let is_used_yet = node.ends.certain.is_none() && node.surely_used.is_some_and(|used| second <= used);
    (is_used_yet || !node.ends.before_or_at(second)).then_some(newest)
}

impl NodeFact<'_> {
    /// What was paid for an hour, if it was bought, and what that is below the price on demand. In millionths.
    fn paid(&self) -> (Option<i128>, i128) {
        let paid = self.purchases.iter().map(|bought| i128::from(bought.paid.0)).max();
        let on_demand = self.purchases.iter().filter_map(|bought| bought.on_demand).max();
        let saved = on_demand.zip(paid).map(|(on_demand, paid)| i128::from(on_demand.0) - paid);
        (paid, saved.unwrap_or_default())
    }

    /// It starts if that was ever reported, until any report says that it is open.
    fn starts_in(&self, second: i64) -> bool {
        let starts = || self.purchases.iter().filter_map(|bought| bought.start.as_ref());
        starts().next().is_some() && !starts().any(|start| start.opened_at.is_some_and(|at| at.0 <= second))
    }

    /// Reports that knew more said it; no report said anything else.
    fn buyer(&self) -> Attribution {
        let buyers = self.purchases.iter().filter_map(|bought| Some(bought.start.as_ref()?.buyer.clone()));
        buyers.max_by_key(|buyer| buyer.namespace.is_some()).unwrap_or_default()
    }

    /// As last seen (first, before that), and the most GPUs and CPU that were seen until then.
    fn shape_at(&self, second: i64) -> (&NodeShape, (i64, i64)) {
        let first = self.seen.iter().min().expect("a node has a shape");
        let until = || self.seen.iter().filter(|(at, _)| at.0 <= second);
        let (_, last) = until().max().unwrap_or(first);
        let gpus = until().map(|(_, shape)| shape.gpus).max().unwrap_or(first.1.gpus);
        let cpu_millis = until().map(|(_, shape)| shape.cpu_millis).max().unwrap_or(first.1.cpu_millis);
        (last, (i64::from(gpus), cpu_millis))
    }
}

impl PodFact<'_> {
    fn holds(&self, second: i64) -> bool {
        self.scheduled <= second && !self.ends.before_or_at(second)
    }

    /// Of those in which there was one.
    fn last_second_on_a_node(&self, there: &[(i64, Option<usize>)]) -> Option<i64> {
        let on_a_node = there.iter().rev().find(|(second, node)| node.is_some() && self.holds(*second));
        on_a_node.map(|(second, _)| *second)
    }

    fn class_at(&self, second: i64) -> Class {
        let is_after = |at: Option<i64>| at.is_some_and(|at| at <= second);
        if is_after(self.started) && is_after(self.lost) {
            Class::Lost
        } else if is_after(self.started) {
            Class::Productive
        } else {
            Class::Starting
        }
    }
}

/// Of the whole node for an hour, in millionths.
fn price_at(prices: &[Price], shape: &NodeShape, gpus: i64, second: i64) -> Option<i128> {
    let mut best: Option<&Price> = None;
    for price in prices.iter().filter(|price| price.from.0 <= second) {
        let instance = price.instance_type.is_none() || price.instance_type == shape.instance_type;
        let gpu = price.gpu_type.is_none() || price.gpu_type == shape.gpu_type;
        let capacity = price.capacity_type.as_ref().is_none_or(|wanted| *wanted == shape.capacity_type);
        if instance && gpu && capacity && best.is_none_or(|best| goes_before(price, best)) {
            best = Some(price);
        }
    }
    let best = best?;
    let times = if best.unit == PriceUnit::Gpu { i128::from(gpus) } else { 1 };
    Some(i128::from(best.price.0) * times)
}

fn goes_before(price: &Price, other: &Price) -> bool {
    let asks = [
        (price.instance_type.is_some(), other.instance_type.is_some()),
        (price.gpu_type.is_some(), other.gpu_type.is_some()),
        (price.capacity_type.is_some(), other.capacity_type.is_some()),
    ];
    for (asks, other_asks) in asks {
        if asks != other_asks {
            return asks;
        }
    }
    if price.from == other.from { price.sheet < other.sheet } else { price.from > other.from }
}

fn attribution(pod: &PodRecord) -> Attribution {
    Attribution {
        namespace: Some(pod.namespace.clone()),
        pod: Some(pod.name.clone()),
        run: pod.run.clone(),
        attempt: pod.attempt,
        queue: pod.queue.clone(),
        user: pod.user.clone(),
    }
}
