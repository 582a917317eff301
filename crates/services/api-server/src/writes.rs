//! Writes as the caller: Kubernetes decides by the caller's rights, and its audit log names them.
//!
//! This server's own identity may write only the reports of members ([`crate::reports`]), and may impersonate
//! others only for these writes.

use std::collections::BTreeMap;

use api_types::names::{API_SERVER_FIELD_MANAGER, SUBMITTED_BY_ANNOTATION};
use api_types::{Run, RunSpec};
use http::Request;
use kube::api::{Patch, PatchParams, PostParams};
use kube::core::Request as KubeRequest;
use kube::{Client, Resource};
use slim_objects::Readable;

use crate::access::identity::Identity;
use crate::http::problem::ApiError;

/// Prefix of the names that Kubernetes makes up for runs without one.
const GENERATED_NAME_PREFIX: &str = "run-";

/// Creates a run, or only checks it.
pub async fn create_run(
    client: &Client,
    identity: &Identity,
    namespace: &str,
    name: Option<&str>,
    spec: RunSpec,
    dry_run: bool,
) -> Result<Run, ApiError> {
    let mut run = Run::new(name.unwrap_or_default(), spec);
    if name.is_none() {
        run.metadata.name = None;
        run.metadata.generate_name = Some(GENERATED_NAME_PREFIX.to_owned());
    }
    // An admission policy refuses any other name here, so it cannot be forged.
    run.metadata.annotations =
        Some(BTreeMap::from([(SUBMITTED_BY_ANNOTATION.to_owned(), identity.username().to_owned())]));
    let parameters = PostParams { dry_run, field_manager: Some(API_SERVER_FIELD_MANAGER.to_owned()) };
    let body = serde_json::to_vec(&run).map_err(|error| broken(&error))?;
    let request = runs(namespace).create(&parameters, body).map_err(|error| broken(&error))?;
    send_as(client, identity, request).await
}

/// Changes a run by a merge patch. If the patch has a `resourceVersion`, any other version is a conflict.
pub async fn patch_run(
    client: &Client,
    identity: &Identity,
    namespace: &str,
    name: &str,
    patch: &serde_json::Value,
) -> Result<Run, ApiError> {
    let parameters =
        PatchParams { field_manager: Some(API_SERVER_FIELD_MANAGER.to_owned()), ..PatchParams::default() };
    let request =
        runs(namespace).patch(name, &parameters, &Patch::Merge(patch)).map_err(|error| broken(&error))?;
    send_as(client, identity, request).await
}

fn runs(namespace: &str) -> KubeRequest {
    KubeRequest::new(Run::url_path(&(), Some(namespace)))
}

async fn send_as(
    client: &Client,
    identity: &Identity,
    mut request: Request<Vec<u8>>,
) -> Result<Run, ApiError> {
    let headers = identity.impersonation_headers().map_err(|error| broken(&error))?;
    request.headers_mut().extend(headers);
    let answer = client.request::<Readable<Run>>(request).await;
    answer.map(|Readable(run)| run).map_err(|error| ApiError::from_kube_write(error).without_groups(identity))
}

fn broken(error: &dyn std::fmt::Display) -> ApiError {
    ApiError::new(
        http::StatusCode::INTERNAL_SERVER_ERROR,
        "Internal",
        format!("cannot build the request: {error}"),
    )
}
