//! Controllers and database are killed again and again while runs come and go.

use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use api_types::{Run, names};
use e2e::ledger::GpuPrice;
use e2e::objects::{annotation, create_run, run};
use futures::{StreamExt, TryStreamExt, stream};
use k8s_openapi::api::core::v1::Pod;
use kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams};
use kube::{Client, ResourceExt};
use seeded_random::Random;
use serde_json::json;
use test_cluster::platform::LeaseTimes;
use tokio::time::sleep;
use toolbox::figures;

use super::mistakes;
use super::yard::{NAMESPACE, Yard, now};

const SEED: u64 = 20_261_115;
const RUNS: usize = 300;
/// Of the controllers, and as many of the database.
const ROUNDS: usize = 20;
/// 192 GPUs: the runs below ask for about 25,000 GPU seconds, so they are placed as fast as they are made.
const NODES: usize = 24;
/// When the second price begins, after the first run.
const PRICE_CHANGE_AFTER_SECONDS: i64 = 60;

#[tokio::test(flavor = "multi_thread")]
async fn killed_twenty_times_each_the_ledger_equals_the_reference() -> anyhow::Result<()> {
    println!("seed {SEED}");
    let change = now() + PRICE_CHANGE_AFTER_SECONDS;
    let prices = vec![GpuPrice { from: 0, hundredths: 299 }, GpuPrice { from: change, hundredths: 341 }];
    let mut yard = Yard::start(NODES, prices, LeaseTimes::Short).await?;
    let mut load = Load { client: yard.client(), random: Random::new(SEED), created: 0, taken: 0 };
    let mut kills = 0;
    let began = Instant::now();
    for round in 0..ROUNDS {
        load.create_runs(RUNS * (round + 1) / ROUNDS - load.created).await?;
        load.pause(2_500).await;
        load.take_some_away().await?;

        yard.controllers.take().context("the controllers run")?.kill();
        kills += 1;
        // Half of them stay away for a while, in which more is taken away; the others are back at once.
        if load.random.below(2) == 0 {
            load.take_some_away().await?;
            load.pause(2_500).await;
        }
        yard.start_controllers()?;
        // Sometimes before they lead, sometimes in the middle of their first writes.
        load.pause(5_000).await;

        yard.postgres.crash().await;
        kills += 1;
        if load.random.below(2) == 0 {
            load.take_some_away().await?;
            load.pause(2_500).await;
        }
        yard.postgres.start_again().await?;
    }
    let elapsed = began.elapsed();
    println!("{} runs were created, {} stopped or deleted, in {elapsed:?}", load.created, load.taken);
    wait_until_runs_are_over(&mut yard).await?;
    println!("all runs were over after {:?}", began.elapsed());
    let bill = yard.settled_bill(Duration::from_mins(2)).await?;
    let wrong = mistakes(&yard, &bill, now())?;
    let pods = yard.witness.pods()?;
    let doubtful = pods.values().filter(|pod| pod.ends.len() > 1).count();
    println!(
        "{} pods, {} lines net of {} rows, {} events seen; {doubtful} pods told more than one end",
        pods.len(),
        bill.lines.len(),
        bill.rows,
        yard.witness.events(),
    );
    let reference = format!("{} runs, {} pods; seed {SEED}; bar: 40 kills, 0 pods", load.created, pods.len());
    figures::print("ledger.kills", figures::count(kills), "kills", &reference);
    figures::print("ledger.kill_mismatches", figures::count(wrong.len()), "pods", &reference);
    ensure!(load.created == RUNS && kills == 2 * ROUNDS, "{} runs, {kills} kills", load.created);
    ensure!(wrong.is_empty(), "seed {SEED}: {} mistakes in the bill: {wrong:#?}", wrong.len());
    yard.stop().await;
    Ok(())
}

/// Runs that come, and some that are taken away before they end.
struct Load {
    client: Client,
    random: Random,
    created: usize,
    taken: usize,
}

impl Load {
    async fn create_runs(&mut self, count: usize) -> anyhow::Result<()> {
        let mut specs = Vec::new();
        for _ in 0..count {
            let members = 1 + u32::try_from(self.random.below(8))?;
            let gpus = [0, 1, 1, 2, 4][usize::try_from(self.random.below(5))?];
            let seconds = 1 + self.random.below(20);
            let mut spec = run("nlp", members, gpus, Some(&format!("{seconds}s")));
            if self.random.below(10) == 0 {
                spec.annotations.push(annotation(names::FAKE_EXIT_CODE_ANNOTATION, "1"));
            }
            specs.push((format!("run-{:03}", self.created), spec));
            self.created += 1;
        }
        let creates = specs.into_iter().map(|(name, spec)| {
            let client = self.client.clone();
            async move { create_run(&client, NAMESPACE, &name, spec).await }
        });
        stream::iter(creates).buffer_unordered(8).try_collect::<Vec<_>>().await?;
        Ok(())
    }

    /// One run is stopped, one deleted, and the pods of a third are deleted, if they are still there.
    async fn take_some_away(&mut self) -> anyhow::Result<()> {
        let runs: Api<Run> = Api::namespaced(self.client.clone(), NAMESPACE);
        let stop = Patch::Merge(json!({"spec": {"stop": true}}));
        let name = self.recent_run();
        self.taken += usize::from(found(runs.patch(&name, &PatchParams::default(), &stop).await)?);
        let name = self.recent_run();
        self.taken += usize::from(found(runs.delete(&name, &DeleteParams::default()).await)?);
        let name = self.recent_run();
        let pods: Api<Pod> = Api::namespaced(self.client.clone(), NAMESPACE);
        let of_run = ListParams::default().labels(&format!("{}={name}", names::RUN_LABEL));
        for pod in pods.list(&of_run).await? {
            // Some without the time to end, as impatient people do.
            let grace = if self.random.below(3) == 0 {
                DeleteParams::default().grace_period(0)
            } else {
                DeleteParams::default()
            };
            found(pods.delete(&pod.name_any(), &grace).await)?;
        }
        Ok(())
    }

    /// One of the last 30, of which most are not over.
    fn recent_run(&mut self) -> String {
        let back = usize::try_from(self.random.below(30)).unwrap_or(0).min(self.created.saturating_sub(1));
        format!("run-{:03}", self.created - 1 - back)
    }

    async fn pause(&mut self, milliseconds_max: u64) {
        sleep(Duration::from_millis(self.random.below(milliseconds_max))).await;
    }
}

fn found<T>(answer: kube::Result<T>) -> anyhow::Result<bool> {
    match answer {
        Ok(_) => Ok(true),
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(false),
        Err(error) => Err(error).context("failed to take something away"),
    }
}

async fn wait_until_runs_are_over(yard: &mut Yard) -> anyhow::Result<()> {
    let runs: Api<Run> = Api::namespaced(yard.client(), NAMESPACE);
    yard.until("every run is over", Duration::from_mins(4), async |_| {
        let list = runs.list(&ListParams::default()).await?;
        let open = list.iter().filter(|run| {
            let phase = run.status.as_ref().map(|status| status.phase).unwrap_or_default();
            !phase.is_final() || run.metadata.deletion_timestamp.is_some()
        });
        Ok(open.count() == 0)
    })
    .await
}
