//! Reports: the sum is the same however rows are grouped, paged or filtered.

use costing::{Amount, Day, Moment};
use store::{Batch, Grouping, Reader, Report, ReportQuery, ReportRow, Scope};

use crate::model::post_all;
use crate::support::{Database, after, ended, node, node_price, pod, report_by, today};

const GROUPINGS: [Grouping; 6] =
    [Grouping::Run, Grouping::User, Grouping::Queue, Grouping::Namespace, Grouping::Day, Grouping::Class];

#[tokio::test]
async fn grouping_never_changes_the_total_and_pages_hold_every_row_once() {
    let database = Database::migrated().await;
    let now = fill(&database).await;
    let reader = database.reader();
    let whole = reader.report(&Scope::Everything, &report_by(Grouping::Day), now).await.unwrap().total;
    // Three days but for the last 500 s, less the hour before the node was there.
    let seconds = 3 * 86_400 - 500 - 3_600;
    assert_eq!(whole.gpu_seconds, 8 * seconds);
    assert_eq!(whole.amount, costing::HourlyPrice::parse("28.8").unwrap().per_second() * seconds);
    for by in GROUPINGS {
        let report = reader.report(&Scope::Everything, &report_by(by), now).await.unwrap();
        assert_eq!(report.total, whole, "{by:?}");
        assert_eq!(sum(&report.rows), whole, "{by:?}");
        assert_eq!(pages(&reader, &report_by(by), now).await, report.rows, "{by:?}");
    }
    let by_run = reader.report(&Scope::Everything, &report_by(Grouping::Run), now).await.unwrap();
    let keys: Vec<_> = by_run.rows.iter().map(|row| row.key.as_deref()).collect();
    assert_eq!(keys, [None, Some("speech/run-c"), Some("vision/run-a"), Some("vision/run-b")]);
    assert_ne!(by_run.rows[3].rate, Amount::ZERO, "one is running");
}

#[tokio::test]
async fn filters_and_scopes_leave_out_the_rest() {
    let database = Database::migrated().await;
    let now = fill(&database).await;
    let reader = database.reader();
    let everything = Scope::Everything;
    let filtered = |change: fn(&mut ReportQuery)| {
        let mut query = report_by(Grouping::Run);
        change(&mut query);
        query
    };
    let keys = |report: &Report| {
        report.rows.iter().map(|row| row.key.clone().unwrap_or_default()).collect::<Vec<_>>()
    };
    let of_namespace =
        reader.report(&everything, &filtered(|q| q.namespace = Some("speech".into())), now).await.unwrap();
    assert_eq!(keys(&of_namespace), ["speech/run-c"]);
    assert_eq!(of_namespace.total, ReportRow { key: None, ..of_namespace.rows[0].clone() });
    let of_queues =
        reader.report(&everything, &filtered(|q| q.queues = Some(vec!["prod".into()])), now).await.unwrap();
    assert_eq!(keys(&of_queues), ["vision/run-b"]);
    let of_nobody =
        reader.report(&everything, &filtered(|q| q.user = Some("mallory".into())), now).await.unwrap();
    assert_eq!((keys(&of_nobody), of_nobody.total), (vec![], ReportRow::default()));
    let of_past = filtered(|q| q.until = Day(today().0 - 1));
    let of_past = reader.report(&everything, &of_past, now).await.unwrap();
    assert_eq!(of_past.total.rate, Amount::ZERO, "open use is of today");

    let scope = Scope::Namespaces(vec!["vision".into()]);
    let own = reader.report(&scope, &report_by(Grouping::Run), now).await.unwrap();
    assert_eq!(keys(&own), ["vision/run-a", "vision/run-b"]);
    assert_eq!(sum(&own.rows), own.total);
    let queues = Scope::Queues(vec!["research".into()]);
    let own = reader.report(&queues, &report_by(Grouping::Run), now).await.unwrap();
    assert_eq!(keys(&own), ["speech/run-c", "vision/run-a"]);
    for nothing in [Scope::Namespaces(vec![]), Scope::Queues(vec![])] {
        let none = reader.report(&nothing, &report_by(Grouping::Class), now).await.unwrap();
        assert_eq!((none.rows, none.total), (vec![], ReportRow::default()));
        let none = reader.run_cost(&nothing, "vision", "run-a", now).await.unwrap();
        assert_eq!(none.total, ReportRow::default());
    }
}

#[tokio::test]
async fn use_without_a_price_is_counted_and_told() {
    let database = Database::migrated().await;
    let (ledger, start) = (database.ledger(), today().start());
    let batch = Batch {
        pods: vec![pod("a", "n1", "vision", "research", after(start, 10))],
        nodes: vec![node("n1", start)],
    };
    ledger.record(&batch).await.unwrap();
    ledger.post(after(start, 20), 10).await.unwrap();
    let scope = Scope::Namespaces(vec!["vision".into()]);
    let cost = database.reader().run_cost(&scope, "vision", "run-a", after(start, 110)).await.unwrap();
    let expected = ReportRow { gpu_seconds: 100, unpriced_gpu_seconds: 100, ..ReportRow::default() };
    assert_eq!((cost.currency, cost.total), (None, expected));
}

/// Three days of one node: two runs that ended, one that goes on. Returns now.
async fn fill(database: &Database) -> Moment {
    let ledger = database.ledger();
    let start = Day(today().0 - 2).start();
    let pods = vec![
        ended(
            &pod("a", "n1", "vision", "research", after(start, 4_000)),
            after(start, 4_010),
            after(start, 90_000),
        ),
        pod("b", "n1", "vision", "prod", after(start, 100_000)),
        ended(
            &pod("c", "n1", "speech", "research", after(start, 5_000)),
            after(start, 5_001),
            after(start, 5_002),
        ),
    ];
    ledger.set_prices("EUR", &[node_price("28.8")]).await.unwrap();
    ledger.record(&Batch { pods, nodes: vec![node("n1", after(start, 3_600))] }).await.unwrap();
    let now = after(start, 3 * 86_400 - 500);
    post_all(&ledger, after(now, -1_000)).await;
    now
}

async fn pages(reader: &Reader, query: &ReportQuery, now: Moment) -> Vec<ReportRow> {
    const PAGES_MAX: usize = 20;
    let mut rows: Vec<ReportRow> = Vec::new();
    for _ in 0..PAGES_MAX {
        let after = rows.last().map(|row| row.key.clone());
        let page = ReportQuery { limit: 1, after, ..query.clone() };
        let report = reader.report(&Scope::Everything, &page, now).await.unwrap();
        assert!(report.rows.len() <= 1);
        rows.extend(report.rows);
        if !report.more {
            return rows;
        }
    }
    panic!("no last page: {rows:?}");
}

fn sum(rows: &[ReportRow]) -> ReportRow {
    let mut total = ReportRow::default();
    for row in rows {
        total.amount += row.amount;
        total.rate += row.rate;
        total.saved += row.saved;
        total.interruptions += row.interruptions;
        total.gpu_seconds += row.gpu_seconds;
        total.unpriced_gpu_seconds += row.unpriced_gpu_seconds;
    }
    total
}
