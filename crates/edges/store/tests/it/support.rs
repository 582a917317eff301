//! A database for each test, and records to put into it.

use std::ops::Deref;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Weak};

use costing::{
    Attribution, Day, End, HourlyPrice, MachineStart, Moment, NodeRecord, NodeShape, PodRecord, Price,
    PriceUnit, Purchase,
};
use sqlx::postgres::PgPoolOptions;
use sqlx::{AssertSqlSafe, PgPool};
use store::{Grouping, Ledger, Reader, ReportQuery};
use tempfile::TempDir;
use test_cluster::postgres::{DatabaseUrls, Postgres};
use tokio::sync::Mutex;

pub const CLUSTER: &str = "test";

/// A database of a server that the tests of this binary share.
pub struct Database {
    pub urls: DatabaseUrls,
    /// The server ends with the last test that uses it.
    _server: Arc<Server>,
}

struct Server {
    postgres: Postgres,
    _folder: TempDir,
}

impl Database {
    /// An empty one.
    pub async fn empty() -> Self {
        static SERVER: Mutex<Weak<Server>> = Mutex::const_new(Weak::new());
        static DATABASES: AtomicU32 = AtomicU32::new(0);
        let mut shared = SERVER.lock().await;
        let server = if let Some(server) = shared.upgrade() {
            server
        } else {
            let folder = tempfile::tempdir().unwrap();
            let postgres = Postgres::start(folder.path()).await.unwrap();
            let server = Arc::new(Server { postgres, _folder: folder });
            *shared = Arc::downgrade(&server);
            server
        };
        drop(shared);
        let name = format!("test_{}", DATABASES.fetch_add(1, Ordering::Relaxed));
        let urls = server.postgres.create_database(&name).await.unwrap();
        Self { urls, _server: server }
    }

    /// One with the schema.
    pub async fn migrated() -> Self {
        let database = Self::empty().await;
        store::migrate(&database.urls.owner).await.unwrap();
        database
    }

    pub fn ledger(&self) -> Ledger {
        Ledger::open(&self.urls.meter, CLUSTER).unwrap()
    }

    pub fn reader(&self) -> Reader {
        Reader::open(&self.urls.reader, CLUSTER).unwrap()
    }

    /// Sees everything: policies do not apply to it.
    pub fn superuser(&self) -> Pool {
        pool(&self.urls.superuser)
    }
}

/// A pool with the questions that tests ask most.
pub struct Pool(PgPool);

pub fn pool(url: &str) -> Pool {
    Pool(PgPoolOptions::new().max_connections(2).connect_lazy(url).unwrap())
}

impl Deref for Pool {
    type Target = PgPool;

    fn deref(&self) -> &PgPool {
        &self.0
    }
}

impl Pool {
    /// One number.
    pub async fn number(&self, sql: &str) -> i64 {
        sqlx::query_scalar(AssertSqlSafe(sql.to_owned())).fetch_one(&self.0).await.unwrap()
    }

    /// The rows of a query, each as JSON text, in order.
    pub async fn rows(&self, sql: &str) -> Vec<String> {
        let sql = format!("SELECT to_jsonb(row)::text FROM ({sql}) AS row ORDER BY 1");
        sqlx::query_scalar(AssertSqlSafe(sql)).fetch_all(&self.0).await.unwrap()
    }

    /// Runs a statement.
    pub async fn run(&self, sql: &str) -> Result<u64, sqlx::Error> {
        sqlx::query(AssertSqlSafe(sql.to_owned())).execute(&self.0).await.map(|done| done.rows_affected())
    }
}

/// A day of this month, at midnight; partitions can be made for it.
pub fn today() -> Day {
    Moment::of(jiff::Timestamp::now()).day()
}

/// All use of the last 40 days and today.
pub fn report_by(by: Grouping) -> ReportQuery {
    ReportQuery {
        by,
        since: Day(today().0 - 40),
        until: today().next(),
        namespace: None,
        queues: None,
        user: None,
        after: None,
        limit: 100,
    }
}

/// A node with eight GPUs.
pub fn node(name: &str, created_at: Moment) -> NodeRecord {
    let shape = NodeShape {
        instance_type: Some("p5.48xlarge".into()),
        capacity_type: "on-demand".into(),
        gpu_type: Some("H100".into()),
        gpus: 8,
        cpu_millis: 192_000,
    };
    NodeRecord {
        uid: format!("uid-{name}"),
        name: name.into(),
        created_at,
        shapes: vec![(created_at, shape)],
        ended: None,
        bought: None,
    }
}

/// Bought as spot at 28.80 instead of 72 an hour, for the second attempt of the run `run-a`.
pub fn spot(opened_at: Option<Moment>) -> Purchase {
    let buyer = Attribution {
        namespace: Some("vision".into()),
        pod: None,
        run: Some("run-a".into()),
        attempt: Some(2),
        queue: Some("prod".into()),
        user: Some("alice".into()),
    };
    Purchase {
        paid: HourlyPrice::parse("28.8").unwrap(),
        on_demand: Some(HourlyPrice::parse("72").unwrap()),
        start: Some(MachineStart { buyer, opened_at }),
    }
}

/// A pod with one GPU, of the namespace, the queue and the run of those names.
pub fn pod(uid: &str, node: &str, namespace: &str, queue: &str, scheduled_at: Moment) -> PodRecord {
    PodRecord {
        uid: uid.into(),
        namespace: namespace.into(),
        name: format!("pod-{uid}"),
        node: node.into(),
        run: Some(format!("run-{uid}")),
        attempt: Some(1),
        queue: Some(queue.into()),
        user: Some("alice".into()),
        gpus: 1,
        cpu_millis: 1_000,
        scheduled_at,
        started_at: None,
        ended: None,
        lost_from: None,
    }
}

pub fn ended(pod: &PodRecord, started_at: Moment, ended_at: Moment) -> PodRecord {
    PodRecord { started_at: Some(started_at), ended: Some(End::Certain(ended_at)), ..pod.clone() }
}

/// A price for every node, from the beginning of time.
pub fn node_price(per_hour: &str) -> Price {
    Price {
        sheet: "all".into(),
        instance_type: None,
        gpu_type: None,
        capacity_type: None,
        unit: PriceUnit::Node,
        price: HourlyPrice::parse(per_hour).unwrap(),
        from: Moment(0),
    }
}

pub fn after(moment: Moment, seconds: i64) -> Moment {
    Moment(moment.0 + seconds)
}
