//! The scheduler's rights: each one is needed, and none reads a Secret.
//!
//! Each right is taken away in turn, and a scheduler is put to work on everything that it does: take over, place, say why
//! not, make room, tell. It must be refused just that, by the API server, and say so.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, bail, ensure};
use api_types::hold::{HoldReason, HoldSpec, hold_name};
use api_types::{Hold, names};
use e2e::objects::{GangOfPods, create_namespace, create_queue, create_run, h100_nodes, run};
use e2e::observe::{placed, pods};
use e2e::wait;
use k8s_openapi::api::core::v1::{Binding, Pod, Secret};
use k8s_openapi::api::rbac::v1::{ClusterRole, PolicyRule, Role};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::api::{Api, DeleteParams, ListParams, PostParams};
use kube::{Client, ResourceExt};
use serde_json::json;
use test_cluster::TestCluster;
use test_cluster::platform::{LeaseTimes, Platform};

use crate::outlook::ask_leader;
use crate::preempt::borrower_and_owner;

const ROLE: &str = "warpyard-scheduler";
/// From its start to the refusal that must come.
const REFUSED_WITHIN: Duration = Duration::from_mins(2);
/// Between two questions to the leader.
const ASKED_EVERY: Duration = Duration::from_millis(500);

/// One verb on one resource.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Right {
    /// Whether it is in the Role of our namespace, else in the `ClusterRole`.
    namespaced: bool,
    group: String,
    resource: String,
    verb: String,
}

impl Right {
    /// kube-apiserver's message to a process without it.
    fn refusal(&self) -> String {
        format!("cannot {} resource \"{}\" in API group \"{}\"", self.verb, self.resource, self.group)
    }

    /// Some are needed only where nothing is yet: those come first.
    fn is_for_the_first_start(&self) -> bool {
        self.verb == "create" && ["leases", "schedulerepochs"].contains(&self.resource.as_str())
    }
}

/// Rules of one verb and one resource each, all but one right.
fn without(rules: &[PolicyRule], right: &Right) -> Vec<PolicyRule> {
    let mut left = Vec::new();
    for rule in rules {
        for (group, resource, verb) in each(rule) {
            if (&group, &resource, &verb) != (&right.group, &right.resource, &right.verb) {
                left.push(PolicyRule {
                    api_groups: Some(vec![group]),
                    resources: Some(vec![resource]),
                    verbs: vec![verb],
                    resource_names: rule.resource_names.clone(),
                    ..PolicyRule::default()
                });
            }
        }
    }
    left
}

fn each(rule: &PolicyRule) -> Vec<(String, String, String)> {
    let mut rights = Vec::new();
    for group in rule.api_groups.iter().flatten() {
        for resource in rule.resources.iter().flatten() {
            rights.extend(rule.verbs.iter().map(|verb| (group.clone(), resource.clone(), verb.clone())));
        }
    }
    rights
}

/// The roles as they are deployed.
struct Roles {
    everywhere: Api<ClusterRole>,
    at_home: Api<Role>,
    cluster_role: ClusterRole,
    role: Role,
}

impl Roles {
    async fn read(client: &Client) -> anyhow::Result<Self> {
        let everywhere: Api<ClusterRole> = Api::all(client.clone());
        let at_home: Api<Role> = Api::namespaced(client.clone(), names::SYSTEM_NAMESPACE);
        let (cluster_role, role) = (everywhere.get(ROLE).await?, at_home.get(ROLE).await?);
        Ok(Self { everywhere, at_home, cluster_role, role })
    }

    fn rights(&self) -> Vec<Right> {
        let of = |rules: &Option<Vec<PolicyRule>>, namespaced: bool| -> Vec<Right> {
            let all = rules.iter().flatten().flat_map(each);
            all.map(|(group, resource, verb)| Right { namespaced, group, resource, verb }).collect()
        };
        let mut rights = of(&self.role.rules, true);
        rights.extend(of(&self.cluster_role.rules, false));
        rights.sort();
        rights.dedup();
        // A scheduler without an epoch has taken its lease before.
        rights.sort_by_key(|right| (!right.is_for_the_first_start(), right.resource != "leases"));
        rights
    }

    /// Puts the roles in place, without one right if one is given.
    async fn apply(&self, lacks: Option<&Right>) -> anyhow::Result<()> {
        let (mut role, mut cluster_role) = (self.role.clone(), self.cluster_role.clone());
        if let Some(right) = lacks {
            let rules = if right.namespaced { &mut role.rules } else { &mut cluster_role.rules };
            *rules = Some(without(rules.as_deref().unwrap_or_default(), right));
        }
        role.metadata.resource_version = None;
        cluster_role.metadata.resource_version = None;
        self.at_home
            .replace(ROLE, &PostParams::default(), &role)
            .await
            .context("failed to change the role")?;
        self.everywhere
            .replace(ROLE, &PostParams::default(), &cluster_role)
            .await
            .context("failed to change the cluster role")?;
        Ok(())
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_right_of_the_scheduler_is_needed() -> anyhow::Result<()> {
    let cluster = TestCluster::builder().nodes(h100_nodes("node", 2)).start().await?;
    let client = cluster.admin_client();
    borrower_and_owner(&client).await?;
    // A run that never fits, so that every scheduler has to say why.
    create_namespace(&client, "asks").await?;
    create_queue(&client, "asks", None, &[], &["asks"]).await?;
    let mut controllers = Platform::debug(&cluster).controllers("controllers").await?;
    controllers.ready().await?;
    create_run(&client, "asks", "asks", run("asks", 3, 8, None)).await?;
    let account = (names::SYSTEM_NAMESPACE, names::SCHEDULER_SERVICE_ACCOUNT);
    let identities = [
        cluster.kubeconfig_for_service_account(account.0, account.1).await?,
        cluster.kubeconfig_for_service_account(account.0, account.1).await?,
    ];
    let roles = Roles::read(&client).await?;
    let rights = roles.rights();
    let mut unneeded = Vec::new();
    for (number, right) in rights.iter().enumerate() {
        roles.apply(Some(right)).await?;
        let started = std::time::Instant::now();
        let refused = put_to_work(&cluster, number, &identities[number % 2], right).await?;
        println!("{right:?}: refused {refused} after {:.1} s", started.elapsed().as_secs_f64());
        if !refused {
            unneeded.push(right.clone());
        }
        roles.apply(None).await?;
        clean_up(&client).await?;
    }
    ensure!(unneeded.is_empty(), "nothing fails without these of {} rights: {unneeded:#?}", rights.len());
    cluster.stop().await;
    Ok(())
}

/// Lets a scheduler do all its work; returns whether the missing right was refused.
async fn put_to_work(
    cluster: &TestCluster,
    number: usize,
    identity: &Path,
    right: &Right,
) -> anyhow::Result<bool> {
    let client = cluster.admin_client();
    let platform = Platform::debug(cluster);
    // It reads a pod only when a bind is in conflict: somebody else is faster.
    let reads = (right.resource.as_str(), right.verb.as_str()) == ("pods", "get");
    let failpoints = if reads { "before-binds=sleep(10000)" } else { "" };
    let name = format!("scheduler-{number:02}");
    let mut service = platform.scheduler_as(&name, identity, LeaseTimes::Medium, failpoints)?;
    let log: PathBuf = service.process().log().to_path_buf();
    let refusal = right.refusal();
    let is_refused = || fs::read_to_string(&log).unwrap_or_default().replace('\\', "").contains(&refusal);
    let faster = reads.then(|| log.clone());
    // It asks who somebody is only when somebody asks it.
    let asks = right.resource == "tokenreviews";
    let work = tokio::spawn(async move {
        give_work(&client, number, faster.as_deref()).await?;
        if !asks {
            return anyhow::Ok(());
        }
        loop {
            // Until it leads, nobody answers.
            let _ = ask_leader(&client, "/v1/line", Some("a stranger's token")).await;
            tokio::time::sleep(ASKED_EVERY).await;
        }
    });
    let refused = wait::until("it is refused", REFUSED_WITHIN, || async { Ok(is_refused().then_some(())) });
    let refused = refused.await.is_ok();
    if !refused && work.is_finished() {
        work.await.context("the work panicked")??;
    } else {
        work.abort();
    }
    service.terminate().await;
    Ok(refused)
}

/// A gang that borrows, and an owner for whom it gives way though there is a Hold already. With
/// the log of a scheduler that is stopped before its binds, the gang is bound by somebody else meanwhile.
async fn give_work(client: &Client, number: usize, faster_than: Option<&Path>) -> anyhow::Result<()> {
    let (borrows, owns) = (format!("borrows-{number}"), format!("owns-{number}"));
    let gang = |name, queue, members, gpus| GangOfPods {
        namespace: queue,
        name,
        queue,
        members,
        gpus,
        run_time: "1h",
    };
    gang(&borrows, "borrower", 2, 8).create(client).await?;
    if let Some(log) = faster_than {
        wait::until("it is about to bind", REFUSED_WITHIN, || async {
            let log = fs::read_to_string(log).unwrap_or_default();
            Ok(log.contains("Reached failpoint.").then_some(()))
        })
        .await?;
        for (index, pod) in pods(client, "borrower").await?.iter().enumerate() {
            bind(client, pod, &format!("node-{index}")).await?;
        }
        return Ok(());
    }
    wait::until("the borrower is placed", REFUSED_WITHIN, || async {
        Ok((placed(client, "borrower").await? == 2).then_some(()))
    })
    .await?;
    let spec = HoldSpec {
        claimant: owns.clone(),
        why: HoldReason::Room,
        members: Vec::new(),
        victims: Vec::new(),
        expires: Time("2030-01-01T00:00:00Z".parse()?),
        epoch: 1,
    };
    let holds: Api<Hold> = Api::namespaced(client.clone(), "owner");
    holds.create(&PostParams::default(), &Hold::new(&hold_name(&owns), spec)).await?;
    gang(&owns, "owner", 1, 8).create(client).await
}

async fn bind(client: &Client, pod: &Pod, node: &str) -> anyhow::Result<()> {
    let binding: Binding = serde_json::from_value(json!({
        "metadata": { "name": pod.name_any() },
        "target": { "apiVersion": "v1", "kind": "Node", "name": node },
    }))?;
    let pods: Api<Pod> = Api::namespaced(client.clone(), "borrower");
    pods.create_subresource::<Binding, serde_json::Value>(
        "binding",
        &pod.name_any(),
        &PostParams::default(),
        &binding,
    )
    .await
    .context("failed to bind")?;
    Ok(())
}

async fn clean_up(client: &Client) -> anyhow::Result<()> {
    for namespace in ["owner", "borrower"] {
        let pods: Api<Pod> = Api::namespaced(client.clone(), namespace);
        let holds: Api<Hold> = Api::namespaced(client.clone(), namespace);
        let now = DeleteParams::default().grace_period(0);
        pods.delete_collection(&now, &ListParams::default()).await?;
        holds.delete_collection(&now, &ListParams::default()).await?;
        wait::until("nothing is left", wait::PATIENCE, || async {
            let left = pods.list(&ListParams::default()).await?.items.len();
            Ok((left == 0).then_some(()))
        })
        .await?;
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn the_scheduler_can_read_no_secret() -> anyhow::Result<()> {
    let cluster = TestCluster::builder().without_kwok().start().await?;
    let admin = cluster.admin_client();
    let secret: Secret = serde_json::from_value(json!({
        "metadata": { "name": "secret" },
        "data": BTreeMap::from([("key", "dmFsdWU=")]),
    }))?;
    let account = (names::SYSTEM_NAMESPACE, names::SCHEDULER_SERVICE_ACCOUNT);
    let kubeconfig = cluster.kubeconfig_for_service_account(account.0, account.1).await?;
    let client = cluster.client_for(&kubeconfig).await?;
    for namespace in ["default", names::SYSTEM_NAMESPACE] {
        let all: Api<Secret> = Api::namespaced(admin.clone(), namespace);
        all.create(&PostParams::default(), &secret).await.context("failed to create a secret")?;
        let secrets: Api<Secret> = Api::namespaced(client.clone(), namespace);
        refused(secrets.get("secret").await.map(drop))?;
        refused(secrets.list(&ListParams::default()).await.map(drop))?;
    }
    refused(Api::<Secret>::all(client).list(&ListParams::default()).await.map(drop))?;
    cluster.stop().await;
    Ok(())
}

fn refused(result: kube::Result<()>) -> anyhow::Result<()> {
    match result {
        Err(kube::Error::Api(status)) if status.code == 403 => Ok(()),
        Err(error) => Err(error).context("not refused, but failed"),
        Ok(()) => bail!("it was not refused"),
    }
}
