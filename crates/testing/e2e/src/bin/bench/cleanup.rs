//! `cargo xtask bench safe cleanup`: ten thousand ended Runs leave a cluster, and are listed among a million.
//!
//! ```text
//!   kube-apiserver ◄── 10,000 ended runs of 20 teams ─► controllers: how soon do they work, what do they leave?
//!   PostgreSQL     ◄── what they archived, and 990,000 further rows ─► API server: pages of all runs
//! ```

use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use api_types::names::{RUN_FINALIZER, SUBMITTED_BY_ANNOTATION};
use api_types::{Run, RunSpec};
use e2e::objects::{create_bare_namespace, create_queue, create_run, run};
use e2e::users::{grant_everywhere, grant_namespace};
use e2e::wait;
use futures::{StreamExt, TryStreamExt, stream};
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::Service;
use kube::Client;
use kube::api::{Api, ListParams, Patch, PatchParams, PostParams};
use serde_json::{Value, json};
use sqlx::postgres::PgPoolOptions;
use test_cluster::TestCluster;
use test_cluster::platform::Platform;
use test_cluster::postgres::Postgres;
use toolbox::figures;

use crate::latency::{self, milliseconds, percentile_95};

/// The arguments.
#[derive(clap::Args)]
pub struct Args {
    /// Ended runs in the cluster.
    #[arg(long, default_value_t = 10_000)]
    runs: usize,
    /// Further rows in the archive.
    #[arg(long, default_value_t = 990_000)]
    archived: usize,
    /// A tenth of everything, on the debug build; prints no figures.
    #[arg(long)]
    rehearse: bool,
}

const TEAMS: usize = 20;
/// Sees every run.
const LEAD: &str = "lead";
/// Sees the runs of one team.
const MEMBER: &str = "member";
/// Ended runs of a team that stay.
const KEPT: usize = 50;
/// Concurrent creations: more do not raise the API server's rate here.
const IN_FLIGHT_MAX: usize = 64;
/// Ten thousand runs at some hundred a second, with room for a slow machine.
const CLEANED_WITHIN: Duration = Duration::from_mins(15);
const REQUESTS: usize = 600;
const CONCURRENCY: usize = 2;

pub async fn measure(args: Args) -> anyhow::Result<()> {
    let scale = if args.rehearse { 10 } else { 1 };
    let (runs, further) = (args.runs / scale, args.archived / scale);
    let cluster = TestCluster::builder().without_kwok().user(LEAD, &[]).user(MEMBER, &[]).start().await?;
    let postgres = Postgres::start(cluster.dir()).await?;
    let client = cluster.admin_client();
    let began = Instant::now();
    fill(&client, runs).await?;
    eprintln!("{runs} ended runs after {:.0?}", began.elapsed());
    let platform = if args.rehearse { Platform::debug(&cluster) } else { Platform::release(&cluster) };
    let platform = platform.with_ledger(&postgres);
    let figure = |name: &str, value: f64, unit: &str, reference: &str| {
        if !args.rehearse {
            figures::print(name, value, unit, reference);
        }
    };

    let relisted = relist(&client, &platform).await?;
    figure("cleanup.relist_seconds", relisted, "s", "from the lease to a new run's Job; bar: 5");

    let began = Instant::now();
    let limit = format!("--keep-runs={}", KEPT / scale);
    let mut controllers = platform.controllers_with("cleaning", |spec| spec.arg(limit)).await?;
    controllers.ready().await?;
    let kept = TEAMS * KEPT / scale;
    wait::until("ended runs have left", CLEANED_WITHIN, || async {
        // The waiting run is not ended.
        Ok((count::<Run>(&client).await? <= kept + 1).then_some(()))
    })
    .await?;
    let cleaned = began.elapsed();
    controllers.terminate().await;
    // Each run left may have a Job and a Service; the waiting one has both.
    let left = count::<Run>(&client).await?.saturating_sub(kept + 1)
        + count::<Job>(&client).await?.saturating_sub(1)
        + headless_services(&client).await?.saturating_sub(1);
    figure("cleanup.objects_left_over_limit", as_f64(left), "objects", "bar: 2");
    figure(
        "cleanup.runs_per_second",
        as_f64(runs - kept) / cleaned.as_secs_f64(),
        "runs/s",
        "archived and deleted",
    );

    let began = Instant::now();
    multiply(&postgres, further).await?;
    eprintln!("{further} further rows after {:.0?}", began.elapsed());
    let (_api_server, url) = platform.api_server("127.0.0.1:0").await?;
    let all = as_f64(runs + further);
    let lists = lists(&url, &cluster).await?;
    let reference = format!("{all} runs, {REQUESTS} requests, {CONCURRENCY} at a time; bar: 150");
    figure("cleanup.list_all_p95_ms", lists.pages_p95_ms, "ms", &reference);
    figure("cleanup.search_all_p95_ms", lists.searches_p95_ms, "ms", "a part of a name; no bar");
    cluster.stop().await;
    Ok(())
}

/// Ended runs of all teams, each with our finalizer, as if the controllers had followed it.
async fn fill(client: &Client, runs: usize) -> anyhow::Result<()> {
    for team in (0..TEAMS).map(team_name) {
        create_bare_namespace(client, &team).await?;
        create_queue(client, &team, None, &[("H100", 64)], &[&team]).await?;
    }
    grant_everywhere(client, LEAD, "warpyard-viewer").await?;
    grant_namespace(client, MEMBER, &team_name(3)).await?;
    let ended = (0..runs).map(|number| create_ended_run(client.clone(), number));
    stream::iter(ended).buffer_unordered(IN_FLIGHT_MAX).try_collect::<()>().await
}

fn team_name(team: usize) -> String {
    format!("team-{team:02}")
}

async fn create_ended_run(client: Client, number: usize) -> anyhow::Result<()> {
    let (team, name) = (team_name(number % TEAMS), format!("finetune-{number:05}"));
    let spec = RunSpec {
        image: "registry.example/team/train:2026-11".to_owned(),
        command: ["torchrun", "--nnodes=4", "train.py", "--config", "configs/llama.yaml"]
            .map(str::to_owned)
            .into(),
        gpu_type: Some("H100".to_owned()),
        ..run(&team, 4, 8, None)
    };
    let mut object = Run::new(&name, spec);
    object.metadata.annotations = Some([(SUBMITTED_BY_ANNOTATION.to_owned(), "admin".to_owned())].into());
    object.metadata.finalizers = Some(vec![RUN_FINALIZER.to_owned()]);
    let runs: Api<Run> = Api::namespaced(client, &team);
    runs.create(&PostParams::default(), &object).await.with_context(|| format!("failed to create {name}"))?;
    let phase = if number.is_multiple_of(5) { "Failed" } else { "Succeeded" };
    let finished = jiff::Timestamp::now().to_string();
    let attempt = json!({
        "number": 1, "jobName": format!("{name}-1"), "jobUid": format!("0b3c1f7e-{number:012}"),
        "outcome": phase, "startedAt": finished, "endedAt": finished,
    });
    let status = json!({ "status": {
        "phase": phase, "observedGeneration": 1, "attempts": [attempt], "finishedAt": finished,
        "message": "every member exited with 0", "members": { "succeeded": 4 },
    }});
    let patched = runs.patch_status(&name, &PatchParams::default(), &Patch::Merge(&status)).await;
    patched.with_context(|| format!("failed to end {name}")).map(drop)
}

/// The time from the lease until the Job of a run that waited for the controllers is there.
async fn relist(client: &Client, platform: &Platform<'_>) -> anyhow::Result<f64> {
    let mut controllers = platform
        .controllers_with("relisting", |spec| spec.args(["--keep-runs=1000000", "--keep-runs-for=3650d"]))
        .await?;
    create_run(client, &team_name(0), "waiting", run(&team_name(0), 1, 1, None)).await?;
    controllers.until_logged("Took the lease.", wait::PATIENCE).await?;
    let began = Instant::now();
    let jobs: Api<Job> = Api::namespaced(client.clone(), &team_name(0));
    let listed = wait::until("the waiting run has its Job", CLEANED_WITHIN, || async {
        Ok(jobs.get_opt("waiting-1").await?.map(|_| began.elapsed().as_secs_f64()))
    });
    let took = listed.await?;
    controllers.ready().await?;
    controllers.terminate().await;
    Ok(took)
}

async fn count<K>(client: &Client) -> anyhow::Result<usize>
where
    K: kube::Resource<DynamicType = ()> + Clone + std::fmt::Debug + serde::de::DeserializeOwned,
{
    let api: Api<K> = Api::all(client.clone());
    let page = api.list_metadata(&ListParams::default().limit(1)).await.context("failed to count")?;
    let more = usize::try_from(page.metadata.remaining_item_count.unwrap_or(0))?;
    Ok(page.items.len() + more)
}

async fn headless_services(client: &Client) -> anyhow::Result<usize> {
    let api: Api<Service> = Api::all(client.clone());
    let ours = ListParams::default().labels(api_types::names::RUN_LABEL);
    Ok(api.list_metadata(&ours).await.context("failed to count Services")?.items.len())
}

/// Copies of what was archived, each half a minute older than the one before.
async fn multiply(postgres: &Postgres, rows: usize) -> anyhow::Result<()> {
    let url = std::fs::read_to_string(postgres.superuser_url_file())
        .context("failed to read the database's URL")?;
    let superuser = PgPoolOptions::new().max_connections(1).connect(url.trim()).await?;
    let there: i64 = sqlx::query_scalar("SELECT count(*) FROM archived_run").fetch_one(&superuser).await?;
    ensure!(there > 0, "nothing was archived");
    let copies = i64::try_from(rows)? / there + 1;
    sqlx::query(
        "INSERT INTO archived_run (cluster, uid, namespace, name, queue, username, phase, created_second, document)
         SELECT cluster, copy.uid, namespace, copy.name, queue, username, phase, copy.second,
                jsonb_set(document, '{metadata}', (document -> 'metadata') || jsonb_build_object(
                    'uid', copy.uid, 'name', copy.name,
                    'creationTimestamp', to_char(to_timestamp(copy.second), 'YYYY-MM-DD\"T\"HH24:MI:SS\"Z\"')))
         FROM (SELECT *, row_number() OVER () AS row FROM archived_run) AS old,
              generate_series(1, $1) AS number,
              LATERAL (SELECT uid || '-' || number AS uid, name || '-' || number AS name,
                              created_second - 30 * (row + number * $2) AS second) AS copy
         LIMIT $3",
    )
    .bind(copies)
    .bind(there)
    .bind(i64::try_from(rows)?)
    .execute(&superuser)
    .await
    .context("failed to multiply the archive")?;
    sqlx::query("VACUUM ANALYZE archived_run").execute(&superuser).await?;
    Ok(())
}

struct Lists {
    pages_p95_ms: f64,
    searches_p95_ms: f64,
}

/// Pages as people ask for them: the first, later ones, of one state, of one queue, of one namespace.
async fn lists(url: &str, cluster: &TestCluster) -> anyhow::Result<Lists> {
    let http = reqwest::Client::new();
    let (lead, member) = (cluster.token_for_user(LEAD)?, cluster.token_for_user(MEMBER)?);
    let base = format!("{url}/v1/runs?archived=true");
    let mut deep = base.clone();
    for _ in 0..20 {
        let page: Value = http.get(&deep).bearer_auth(lead).send().await?.error_for_status()?.json().await?;
        let next = page["continue"].as_str().context("a million runs are many pages")?;
        deep = format!("{base}&continue={next}");
    }
    let pages = [
        (lead, base.clone()),
        (lead, deep),
        (lead, format!("{base}&phase=Failed")),
        (lead, format!("{base}&queue={}", team_name(7))),
        (lead, format!("{base}&namespace={}", team_name(3))),
        (member, base.clone()),
        (member, format!("{base}&phase=Failed")),
    ];
    let searches = [(lead, format!("{base}&search=nowhere")), (member, format!("{base}&search=nowhere"))];
    Ok(Lists {
        pages_p95_ms: p95(&http, &pages, REQUESTS).await?,
        searches_p95_ms: p95(&http, &searches, REQUESTS / 20).await?,
    })
}

async fn p95(http: &reqwest::Client, queries: &[(&str, String)], requests: usize) -> anyhow::Result<f64> {
    let asked =
        queries.iter().cycle().take(requests).map(|(token, query)| http.get(query).bearer_auth(token));
    let answers = latency::answers(asked, CONCURRENCY).await.context("failed to list runs")?;
    let took: Vec<Duration> = answers.into_iter().map(|(took, _)| took).collect();
    Ok(milliseconds(percentile_95(&took)))
}

fn as_f64(count: usize) -> f64 {
    u32::try_from(count).map_or(f64::MAX, f64::from)
}
