//! Installs the custom resources, then the YAML in `deploy/`, like a user.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use futures::future::try_join_all;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{Api, DynamicObject, Patch, PatchParams};
use kube::discovery::{self, Scope};
use kube::{Client, ResourceExt};
use serde::Deserialize;

use crate::Error;

const FIELD_MANAGER: &str = "test-cluster";
const ESTABLISHED_BOUND: Duration = Duration::from_secs(30);

/// Installs our custom resources, and returns once the API server serves them.
pub(crate) async fn custom_resources(client: &Client) -> Result<(), Error> {
    these_custom_resources(client, api_types::custom_resource_definitions()).await
}

/// Installs custom resources, and returns once the API server serves them.
pub(crate) async fn these_custom_resources(
    client: &Client,
    definitions: Vec<CustomResourceDefinition>,
) -> Result<(), Error> {
    let api: Api<CustomResourceDefinition> = Api::all(client.clone());
    try_join_all(definitions.into_iter().map(|crd| {
        let api = api.clone();
        async move {
            let name = crd.name_any();
            let failed = |source| Error::Kube { what: format!("install {name}"), source };
            api.patch(&name, &PatchParams::apply(FIELD_MANAGER).force(), &Patch::Apply(&crd))
                .await
                .map_err(failed)?;
            let deadline = Instant::now() + ESTABLISHED_BOUND;
            while !is_established(&api.get(&name).await.map_err(failed)?) || !is_served(&api, &crd).await {
                if Instant::now() >= deadline {
                    return Err(Error::NotInTime {
                        what: format!("{name} to be served"),
                        bound: ESTABLISHED_BOUND,
                    });
                }
                tokio::time::sleep(Duration::from_millis(25)).await;
            }
            Ok(())
        }
    }))
    .await?;
    Ok(())
}

/// Applies every YAML file of a directory in the order of their names, namespaces before all else.
///
/// Directories in it are left out: `crds/` has the resources that [`custom_resources`] installs from the Rust
/// types.
pub(crate) async fn directory(client: &Client, dir: &Path) -> Result<(), Error> {
    let mut objects = Vec::new();
    for file in yaml_files(dir)? {
        objects.extend(read_objects(&file)?.into_iter().map(|object| (file.clone(), object)));
    }
    objects.sort_by_key(|(_, object)| object.types.as_ref().is_none_or(|types| types.kind != "Namespace"));
    for (file, object) in &objects {
        apply(client, file, object).await?;
    }
    Ok(())
}

/// Applies one object.
pub(crate) async fn object(client: &Client, object: serde_json::Value) -> Result<(), Error> {
    let what = "read an object of our own".to_owned();
    let object =
        serde_json::from_value(object).map_err(|error| Error::Manifest { what, why: error.to_string() })?;
    apply(client, Path::new("test-cluster"), &object).await
}

async fn apply(client: &Client, file: &Path, object: &DynamicObject) -> Result<(), Error> {
    let what = || format!("apply {} of {}", object.name_any(), file.display());
    let types =
        object.types.clone().ok_or_else(|| Error::Manifest { what: what(), why: "it has no kind".into() })?;
    let gvk = (&types).try_into().map_err(|error| Error::Manifest {
        what: what(),
        why: format!("its apiVersion is wrong: {error}"),
    })?;
    let failed = |source| Error::Kube { what: what(), source };
    let (resource, capabilities) = discovery::pinned_kind(client, &gvk).await.map_err(failed)?;
    let api: Api<DynamicObject> = match (capabilities.scope, object.namespace()) {
        (Scope::Cluster, _) => Api::all_with(client.clone(), &resource),
        (Scope::Namespaced, Some(namespace)) => Api::namespaced_with(client.clone(), &namespace, &resource),
        (Scope::Namespaced, None) => {
            return Err(Error::Manifest { what: what(), why: "it names no namespace".into() });
        }
    };
    api.patch(&object.name_any(), &PatchParams::apply(FIELD_MANAGER).force(), &Patch::Apply(object))
        .await
        .map_err(failed)?;
    Ok(())
}

fn yaml_files(dir: &Path) -> Result<Vec<PathBuf>, Error> {
    let failed = |source| Error::Io { what: format!("list {}", dir.display()), source };
    let mut files = Vec::new();
    for entry in std::fs::read_dir(dir).map_err(failed)? {
        let path = entry.map_err(failed)?.path();
        if path.is_file() && path.extension().is_some_and(|extension| extension == "yaml") {
            files.push(path);
        }
    }
    files.sort();
    Ok(files)
}

fn read_objects(file: &Path) -> Result<Vec<DynamicObject>, Error> {
    let text = std::fs::read_to_string(file)
        .map_err(|source| Error::Io { what: format!("read {}", file.display()), source })?;
    let mut objects = Vec::new();
    for document in serde_norway::Deserializer::from_str(&text) {
        let object = Option::<DynamicObject>::deserialize(document).map_err(|error| Error::Manifest {
            what: format!("read {}", file.display()),
            why: error.to_string(),
        })?;
        objects.extend(object);
    }
    Ok(objects)
}

/// "Established" comes a moment before the first list is answered.
async fn is_served(api: &Api<CustomResourceDefinition>, crd: &CustomResourceDefinition) -> bool {
    let (group, plural) = (&crd.spec.group, &crd.spec.names.plural);
    let version = crd.spec.versions.first().map_or("", |version| &version.name);
    let request = http::Request::get(format!("/apis/{group}/{version}/{plural}?limit=1")).body(Vec::new());
    match request {
        Ok(request) => api.clone().into_client().request_text(request).await.is_ok(),
        Err(_) => false,
    }
}

fn is_established(crd: &CustomResourceDefinition) -> bool {
    crd.status
        .iter()
        .flat_map(|status| status.conditions.iter().flatten())
        .any(|condition| condition.type_ == "Established" && condition.status == "True")
}

#[cfg(test)]
mod tests {
    use api_types::PriorityTier;

    use super::*;
    use toolbox::checkout::repository_root;

    #[test]
    fn every_priority_tier_has_its_class() {
        let classes = read_objects(&repository_root().join("deploy/priority-classes.yaml")).unwrap();
        let found: Vec<_> =
            classes.iter().map(|class| (class.name_any(), class.data["value"].as_i64())).collect();
        let expected: Vec<_> = PriorityTier::ALL
            .iter()
            .map(|tier| (tier.priority_class().to_owned(), Some(i64::from(tier.priority_value()))))
            .collect();
        assert_eq!(found, expected);
    }

    #[test]
    fn every_file_in_deploy_can_be_read() {
        let files = yaml_files(&repository_root().join("deploy")).unwrap();
        assert!(files.len() >= 2, "{files:?}");
        for file in files {
            assert!(!read_objects(&file).unwrap().is_empty(), "{} holds no object", file.display());
        }
    }
}
