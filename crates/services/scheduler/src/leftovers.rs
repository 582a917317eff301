//! Reads the state that the former leader left, once per take-over, page by page.

use std::time::Duration;

use api_types::{Hold, Queue};
use cluster_apply::Target;
use cluster_convert::hold_record;
use cluster_model::plan::HoldRecord;
use cluster_model::{QueueName, SavedAccounts};
use kube::Client;
use kube::api::{Api, ListParams};
use serde::Deserialize;
use serde::de::{DeserializeOwned, IgnoredAny};
use slim_objects::Readable;

use crate::explain;

/// Objects per page.
const PAGE_SIZE: u32 = 500;
/// The time limit for one page.
const LIST_MAX: Duration = Duration::from_mins(1);

/// The Holds that it kept.
pub async fn holds(client: &Client) -> kube::Result<Vec<HoldRecord>> {
    let holds: Vec<Hold> = list(client).await?;
    Ok(holds.iter().map(hold_record).collect())
}

/// The use and banks of queues that it saved.
pub async fn accounts(client: &Client) -> kube::Result<Vec<(QueueName, SavedAccounts)>> {
    let queues: Vec<Queue> = list(client).await?;
    Ok(queues.iter().filter_map(accounts_of).collect())
}

fn accounts_of(queue: &Queue) -> Option<(QueueName, SavedAccounts)> {
    let saved = explain::saved_accounts(queue.status.as_ref()?.accounts.as_ref()?)?;
    Some((queue.metadata.name.as_deref()?.into(), saved))
}

/// Runs with `status.waiting`, read only as far as needed.
pub async fn waiting_runs(client: &Client) -> kube::Result<Vec<Target>> {
    let mut found = Vec::new();
    let mut next = String::new();
    loop {
        // A continue token is base64 for URLs.
        let path = format!("/apis/warpyard.dev/v1alpha1/runs?limit={PAGE_SIZE}&continue={next}");
        let request = http::Request::get(path).body(Vec::new()).map_err(kube::Error::HttpError)?;
        let page = tokio::time::timeout(LIST_MAX, client.request::<RunList>(request));
        let page = page.await.map_err(|elapsed| kube::Error::Service(elapsed.into()))??;
        for run in page.items {
            if run.status.is_some_and(|status| status.waiting.is_some()) {
                found.push(Target::Run(run.metadata.namespace.into(), run.metadata.name.into()));
            }
        }
        next = page.metadata.next;
        if next.is_empty() {
            return Ok(found);
        }
    }
}

#[derive(Deserialize)]
struct RunList {
    metadata: ListMetadata,
    items: Vec<SlimRun>,
}

#[derive(Deserialize)]
struct ListMetadata {
    #[serde(rename = "continue", default)]
    next: String,
}

#[derive(Deserialize)]
struct SlimRun {
    metadata: RunMetadata,
    status: Option<SlimRunStatus>,
}

#[derive(Deserialize)]
struct RunMetadata {
    namespace: String,
    name: String,
}

#[derive(Deserialize)]
struct SlimRunStatus {
    waiting: Option<IgnoredAny>,
}

/// All objects of a kind, page by page.
async fn list<K>(client: &Client) -> kube::Result<Vec<K>>
where
    K: kube::Resource<DynamicType = ()> + Clone + std::fmt::Debug + DeserializeOwned,
{
    let api: Api<Readable<K>> = Api::all(client.clone());
    let mut page = ListParams::default().limit(PAGE_SIZE);
    let mut found = Vec::new();
    loop {
        let list = tokio::time::timeout(LIST_MAX, api.list(&page));
        let list = list.await.map_err(|elapsed| kube::Error::Service(elapsed.into()))??;
        found.extend(list.items.into_iter().map(|Readable(object)| object));
        match list.metadata.continue_.filter(|token| !token.is_empty()) {
            Some(token) => page = page.continue_token(&token),
            None => return Ok(found),
        }
    }
}
