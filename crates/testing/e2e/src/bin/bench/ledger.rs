//! `cargo xtask bench ledger`: a month of a million ledger lines, written as by the meter and read as by
//! people.
//!
//! ```text
//!   runs of eight pods on nodes of eight GPUs ─► Ledger.record ─► Ledger.post ─► ANALYZE
//!        ─► as the reader's role: the month by queue, and single runs ─► vacuum, and the roll into the next month
//! ```
//!
//! PostgreSQL is the real one, with `fsync` and 64 MB of shared buffers. All data goes through the ledger's own
//! code.

use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use costing::{Amount, Day, End, HourlyPrice, Moment, NodeRecord, NodeShape, PodRecord, Price, PriceUnit};
use jiff::tz::TimeZone;
use sqlx::{Connection, PgConnection};
use store::{Batch, Grouping, Ledger, Reader, Report, ReportQuery, Scope};
use test_cluster::postgres::Postgres;
use toolbox::figures;

const CLUSTER: &str = "bench";
/// Pods of a run, each on a node of its own.
const PODS_PER_RUN: usize = 8;
/// Each run leaves three lines on each of its nodes: starting, productive, and idle until the next one.
const RUNS_PER_DAY: i64 = 44;
const LINES_PER_RUN_AND_NODE: usize = 3;
const SECONDS_PER_RUN: i64 = 86_400 / RUNS_PER_DAY;
const PODS_PER_BATCH: usize = 5_000;
const ACCOUNTS_PER_POST: u32 = 512;
const NAMESPACES: usize = 60;
const QUEUES: usize = 40;
const USERS: usize = 200;
const REPETITIONS: usize = 50;

/// A month of ledger lines.
#[derive(clap::Args)]
pub struct Args {
    /// At least this many lines.
    #[arg(long, default_value_t = 1_000_000)]
    lines: usize,
}

pub async fn measure(args: Args) -> anyhow::Result<()> {
    let folder = tempfile::tempdir()?;
    let postgres = Postgres::start(folder.path()).await?;
    let url = |file| std::fs::read_to_string(file).context("cannot read a URL");
    store::migrate(&url(postgres.owner_url_file())?).await?;
    let ledger = Ledger::open(&url(postgres.meter_url_file())?, CLUSTER)?;
    let reader = Reader::open(&url(postgres.reader_url_file())?, CLUSTER)?;
    let mut admin = PgConnection::connect(url(postgres.superuser_url_file())?.trim()).await?;

    let month = Month::last();
    let nodes =
        (args.lines / (month.days() * 44 * LINES_PER_RUN_AND_NODE) + 1).next_multiple_of(PODS_PER_RUN);
    println!(
        "{nodes} nodes × 8 GPUs for the {} days from {}, {RUNS_PER_DAY} runs × {PODS_PER_RUN} pods a day on each \
         eight; {NAMESPACES} namespaces, {QUEUES} queues, {USERS} users; fsync on; {} cores",
        month.days(),
        month.first_date,
        std::thread::available_parallelism()?,
    );
    let lines = write(&ledger, &month, nodes).await?;
    ensure!(lines >= args.lines as u64, "{lines} lines are fewer than {}", args.lines);
    let size = format!("{lines} lines");
    vacuum(&mut admin, &size).await?;
    read(&reader, &mut admin, &month, nodes, &size).await?;
    roll(&ledger, &month).await?;
    Ok(())
}

/// Records and posts everything; returns how many lines there are.
async fn write(ledger: &Ledger, month: &Month, nodes: usize) -> anyhow::Result<u64> {
    let price = Price {
        sheet: "bench".into(),
        instance_type: None,
        gpu_type: Some("H100".into()),
        capacity_type: None,
        unit: PriceUnit::Gpu,
        price: HourlyPrice::parse("2.99")?,
        from: Moment(0),
    };
    ledger.set_prices("EUR", &[price]).await?;
    ledger.record(&Batch { pods: vec![], nodes: (0..nodes).map(|node| month.node(node)).collect() }).await?;
    let begun = Instant::now();
    let mut pods = 0;
    let mut batch = Batch::default();
    for run in 0..month.runs(nodes) {
        batch.pods.extend(month.pods(run, nodes));
        if batch.pods.len() >= PODS_PER_BATCH || run + 1 == month.runs(nodes) {
            pods += batch.pods.len();
            ledger.record(&batch).await?;
            batch.pods.clear();
        }
    }
    print_rate("ledger.record_pods_per_second", pods, begun.elapsed(), "pods", "Ledger.record, one writer");
    let begun = Instant::now();
    let mut lines = 0;
    loop {
        let posted = ledger.post(month.now(), ACCOUNTS_PER_POST).await?;
        ensure!(
            posted.problems == 0 && posted.reversals == 0,
            "the bench's own history is wrong: {posted:?}"
        );
        lines += posted.charges;
        if posted.accounts < u64::from(ACCOUNTS_PER_POST) {
            break;
        }
    }
    let reference = "Ledger.post, one writer, sums of days and runs included";
    print_rate(
        "ledger.insert_lines_per_second",
        usize::try_from(lines)?,
        begun.elapsed(),
        "lines",
        reference,
    );
    Ok(lines)
}

/// Reads the month by queue, and single runs, like people.
async fn read(
    reader: &Reader,
    admin: &mut PgConnection,
    month: &Month,
    nodes: usize,
    size: &str,
) -> anyhow::Result<()> {
    let scopes = [
        ("all queues by name", Scope::Queues((0..QUEUES).map(queue).collect())),
        ("half of the namespaces", Scope::Namespaces((0..NAMESPACES / 2).map(namespace).collect())),
        ("everything", Scope::Everything),
    ];
    let mut slowest = Times::default();
    for (name, scope) in &scopes {
        let mut times = Times::default();
        for _ in 0..REPETITIONS {
            times.measure(reader.report(scope, &month.by_queue(), month.now())).await?;
        }
        println!("the month by queue, {name}: {times}");
        slowest = slowest.slower(times);
    }
    let by_queue = reader.report(&Scope::Everything, &month.by_queue(), month.now()).await?;
    let from_lines = sum_lines(admin, &by_queue).await?;
    let reference = format!(
        "median of {REPETITIONS}, slowest of {} scopes; p95 {:.1}; {size}; summing the lines themselves {:.0}",
        scopes.len(),
        slowest.percentile(95),
        from_lines.as_secs_f64() * 1_000.0,
    );
    figures::print("ledger.month_by_queue_ms", slowest.percentile(50), "ms", &reference);

    let mut times = Times::default();
    for step in 0..REPETITIONS {
        let run = step * month.runs(nodes) / REPETITIONS;
        let of = month.pods(run, nodes).next().context("a run has pods")?;
        let scope = Scope::Namespaces(vec![of.namespace.clone()]);
        let name = of.run.context("it is of a run")?;
        let cost = times.measure(reader.run_cost(&scope, &of.namespace, &name, month.now())).await?;
        ensure!(cost.total.amount > Amount::ZERO, "run {name} cost nothing");
    }
    let reference = format!("median of {REPETITIONS} runs; p95 {:.1}; {size}", times.percentile(95));
    figures::print("ledger.run_ms", times.percentile(50), "ms", &reference);
    Ok(())
}

/// Computes the same sums from the lines: measures the time, and checks that the money is the same.
async fn sum_lines(admin: &mut PgConnection, report: &Report) -> anyhow::Result<Duration> {
    let begun = Instant::now();
    let sums: Vec<(Option<String>, String)> = sqlx::query_as(
        "SELECT queue, sum(amount)::text FROM ledger_line WHERE cluster = $1
         GROUP BY queue ORDER BY queue COLLATE \"C\" NULLS FIRST",
    )
    .bind(CLUSTER)
    .fetch_all(admin)
    .await?;
    let elapsed = begun.elapsed();
    let queues = |key: &Option<String>| key.is_some();
    let from_lines: Vec<_> = sums.into_iter().filter(|(key, _)| queues(key)).collect();
    let reported: Vec<_> = report
        .rows
        .iter()
        .filter(|row| queues(&row.key))
        .map(|row| (row.key.clone(), row.amount.0.to_string()))
        .collect();
    ensure!(from_lines == reported, "the report is not the sum of the lines");
    Ok(elapsed)
}

async fn vacuum(admin: &mut PgConnection, size: &str) -> anyhow::Result<()> {
    let begun = Instant::now();
    sqlx::query("VACUUM (ANALYZE)").execute(&mut *admin).await?;
    figures::print(
        "ledger.vacuum_seconds",
        begun.elapsed().as_secs_f64(),
        "s",
        &format!("whole database, {size}"),
    );
    let (ledger, sums, days, runs): (i64, i64, i64, i64) = sqlx::query_as(
        "SELECT (SELECT sum(pg_total_relation_size(inhrelid))::bigint FROM pg_inherits
                 WHERE inhparent = 'ledger_line'::regclass),
                pg_total_relation_size('daily_spend') + pg_total_relation_size('run_spend'),
                (SELECT count(*) FROM daily_spend), (SELECT count(*) FROM run_spend)",
    )
    .fetch_one(admin)
    .await?;
    println!(
        "ledger_line {} MB; daily_spend {days} rows and run_spend {runs} rows, {} MB",
        ledger / 1_000_000,
        sums / 1_000_000
    );
    Ok(())
}

/// Into the first day of the next month: a partition, an account for each node, and the old month closed.
async fn roll(ledger: &Ledger, month: &Month) -> anyhow::Result<()> {
    let begun = Instant::now();
    ledger.roll(month.end().day()).await?;
    let reference = "a month's partition, and an account for each node";
    figures::print("ledger.roll_ms", begun.elapsed().as_secs_f64() * 1_000.0, "ms", reference);
    let posted = ledger.post(Moment(month.end().0 + 60), u32::MAX).await?;
    ensure!(posted.reversals == 0 && posted.charges > 0, "the last day was not closed: {posted:?}");
    Ok(())
}

/// The last month that is over.
struct Month {
    first_date: jiff::civil::Date,
    end_date: jiff::civil::Date,
}

impl Month {
    fn last() -> Self {
        let today = jiff::Timestamp::now().to_zoned(TimeZone::UTC).date();
        let end_date = today.first_of_month();
        let first_date = end_date.yesterday().expect("there was a month before").first_of_month();
        Self { first_date, end_date }
    }

    fn start(&self) -> Moment {
        midnight(self.first_date)
    }

    fn end(&self) -> Moment {
        midnight(self.end_date)
    }

    /// A minute before its end.
    fn now(&self) -> Moment {
        Moment(self.end().0 - 60)
    }

    fn days(&self) -> usize {
        usize::try_from(self.end().day().0 - self.start().day().0).expect("a month ends after it began")
    }

    fn runs(&self, nodes: usize) -> usize {
        self.days() * 44 * (nodes / PODS_PER_RUN)
    }

    fn node(&self, index: usize) -> NodeRecord {
        let shape = NodeShape {
            instance_type: Some("p5.48xlarge".into()),
            capacity_type: "on-demand".into(),
            gpu_type: Some("H100".into()),
            gpus: 8,
            cpu_millis: 192_000,
        };
        NodeRecord {
            uid: format!("node-uid-{index}"),
            name: format!("node-{index:04}"),
            created_at: self.start(),
            shapes: vec![(self.start(), shape)],
            ended: None,
            bought: None,
        }
    }

    /// The pods of a run: one on each node of a group, which runs follow one another on.
    fn pods(&self, run: usize, nodes: usize) -> impl Iterator<Item = PodRecord> + use<> {
        let groups = nodes / PODS_PER_RUN;
        let (group, turn) = (run % groups, i64::try_from(run / groups).expect("a month has few runs"));
        let scheduled_at = Moment(self.start().0 + turn * SECONDS_PER_RUN);
        // Any spread will do, as long as it is the same each time. A user is of one team, and a team has two queues.
        let spread = run.wrapping_mul(2_654_435_761) >> 7;
        let user = spread % USERS;
        let team = user % NAMESPACES;
        (0..PODS_PER_RUN).map(move |member| PodRecord {
            uid: format!("pod-uid-{run}-{member}"),
            namespace: namespace(team),
            name: format!("train-{run}-{member}"),
            node: format!("node-{:04}", group * PODS_PER_RUN + member),
            run: Some(format!("train-{run}")),
            attempt: Some(1),
            queue: Some(queue((team + spread / USERS % 2) % QUEUES)),
            user: Some(format!("user-{user}")),
            gpus: 8,
            cpu_millis: 96_000,
            scheduled_at,
            started_at: Some(Moment(scheduled_at.0 + 30)),
            ended: Some(End::Certain(Moment(scheduled_at.0 + SECONDS_PER_RUN - 60))),
            lost_from: None,
        })
    }

    fn by_queue(&self) -> ReportQuery {
        ReportQuery {
            by: Grouping::Queue,
            since: self.start().day(),
            until: self.end().day(),
            namespace: None,
            queues: None,
            user: None,
            after: None,
            limit: 100,
        }
    }
}

fn midnight(date: jiff::civil::Date) -> Moment {
    let at = date.to_zoned(TimeZone::UTC).expect("UTC has every midnight");
    let day: Day = Moment::of(at.timestamp()).day();
    day.start()
}

fn namespace(index: usize) -> String {
    format!("team-{index}")
}

fn queue(index: usize) -> String {
    format!("queue-{index}")
}

fn print_rate(id: &str, count: usize, elapsed: Duration, what: &str, reference: &str) {
    // A count of a few million is exact in a float.
    #[allow(clippy::cast_precision_loss)]
    let rate = count as f64 / elapsed.as_secs_f64();
    let reference = format!("{reference}; {count} {what} in {:.1} s", elapsed.as_secs_f64());
    figures::print(id, rate, &format!("{what}/s"), &reference);
}

/// Milliseconds, sorted.
#[derive(Clone, Debug, Default)]
struct Times(Vec<f64>);

impl Times {
    async fn measure<T>(
        &mut self,
        what: impl Future<Output = Result<T, store::Error>>,
    ) -> Result<T, store::Error> {
        let begun = Instant::now();
        let done = what.await?;
        self.0.push(begun.elapsed().as_secs_f64() * 1_000.0);
        self.0.sort_by(f64::total_cmp);
        Ok(done)
    }

    fn percentile(&self, percent: usize) -> f64 {
        let position = (self.0.len() * percent).div_ceil(100).max(1) - 1;
        self.0.get(position).copied().unwrap_or_default()
    }

    fn slower(self, other: Self) -> Self {
        if other.percentile(50) > self.percentile(50) { other } else { self }
    }
}

impl std::fmt::Display for Times {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "median {:.1} ms, p95 {:.1} ms", self.percentile(50), self.percentile(95))
    }
}
