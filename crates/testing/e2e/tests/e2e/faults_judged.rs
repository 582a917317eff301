//! Checks the tools of the fault tests: the proxy makes the right faults, and the judge notices violations.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use anyhow::ensure;
use api_types::names;
use e2e::faults::site::{NAMESPACE, Site};
use e2e::faults::thrash;
use e2e::objects::{GangOfPods, h100_nodes};
use e2e::observe::{node_of, pods};
use e2e::wait::PATIENCE;
use kube::{Client, ResourceExt};
use serde_json::json;
use test_cluster::TestCluster;
use test_cluster::etcd::KeyEvent;
use test_cluster::fault_proxy::Faults;

#[tokio::test(flavor = "multi_thread")]
async fn the_proxy_loses_what_it_says_and_the_judge_sees_what_happens_around_an_absent_api_server()
-> anyhow::Result<()> {
    let builder = TestCluster::builder().nodes(h100_nodes("node", 1)).without_kwok();
    let site = Site::start(builder).await?;
    let gang = |name, gpus| GangOfPods {
        namespace: NAMESPACE,
        name,
        queue: NAMESPACE,
        members: 2,
        gpus,
        run_time: "1h",
    };
    for pods in [gang("twin", 5), gang("half", 0)] {
        pods.create(&site.client).await?;
    }
    let proxy = site.cluster.fault_proxy(&site.cluster.api_server_urls(), 1).await?;
    let login =
        site.cluster.login_service_account(names::SYSTEM_NAMESPACE, names::SCHEDULER_SERVICE_ACCOUNT).await?;
    let client = site.cluster.client_for(&site.cluster.kubeconfig_through(&login, proxy.url())?).await?;

    let conflicts = Faults { conflict_permille: 1_000, ..Faults::default() };
    proxy.set(conflicts);
    let conflict = bind(&client, "twin-0").await;
    ensure!(matches!(&conflict, Err(kube::Error::Api(status)) if status.code == 409), "{conflict:?}");
    proxy.set(Faults { cut_before_permille: 1_000, ..Faults::default() });
    ensure!(bind(&client, "twin-0").await.is_err(), "the connection is cut before the bind");
    ensure!(!is_bound(&site, "twin-0").await?, "neither of the two was carried out");
    proxy.set(Faults { cut_after_permille: 1_000, ..Faults::default() });
    ensure!(bind(&client, "twin-0").await.is_err(), "the connection is cut after the bind");
    ensure!(is_bound(&site, "twin-0").await?, "it was carried out all the same");
    proxy.set(Faults { swallow_permille: 1_000, ..Faults::default() });
    let silent = tokio::time::timeout(Duration::from_secs(3), bind(&client, "half-0")).await;
    ensure!(silent.is_err(), "there is no answer at all: {silent:?}");
    e2e::wait::until("it was carried out all the same", PATIENCE, || async {
        Ok(is_bound(&site, "half-0").await?.then_some(()))
    })
    .await?;
    proxy.set(Faults::default());
    site.cluster.restart_api_server("kube-apiserver").await?;
    // Its roles are read again; until then it refuses. Requests sent while it was away may have been executed
    // without an answer, and are refused from then on.
    e2e::wait::until("the API server knows its roles", Duration::from_mins(2), || async {
        let answered = tokio::time::timeout(Duration::from_secs(10), bind(&client, "twin-1")).await;
        let is_bound = is_bound(&site, "twin-1").await.unwrap_or(false);
        Ok((answered.is_ok() && is_bound).then_some(()))
    })
    .await?;

    let (findings, judgement) = site.judge("judged", Instant::now()).await?;
    ensure!(findings.double_booked == 1, "ten of eight GPUs: {:?}", findings.wrong);
    ensure!(judgement.raced == 0, "the node was there all along");
    ensure!(findings.partial_gangs == 1, "`half` is in part: {:?}", findings.wrong);
    ensure!(findings.lost_pods == 1, "`half-1` has no node: {:?}", findings.wrong);
    ensure!(findings.must_be_clean().is_err(), "and all that is an error");
    Ok(())
}

fn hold(claimant: &str, victim: &str, uids: &[&str]) -> KeyEvent {
    let hold = json!({
        "metadata": { "namespace": "owner" },
        "spec": { "claimant": claimant, "victims": [{ "namespace": "borrower", "gang": victim, "uids": uids }] },
    });
    KeyEvent { revision: 1, key: String::new(), value: Some(hold.to_string().into_bytes()), previous: None }
}

#[test]
fn who_gives_way_twice_to_the_same_claimant_is_found_and_who_leaves_slowly_is_not() -> anyhow::Result<()> {
    let started = BTreeSet::from(["owner/a".to_owned()]);
    let slowly = [hold("a", "v", &["1", "2"]), hold("a", "v", &["2"]), hold("a", "w", &["3"])];
    let judged = thrash::judge(&slowly, &[], &started)?;
    ensure!((judged.repeats, judged.for_nothing) == (0, 0), "{judged:?}");
    let again = [hold("a", "v", &["1", "2"]), hold("a", "v", &["8", "9"])];
    ensure!(thrash::judge(&again, &[], &started)?.repeats == 1, "two pods made anew were told to go");
    ensure!(thrash::judge(&again, &[], &BTreeSet::new())?.for_nothing == 1, "the claimant never started");
    Ok(())
}

async fn bind(client: &Client, pod: &str) -> kube::Result<()> {
    let body = json!({
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": { "namespace": NAMESPACE, "name": pod },
        "target": { "apiVersion": "v1", "kind": "Node", "name": "node-0" },
    });
    let request = http::Request::post(format!("/api/v1/namespaces/{NAMESPACE}/pods/{pod}/binding"))
        .header(http::header::CONTENT_TYPE, "application/json")
        .body(body.to_string().into_bytes())
        .map_err(kube::Error::HttpError)?;
    client.request::<serde_json::Value>(request).await.map(drop)
}

async fn is_bound(site: &Site, name: &str) -> anyhow::Result<bool> {
    let pods = pods(&site.client, NAMESPACE).await?;
    Ok(pods.iter().any(|pod| pod.name_any() == name && node_of(pod).is_some()))
}
