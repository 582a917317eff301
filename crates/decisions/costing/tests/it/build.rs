//! Short helpers that write down nodes, pods, prices and what is expected of them.

use costing::{
    Account, Class, Day, Fold, HourlyPrice, Line, Moment, NodeRecord, NodeShape, PodRecord, Price, PriceBook,
    PriceUnit, Subject, fold,
};

/// The day of all tables.
pub const TODAY: Day = Day(20_000);

/// Seconds after the midnight with which today begins.
pub fn at(seconds: i64) -> Moment {
    Moment(TODAY.start().0 + seconds)
}

/// Seconds before (or, above zero, after) the midnight with which today ends.
pub fn midnight(seconds: i64) -> Moment {
    Moment(TODAY.end().0 + seconds)
}

pub fn gpu_shape(gpus: u32) -> NodeShape {
    NodeShape {
        instance_type: Some("p5.48xlarge".to_owned()),
        capacity_type: "on-demand".to_owned(),
        gpu_type: Some("H100".to_owned()),
        gpus,
        cpu_millis: 96_000,
    }
}

pub fn cpu_shape(cpu_millis: i64) -> NodeShape {
    NodeShape { gpu_type: None, gpus: 0, cpu_millis, ..gpu_shape(0) }
}

/// Node `n`, created with today.
pub fn node(shape: NodeShape) -> NodeRecord {
    NodeRecord {
        uid: "n-1".to_owned(),
        name: "n".to_owned(),
        created_at: at(0),
        shapes: vec![(at(0), shape)],
        ended: None,
        bought: None,
    }
}

/// A pod on node `n` that never started and never ended.
pub fn pod(uid: &str, gpus: u32, scheduled_at: Moment) -> PodRecord {
    PodRecord {
        uid: uid.to_owned(),
        namespace: "team".to_owned(),
        name: format!("{uid}-name"),
        node: "n".to_owned(),
        run: Some("run".to_owned()),
        attempt: Some(1),
        queue: Some("queue".to_owned()),
        user: Some("user".to_owned()),
        gpus,
        cpu_millis: 1_000,
        scheduled_at,
        started_at: None,
        ended: None,
        lost_from: None,
    }
}

/// A price for every node, for ever.
pub fn price(unit: PriceUnit, text: &str) -> Price {
    Price {
        sheet: "list".to_owned(),
        instance_type: None,
        gpu_type: None,
        capacity_type: None,
        unit,
        price: HourlyPrice::parse(text).unwrap(),
        from: Moment(0),
    }
}

/// 3.60 for a node's hour: a thousand millionths for its second.
pub fn plain_prices() -> PriceBook {
    PriceBook::new(vec![price(PriceUnit::Node, "3.6")])
}

pub fn fold_today(nodes: &[NodeRecord], pods: &[PodRecord], prices: &PriceBook, now: Moment) -> Fold {
    fold(&Account { node: "n".to_owned(), day: TODAY }, nodes, pods, prices, now)
}

/// Lines as one reads them: `closed a starting 10..20 gpus 2 rate 500`, in order, with seconds of today and
/// millionths of the currency per second.
pub fn told(fold: &Fold) -> Vec<String> {
    let closed = fold.closed.iter().map(|line| (line.from, format!("closed {}", words(line))));
    let open = fold.open.iter().map(|open| (open.line.from, format!("open {}", words(&open.line))));
    let mut all: Vec<_> = closed.chain(open).collect();
    all.sort();
    all.into_iter().map(|(_, words)| words).collect()
}

fn words(line: &Line) -> String {
    let subject = match &line.subject {
        Subject::Pod(uid) => uid,
        Subject::Idle => "rest",
    };
    let class = match line.class {
        Class::Productive => "productive",
        Class::Starting => "starting",
        Class::Lost => "lost",
        Class::NodeStarting => "node-starting",
        Class::NodeIdle => "idle",
    };
    let second = |moment: Moment| moment.0 - TODAY.start().0;
    let (from, to) = (second(line.from), second(line.to));
    let rate = line.rate.map_or_else(|| "unknown".to_owned(), |rate| (rate * 1_000_000).to_string());
    let rate = rate.trim_end_matches(".000000").to_owned();
    format!("{subject} {class} {from}..{to} gpus {} rate {rate}", line.gpus)
}
