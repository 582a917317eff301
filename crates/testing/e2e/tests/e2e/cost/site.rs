//! A cluster, an API server, and a hand-filled ledger, so that every number is known.
//!
//! ```text
//!   queues: research ─┬─ nlp     (namespace nlp, alice)
//!                     └─ vision  (namespace vision, bob)     lead may get research, finance may list runs everywhere
//!   node-1, 8 GPUs at 3.60 an hour each, one thousandth a second: every amount has an end
//! ```

use std::collections::BTreeSet;

use anyhow::{Context, ensure};
use api_client::{Client, Error};
use api_types::rest::{CostGrouping, CostReport, Problem};
use costing::{End, HourlyPrice, Moment, NodeRecord, NodeShape, PodRecord, Price, PriceUnit};
use e2e::cli::Cli;
use e2e::objects::{create_queue, create_run, run};
use e2e::users::{create_team, grant_queue};
use jiff::Timestamp;
use k8s_openapi::api::rbac::v1::ClusterRoleBinding;
use kube::api::{Api, PostParams};
use serde_json::json;
use store::{Batch, Grouping, Ledger, Reader, ReportQuery, Scope};
use tempfile::TempDir;
use test_cluster::TestCluster;
use test_cluster::platform::{Platform, Service};
use test_cluster::postgres::Postgres;

const MINUTE: i64 = 60;
/// Seconds.
pub const HOUR: i64 = 60 * MINUTE;
/// Small runs of alice, for reports of several pages.
const SMALL_RUNS: i64 = 7;

/// A cluster, an API server and a ledger with a known bill.
pub struct Site {
    cluster: TestCluster,
    pub postgres: Postgres,
    _api_server: Service,
    url: String,
    reader: Reader,
    home: TempDir,
    began: Moment,
}

impl Site {
    pub async fn start() -> anyhow::Result<Self> {
        let mut builder = TestCluster::builder().without_kwok();
        for user in ["alice", "bob", "lead", "finance"] {
            builder = builder.user(user, &[]);
        }
        let cluster = builder.start().await?;
        let client = cluster.admin_client();
        create_queue(&client, "research", None, &[], &[]).await?;
        for (user, team) in [("alice", "nlp"), ("bob", "vision")] {
            create_team(&client, user, team, Some("research"), &[]).await?;
        }
        grant_queue(&client, "lead", "research").await?;
        grant_runs_everywhere(&client, "finance").await?;
        create_run(&client, "nlp", "live", run("nlp", 1, 2, None)).await?;

        let postgres = Postgres::start(cluster.dir()).await?;
        let url = |file| Ok::<_, std::io::Error>(std::fs::read_to_string(file)?.trim().to_owned());
        store::migrate(&url(postgres.owner_url_file())?).await?;
        let now = Moment::of(Timestamp::now());
        fill(&Ledger::open(&url(postgres.meter_url_file())?, "default")?, now).await?;
        let reader = Reader::open(&url(postgres.reader_url_file())?, "default")?;
        let platform = Platform::debug(&cluster).with_ledger(&postgres);
        let (api_server, url) = platform.api_server("127.0.0.1:0").await?;
        let home = tempfile::tempdir()?;
        Ok(Self { cluster, postgres, _api_server: api_server, url, reader, home, began: now })
    }

    pub fn client(&self, user: &str) -> anyhow::Result<Client> {
        Ok(Client::new(&self.url, self.cluster.token_for_user(user)?)?)
    }

    pub fn cli(&self, user: &str) -> anyhow::Result<Cli> {
        Ok(Cli {
            binary: Platform::debug(&self.cluster).binary("warpyard"),
            home: self.home.path().to_owned(),
            url: self.url.clone(),
            token: self.cluster.token_for_user(user)?.to_owned(),
            namespace: "nlp".to_owned(),
        })
    }

    /// A day before everything, also if it is the first of a month.
    pub fn since(&self) -> String {
        let day = Timestamp::from_second(self.began.0 - 48 * HOUR).unwrap_or_default();
        day.to_string()[..10].to_owned()
    }

    pub async fn check_against_ledger(&self, report: &CostReport) -> anyhow::Result<()> {
        self.check_against_ledger_of(report, Scope::Everything, None).await
    }

    /// The report as the ledger itself gives it, at the same moment.
    pub async fn check_against_ledger_of(
        &self,
        report: &CostReport,
        scope: Scope,
        queues: Option<Vec<String>>,
    ) -> anyhow::Result<()> {
        let now = moment(&report.as_of)?;
        let query = ReportQuery {
            by: grouping(report.by),
            since: Moment(self.began.0 - 48 * HOUR).day(),
            until: now.day().next(),
            namespace: None,
            queues,
            user: None,
            after: None,
            limit: 1_000,
        };
        let expect = self.reader.report(&scope, &query, now).await?;
        let sums = |key: Option<String>, amount: String, gpu_seconds| (key, amount, gpu_seconds);
        let decimal = |amount: costing::Amount| amount.to_decimal().normalize().to_string();
        let seen: Vec<_> = report
            .items
            .iter()
            .map(|row| sums(row.key.clone(), row.cost.amount.clone(), row.cost.gpu_seconds))
            .collect();
        let expected: Vec<_> = expect
            .rows
            .iter()
            .map(|row| sums(row.key.clone(), decimal(row.amount), row.gpu_seconds))
            .collect();
        ensure!(seen == expected, "{seen:?} {expected:?}");
        ensure!(report.total.amount == decimal(expect.total.amount), "{report:?} {expect:?}");
        let rows: i128 =
            report.items.iter().map(|row| millionths(&row.cost.amount)).sum::<anyhow::Result<_>>()?;
        ensure!(rows == millionths(&report.total.amount)?, "rows add up to the total: {report:?}");
        Ok(())
    }

    pub async fn stop(self) {
        drop(self.postgres);
        self.cluster.stop().await;
    }
}

/// One node of three hours; three runs that ended or go on, and small ones.
async fn fill(ledger: &Ledger, now: Moment) -> anyhow::Result<()> {
    let price = Price {
        sheet: "prices".to_owned(),
        instance_type: None,
        gpu_type: Some("H100".to_owned()),
        capacity_type: None,
        unit: PriceUnit::Gpu,
        price: HourlyPrice::parse("3.60")?,
        from: Moment(0),
    };
    ledger.set_prices("USD", &[price]).await?;
    let ago = |seconds: i64| Moment(now.0 - seconds);
    let shape = NodeShape {
        capacity_type: "on-premises".to_owned(),
        gpu_type: Some("H100".to_owned()),
        gpus: 8,
        cpu_millis: 64_000,
        ..NodeShape::default()
    };
    let node = NodeRecord {
        uid: "node-1-uid".to_owned(),
        name: "node-1".to_owned(),
        created_at: ago(3 * HOUR),
        shapes: vec![(ago(3 * HOUR), shape)],
        ended: None,
        bought: None,
    };
    let pod = |namespace: &str, run: &str, user: &str, gpus, from: i64, to: Option<i64>| PodRecord {
        uid: format!("{namespace}-{run}-uid"),
        namespace: namespace.to_owned(),
        name: format!("{run}-1-0"),
        node: "node-1".to_owned(),
        run: Some(run.to_owned()),
        attempt: Some(1),
        queue: Some(namespace.to_owned()),
        user: Some(user.to_owned()),
        gpus,
        cpu_millis: 0,
        scheduled_at: ago(from),
        started_at: Some(ago(from - MINUTE)),
        ended: to.map(|to| End::Certain(ago(to))),
        lost_from: None,
    };
    let mut pods = vec![
        pod("nlp", "llama-ft", "alice", 4, 2 * HOUR, Some(HOUR)),
        pod("nlp", "live", "alice", 2, 30 * MINUTE, None),
        pod("vision", "resnet", "bob", 1, 2 * HOUR, Some(HOUR)),
    ];
    pods.extend((1..=SMALL_RUNS).map(|index| {
        pod("nlp", &format!("small-{index}"), "alice", 1, 150 * MINUTE, Some((149 - index) * MINUTE))
    }));
    ledger.record(&Batch { nodes: vec![node], pods }).await?;
    let posted = ledger.post(now, 1_000).await?;
    ensure!(posted.charges > 0 && posted.problems == 0, "{posted:?}");
    Ok(())
}

/// Lets `user` list the runs of every namespace.
async fn grant_runs_everywhere(client: &kube::Client, user: &str) -> anyhow::Result<()> {
    let binding: ClusterRoleBinding = serde_json::from_value(json!({
        "metadata": {"name": format!("{user}-sees-all-runs")},
        "subjects": [{"kind": "User", "apiGroup": "rbac.authorization.k8s.io", "name": user}],
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "warpyard-viewer"},
    }))?;
    let bindings: Api<ClusterRoleBinding> = Api::all(client.clone());
    bindings.create(&PostParams::default(), &binding).await.context("failed to grant all runs")?;
    Ok(())
}

/// The refusal that was expected.
pub fn problem<T: std::fmt::Debug>(answer: Result<T, Error>) -> anyhow::Result<Problem> {
    match answer {
        Err(Error::Problem(problem)) => Ok(problem),
        other => anyhow::bail!("a refusal was expected: {other:?}"),
    }
}

/// The keys of the rows that have one.
pub fn keys(report: &CostReport) -> BTreeSet<String> {
    report.items.iter().filter_map(|row| row.key.clone()).collect()
}

fn grouping(by: CostGrouping) -> Grouping {
    match by {
        CostGrouping::Run => Grouping::Run,
        CostGrouping::User => Grouping::User,
        CostGrouping::Queue => Grouping::Queue,
        CostGrouping::Namespace => Grouping::Namespace,
        CostGrouping::Day => Grouping::Day,
        CostGrouping::Class => Grouping::Class,
    }
}

/// A time of the API.
pub fn moment(time: &str) -> anyhow::Result<Moment> {
    Ok(Moment::of(time.parse().with_context(|| format!("`{time}` is a time"))?))
}

/// `14.4` as 14,400,000: read without a decimal type, so that no rounding can hide.
pub fn millionths(amount: &str) -> anyhow::Result<i128> {
    let (whole, part) = amount.split_once('.').unwrap_or((amount, ""));
    ensure!(part.len() <= 6, "`{amount}` has at most six decimals");
    Ok(format!("{whole}{part:0<6}").parse()?)
}
