//! A random history: what truly happened within a minute or two around a midnight, and what a watch reports of it.

use costing::{
    Attribution, Day, End, HourlyPrice, MachineStart, Moment, NodeRecord, NodeShape, PodRecord, Price,
    PriceUnit, Purchase,
};

use super::random::Random;

/// The truth, and how it is reported.
pub struct History {
    /// Nothing happens before.
    pub start: Moment,
    /// Nor later.
    pub end: Moment,
    /// When the ledger is looked at last.
    pub now: Moment,
    pub nodes: Vec<NodeRecord>,
    pub pods: Vec<PodRecord>,
    pub prices: Vec<Price>,
    pub stream: Vec<Observation>,
}

/// What the meter makes of a watch event.
#[derive(Clone)]
pub enum Observation {
    Node(NodeRecord),
    Pod(PodRecord),
}

impl History {
    /// Each object once, as it truly was.
    pub fn truth(&self) -> Vec<Observation> {
        let nodes = self.nodes.iter().cloned().map(Observation::Node);
        nodes.chain(self.pods.iter().cloned().map(Observation::Pod)).collect()
    }
}

pub fn history(seed: u64) -> History {
    let mut random = Random::new(seed);
    let midnight = Day(i32::try_from(random.between(20_000, 21_000)).unwrap()).start();
    let start = Moment(midnight.0 - random.between(5, 60));
    let longest = if random.chance(10) { 150 } else { 90 };
    let end = Moment(start.0 + random.between(20, longest));
    let mut nodes = Vec::new();
    for index in 0..random.between(1, 3) {
        lives_of_one_name(&format!("node-{index}"), start, end, &mut nodes, &mut random);
    }
    let mut pods = Vec::new();
    for node in &nodes {
        pods_on(node, start, end, &mut pods, &mut random);
    }
    let prices = prices(start, end, &mut random);
    let stream = stream(&nodes, &pods, &mut random);
    let now = if random.chance(70) { end } else { Moment(random.between(start.0 + 1, end.0)) };
    History { start, end, now, nodes, pods, prices, stream }
}

/// One node, and sometimes another of the same name after it.
fn lives_of_one_name(
    name: &str,
    start: Moment,
    end: Moment,
    nodes: &mut Vec<NodeRecord>,
    random: &mut Random,
) {
    let mut created = Moment(start.0 + random.between(0, (end.0 - start.0) / 3));
    for life in 0..2 {
        let ended =
            (random.chance(40) && created < end).then(|| Moment(random.between(created.0 + 1, end.0)));
        let shapes = shapes(created, ended.unwrap_or(end), random);
        let uid = format!("{name}-{life}");
        // Some of the ends were not seen: those of nodes with a successor, which then ends them.
        let seen = ended.filter(|_| random.chance(85)).map(|at| {
            // One in four vanished while nothing watched, and its pods may go on.
            if random.chance(75) { End::Certain(at) } else { End::Provisional(at) }
        });
        let (name, bought) = (name.to_owned(), purchase(created, end, random));
        nodes.push(NodeRecord { uid, name, created_at: created, shapes, ended: seen, bought });
        match ended {
            Some(at) if at < end && random.chance(60) => {
                // The kubelet registers again, at once or a little later; pods may run through it.
                let latest = if random.chance(40) { at.0 } else { end.0.min(at.0 + 10) };
                created = Moment(random.between(at.0, latest));
            }
            _ => break,
        }
    }
}

/// Some are machines that we bought: on demand or as spot, for a gang or as a spare, and some never open.
fn purchase(created: Moment, end: Moment, random: &mut Random) -> Option<Purchase> {
    if random.chance(60) {
        return None;
    }
    let paid = HourlyPrice(random.between(0, 60_000_000));
    // Spot may cost more than on demand.
    let on_demand = random.chance(50).then(|| HourlyPrice(random.between(0, 60_000_000)));
    let start = random.chance(80).then(|| MachineStart {
        buyer: buyer(random),
        // Also before it is there, or late, by another machine's clock.
        opened_at: random.chance(80).then(|| Moment(random.between(created.0 - 2, end.0 + 5))),
    });
    Some(Purchase { paid, on_demand, start })
}

fn buyer(random: &mut Random) -> Attribution {
    if random.chance(20) {
        return Attribution::default();
    }
    Attribution {
        namespace: Some(format!("team-{}", random.below(2))),
        pod: None,
        run: Some(format!("run-{}", random.below(4))),
        attempt: Some(u32::try_from(random.between(1, 2)).unwrap()),
        queue: Some(format!("queue-{}", random.below(2))),
        user: random.chance(80).then(|| format!("user-{}", random.below(3))),
    }
}

fn an_end(at: Moment, random: &mut Random) -> End {
    if random.chance(85) { End::Certain(at) } else { End::Provisional(at) }
}

fn shapes(created: Moment, end: Moment, random: &mut Random) -> Vec<(Moment, NodeShape)> {
    let mut shape = NodeShape {
        instance_type: random.pick(&[Some("p5.48xlarge".to_owned()), Some("g6.xlarge".to_owned()), None]),
        capacity_type: random.pick(&["on-demand", "spot", "on-premises"]).to_owned(),
        gpu_type: random.pick(&[Some("H100".to_owned()), Some("L4".to_owned()), None]),
        gpus: random.pick(&[1, 2, 3, 4, 5, 6, 7, 8, 8, 0]),
        cpu_millis: random.pick(&[4_000, 6_400, 7_000, 96_000, 1_001]),
    };
    // Seen at once, a little later, or by a clock that is behind.
    let seen = Moment(created.0 + random.pick(&[0, 0, 0, 0, 2, 5, -2]));
    let mut shapes = vec![(seen, shape.clone())];
    for _ in 0..random.pick(&[0, 0, 0, 1, 2, 3]) {
        let at = Moment(random.between(created.0, end.0));
        match random.below(5) {
            0 => shape.gpus = 0,
            1 => shape.gpus += 1,
            2 => random.pick(&["on-demand", "spot"]).clone_into(&mut shape.capacity_type),
            3 => shape.gpu_type = Some("H100".to_owned()),
            _ => {}
        }
        shapes.push((at, shape.clone()));
    }
    shapes.sort();
    shapes.dedup();
    shapes
}

/// Pods, mostly as many as fit; a few more than that, and a few that miss the node's life.
fn pods_on(node: &NodeRecord, start: Moment, end: Moment, pods: &mut Vec<PodRecord>, random: &mut Random) {
    let has = node.shapes[0].1.gpus;
    let mut free = vec![has; usize::try_from(end.0 - start.0 + 1).unwrap()];
    let index = |at: Moment| usize::try_from(at.0.clamp(start.0, end.0) - start.0).unwrap();
    let gone = node.ended.map_or(end, End::at);
    for _ in 0..random.pick(&[0, 1, 2, 3, 4, 5, 6, 8]) {
        let earliest = if random.chance(5) { start } else { node.created_at };
        let is_unsure = matches!(node.ended, Some(End::Provisional(_)));
        let latest = if random.chance(if is_unsure { 30 } else { 5 }) { end } else { Moment(gone.0 - 1) };
        let scheduled_at = Moment(random.between(earliest.0, latest.0.max(earliest.0)));
        let ended = random.chance(75).then(|| Moment(scheduled_at.0 + random.between(0, 50)));
        let held = index(scheduled_at)..index(ended.unwrap_or(gone)).max(index(scheduled_at));
        let room = free[held.clone()].iter().copied().min().unwrap_or(0);
        let gpus = match random.below(20) {
            0 => random.pick(&[1, 2, 4]),
            1..4 => 0,
            4..12 => room,
            _ => u32::try_from(random.between(0, i64::from(room))).unwrap(),
        };
        for free in &mut free[held] {
            *free = free.saturating_sub(gpus);
        }
        pods.push(pod(pods.len(), node, gpus, scheduled_at, ended, random));
    }
}

fn pod(
    index: usize,
    node: &NodeRecord,
    gpus: u32,
    scheduled_at: Moment,
    ended: Option<Moment>,
    random: &mut Random,
) -> PodRecord {
    // Before its reservation or after its end too: clocks differ.
    let started_at = random.chance(80).then(|| Moment(scheduled_at.0 + random.between(-2, 15)));
    let is_of_a_run = random.chance(85);
    let named = |kind: &str, count: u64, random: &mut Random| {
        is_of_a_run.then(|| format!("{kind}-{}", random.below(count)))
    };
    PodRecord {
        uid: format!("pod-{index}"),
        namespace: format!("team-{}", random.below(2)),
        name: format!("worker-{index}"),
        node: node.name.clone(),
        run: named("run", 4, random),
        attempt: is_of_a_run.then(|| u32::try_from(random.between(1, 2)).unwrap()),
        queue: named("queue", 2, random),
        user: named("user", 3, random),
        gpus,
        cpu_millis: random.pick(&[0, 250, 333, 1_000, 2_000]),
        scheduled_at,
        started_at,
        ended: ended.map(|at| an_end(at, random)),
        // Also before its start, after its end, and of one that goes on: another machine reports what was loaded.
        lost_from: random.chance(30).then(|| Moment(scheduled_at.0 + random.between(-5, 40))),
    }
}

/// Awkward digits: 98.32 / 7, the smallest, the greatest, nothing.
const PRICES: [i64; 8] = [98_320_000, 14_045_714, 2_990_000, 3_141_593, 1, 1_000_000_000_000, 0, 7_777_777];

fn prices(start: Moment, end: Moment, random: &mut Random) -> Vec<Price> {
    let mut prices: Vec<Price> = Vec::new();
    for _ in 0..random.between(1, 6) {
        let mut price = Price {
            sheet: random.pick(&["cloud", "list"]).to_owned(),
            instance_type: random.chance(20).then(|| "p5.48xlarge".to_owned()),
            gpu_type: random.chance(20).then(|| "H100".to_owned()),
            capacity_type: random.chance(20).then(|| "spot".to_owned()),
            unit: random.pick(&[PriceUnit::Node, PriceUnit::Gpu]),
            price: HourlyPrice(random.pick(&PRICES)),
            from: Moment(start.0 - 1_000),
        };
        if random.chance(50) {
            price.from = Moment(random.between(start.0, end.0));
        }
        prices.push(price);
        // The same price once more, later: it must not cut a line.
        if random.chance(20) {
            let again = prices.last().cloned().unwrap();
            prices.push(Price { from: Moment(random.between(again.from.0 + 1, end.0 + 1)), ..again });
        }
    }
    // A sheet that says two prices for the same has no meaning that the reference could know.
    prices.sort_by_key(what_it_is_for);
    prices.dedup_by_key(|price| what_it_is_for(price));
    random.shuffle(&mut prices);
    prices
}

fn what_it_is_for(price: &Price) -> impl Ord + use<> {
    let asks = (price.instance_type.is_some(), price.gpu_type.is_some(), price.capacity_type.is_some());
    (price.from, price.sheet.clone(), asks)
}

/// What is reported of each object, in parts; then put into an order, and some of it reported again.
fn stream(nodes: &[NodeRecord], pods: &[PodRecord], random: &mut Random) -> Vec<Observation> {
    let mut told: Vec<(i64, Observation)> = Vec::new();
    for node in nodes {
        tell_node(node, &mut told, random);
    }
    for pod in pods {
        tell_pod(pod, &mut told, random);
    }
    for index in 0..told.len() {
        if random.chance(15) {
            let (at, observation) = told[index].clone();
            told.push((at + random.between(0, 30), observation));
        }
    }
    // As it happened; a little mixed up; or in any order.
    let disorder = random.pick(&[0, 0, 20, 100_000]);
    for (at, _) in &mut told {
        *at += random.between(-disorder, disorder);
    }
    told.sort_by_key(|(at, _)| *at);
    told.into_iter().map(|(_, observation)| observation).collect()
}

fn tell_node(node: &NodeRecord, told: &mut Vec<(i64, Observation)>, random: &mut Random) {
    for (at, shape) in &node.shapes {
        let shapes = vec![(*at, shape.clone())];
        let bought = node.bought.clone().and_then(|bought| told_of(bought, random));
        told.push((at.0, Observation::Node(NodeRecord { shapes, ended: None, bought, ..node.clone() })));
    }
    let late = random.between(0, 20);
    told.push((node.created_at.0 + late, Observation::Node(NodeRecord { ended: None, ..node.clone() })));
    let Some(end) = node.ended else { return };
    let late = random.between(0, 20);
    if random.chance(25) {
        // It vanished while nothing watched: it was surely there until then, or surely gone by then.
        let ended = Some(End::Provisional(wrong_end(end, node.created_at, random)));
        told.push((end.at().0 + late, Observation::Node(NodeRecord { ended, ..node.clone() })));
    }
    told.push((end.at().0 + late, Observation::Node(node.clone())));
}

/// A Node that is not known to be of a claim yet, a claim whose gang is not known yet, a machine that is not open yet.
fn told_of(bought: Purchase, random: &mut Random) -> Option<Purchase> {
    let start = bought.start.clone();
    match random.below(5) {
        0 => None,
        1 => Some(Purchase { start: None, ..bought }),
        2 => Some(Purchase { start: start.map(|start| MachineStart { opened_at: None, ..start }), ..bought }),
        3 => {
            let nobody = |start| MachineStart { buyer: Attribution::default(), ..start };
            Some(Purchase { start: start.map(nobody), ..bought })
        }
        _ => Some(bought),
    }
}

fn tell_pod(pod: &PodRecord, told: &mut Vec<(i64, Observation)>, random: &mut Random) {
    if let Some(lost) = pod.lost_from {
        // A later attempt may go back further still.
        let lost_from = Some(Moment(lost.0 + random.pick(&[0, 0, 5])));
        let early = PodRecord { ended: None, lost_from, ..pod.clone() };
        told.push((lost.0 + random.between(0, 60), Observation::Pod(early)));
        told.push((lost.0 + 60, Observation::Pod(PodRecord { ended: None, ..pod.clone() })));
    }
    let pod = &PodRecord { lost_from: None, ..pod.clone() };
    let scheduled = PodRecord { started_at: None, ended: None, ..pod.clone() };
    // The first report may have known less of its start than was known later.
    let vague = Moment(pod.scheduled_at.0 + random.pick(&[0, 0, 0, 0, 3, 7]));
    told.push((vague.0, Observation::Pod(PodRecord { scheduled_at: vague, ..scheduled.clone() })));
    told.push((vague.0 + 1, Observation::Pod(scheduled.clone())));
    if let Some(started) = pod.started_at {
        let started_at = Some(Moment(started.0 + random.pick(&[0, 0, 0, 4])));
        told.push((started.0, Observation::Pod(PodRecord { started_at, ..scheduled.clone() })));
        told.push((started.0 + 1, Observation::Pod(PodRecord { started_at: Some(started), ..scheduled })));
    }
    let Some(end) = pod.ended else { return };
    let late = random.between(0, 20);
    if random.chance(25) {
        let ended = Some(End::Provisional(wrong_end(end, pod.scheduled_at, random)));
        told.push((end.at().0 + late, Observation::Pod(PodRecord { ended, ..pod.clone() })));
    }
    if let End::Certain(at) = end
        && random.chance(20)
    {
        // One of its containers ended before.
        let ended = Some(End::Certain(Moment(at.0 - random.between(0, 10))));
        told.push((at.0, Observation::Pod(PodRecord { ended, ..pod.clone() })));
    }
    told.push((end.at().0 + late, Observation::Pod(pod.clone())));
}

/// A provisional end that the true one corrects: any, before a certain one; a later one, before a provisional one.
fn wrong_end(end: End, from: Moment, random: &mut Random) -> Moment {
    match end {
        End::Certain(at) => Moment(random.between(from.0, at.0 + 20)),
        End::Provisional(at) => Moment(at.0 + random.between(0, 20)),
    }
}
