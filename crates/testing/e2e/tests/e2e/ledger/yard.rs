//! A cluster with our processes, a ledger, prices, and a witness of everything that happens.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use api_types::{PriceEntry, PriceSheet, PriceSheetSpec, names};
use e2e::ledger::{Bill, GpuPrice, Witness};
use e2e::objects::{create_namespace, h100_nodes};
use e2e::observe::{self, node_of};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use kube::Client;
use kube::api::{Api, PostParams};
use test_cluster::TestCluster;
use test_cluster::platform::{LeaseTimes, Platform, Service};
use test_cluster::postgres::Postgres;

pub const NAMESPACE: &str = "nlp";
const POLL: Duration = Duration::from_millis(300);

pub struct Yard {
    // Dropped in this order: whoever talks to a server goes before it.
    pub controllers: Option<Service>,
    scheduler: Service,
    scheduler_lives: usize,
    pub witness: Witness,
    pub postgres: Postgres,
    pub cluster: TestCluster,
    pub prices: Vec<GpuPrice>,
    controllers_identity: PathBuf,
    controllers_leases: LeaseTimes,
    controllers_lives: usize,
}

impl Yard {
    /// `leases` are the controllers': short ones for those that are killed, because a successor waits for them to run
    /// out. On a busy machine they are lost by the living too.
    pub async fn start(nodes: usize, prices: Vec<GpuPrice>, leases: LeaseTimes) -> anyhow::Result<Self> {
        let cluster =
            TestCluster::builder().nodes(h100_nodes("node", nodes)).user("ann", &[]).start().await?;
        let client = cluster.admin_client();
        let witness = Witness::start(&client).await?;
        let postgres = Postgres::start(cluster.dir()).await?;
        create_namespace(&client, NAMESPACE).await?;
        super::create_queues(&client).await?;
        create_sheet(&client, &prices).await?;
        let mut scheduler = Platform::debug(&cluster).scheduler("scheduler", LeaseTimes::Patient, "").await?;
        let account = (names::SYSTEM_NAMESPACE, names::CONTROLLERS_SERVICE_ACCOUNT);
        let controllers_identity = cluster.kubeconfig_for_service_account(account.0, account.1).await?;
        scheduler.ready().await?;
        let mut yard = Self {
            controllers: None,
            scheduler,
            scheduler_lives: 1,
            witness,
            postgres,
            cluster,
            prices,
            controllers_identity,
            controllers_leases: leases,
            controllers_lives: 0,
        };
        yard.start_controllers()?;
        let controllers = yard.controllers.as_mut().context("they were started")?;
        controllers.ready().await?;
        controllers.until_logged("Metering.", Duration::from_mins(1)).await?;
        Ok(yard)
    }

    pub fn client(&self) -> Client {
        self.cluster.admin_client()
    }

    /// Starts the controllers, whose predecessors are gone.
    pub fn start_controllers(&mut self) -> anyhow::Result<()> {
        self.controllers_lives += 1;
        let name = format!("controllers-{:02}", self.controllers_lives);
        let platform = Platform::debug(&self.cluster).with_ledger(&self.postgres);
        self.controllers =
            Some(platform.controllers_as(&name, &self.controllers_identity, self.controllers_leases)?);
        Ok(())
    }

    /// Starts the controllers and the scheduler again if they have ended by themselves, as a kubelet would: they do when
    /// a busy machine makes them lose their lease.
    pub async fn supervise(&mut self) -> anyhow::Result<()> {
        let ended = self.controllers.as_mut().is_some_and(|it| it.process().exit_status().is_some());
        if ended {
            println!("the controllers have ended by themselves and are started again");
            self.start_controllers()?;
        }
        if self.scheduler.process().exit_status().is_some() {
            println!("the scheduler has ended by itself and is started again");
            self.scheduler_lives += 1;
            let name = format!("scheduler-{}", self.scheduler_lives);
            let platform = Platform::debug(&self.cluster);
            self.scheduler = platform.scheduler(&name, LeaseTimes::Patient, "").await?;
        }
        Ok(())
    }

    /// The bill, once every pod that had a node is over, none waits for the meter, and everything is posted.
    pub async fn settled_bill(&mut self, bound: Duration) -> anyhow::Result<Bill> {
        let url = self.meter_url()?;
        let url = url.trim();
        self.until("every pod is over and let go, and every account is clean", bound, async |yard| {
            let pods = yard.witness.pods()?;
            let over = pods.values().all(|pod| !pod.ends.is_empty());
            if !over || yard.witness.held()? > 0 {
                return Ok(false);
            }
            let recorded = pods.len().try_into() == Ok(Bill::recorded_pods(url).await?);
            if !recorded || Bill::due_accounts(url).await? > 0 {
                return Ok(false);
            }
            // A pod that was created just now may be known to neither of them: its node is not to go under it.
            let known = |pod: &Pod| pods.contains_key(pod.metadata.uid.as_deref().unwrap_or_default());
            let existing = observe::pods(&yard.client(), NAMESPACE).await?;
            Ok(existing.iter().all(|pod| node_of(pod).is_none() || known(pod)))
        })
        .await
        .with_context(|| {
            let pods = self.witness.pods().unwrap_or_default();
            let unfinished: Vec<_> = pods.values().filter(|pod| pod.ends.is_empty() || pod.held).collect();
            format!("{} pods were seen; not over or not let go: {unfinished:#?}", pods.len())
        })?;
        Bill::read(url).await
    }

    /// Polls until `check` holds; our processes are looked after meanwhile.
    pub async fn until(
        &mut self,
        what: &str,
        bound: Duration,
        check: impl AsyncFn(&Self) -> anyhow::Result<bool>,
    ) -> anyhow::Result<()> {
        let began = Instant::now();
        loop {
            self.supervise().await?;
            if check(self).await? {
                return Ok(());
            }
            ensure!(began.elapsed() < bound, "waited {bound:?} in vain: {what}");
            tokio::time::sleep(POLL).await;
        }
    }

    /// Fails if anything of the bill is wrong.
    pub fn judge(&self, bill: &Bill, moment: i64) -> anyhow::Result<()> {
        let wrong = super::mistakes(self, bill, moment)?;
        let (pods, events) = (self.witness.pods()?.len(), self.witness.events());
        println!("{pods} pods and {} lines compared, {events} events seen", bill.lines.len());
        ensure!(wrong.is_empty(), "{} mistakes in the bill: {wrong:#?}", wrong.len());
        Ok(())
    }

    pub fn meter_url(&self) -> anyhow::Result<String> {
        std::fs::read_to_string(self.postgres.meter_url_file()).context("failed to read the meter's URL")
    }

    pub async fn stop(mut self) {
        drop(self.controllers.take());
        let Self { scheduler, witness, postgres, cluster, .. } = self;
        drop((scheduler, witness, postgres));
        cluster.stop().await;
    }
}

pub fn now() -> i64 {
    Timestamp::now().as_second()
}

async fn create_sheet(client: &Client, prices: &[GpuPrice]) -> anyhow::Result<()> {
    let entries = prices.iter().map(|price| PriceEntry {
        gpu_type: Some("H100".to_owned()),
        per_gpu_hour: Some(format!("{}.{:02}", price.hundredths / 100, price.hundredths % 100)),
        from: Timestamp::from_second(price.from).unwrap_or_default().to_string(),
        ..PriceEntry::default()
    });
    let spec = PriceSheetSpec { currency: "EUR".to_owned(), prices: entries.collect() };
    let sheets: Api<PriceSheet> = Api::all(client.clone());
    sheets
        .create(&PostParams::default(), &PriceSheet::new("list", spec))
        .await
        .context("failed to set prices")?;
    Ok(())
}
