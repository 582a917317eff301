//! How objects are parsed. Everything that we do not read (managed fields, probes, environments, images) is skipped
//! while parsing and never stored: at 100,000 pods that is most of the memory.

use std::collections::BTreeMap;

use api_types::names;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{OwnerReference, Time};
use kube_core::ObjectMeta;
use serde::de::{Deserialize, Deserializer, IgnoredAny};

use crate::pod::COMPLETION_INDEX;

/// The kind is the cluster's own; only the Rust type is slim.
macro_rules! resource_like {
    ($slim:ty, $full:ty) => {
        impl kube_core::Resource for $slim {
            type DynamicType = ();
            type Scope = <$full as kube_core::Resource>::Scope;

            fn kind(_: &()) -> std::borrow::Cow<'_, str> {
                <$full as kube_core::Resource>::kind(&())
            }
            fn group(_: &()) -> std::borrow::Cow<'_, str> {
                <$full as kube_core::Resource>::group(&())
            }
            fn version(_: &()) -> std::borrow::Cow<'_, str> {
                <$full as kube_core::Resource>::version(&())
            }
            fn plural(_: &()) -> std::borrow::Cow<'_, str> {
                <$full as kube_core::Resource>::plural(&())
            }
            fn meta(&self) -> &kube_core::ObjectMeta {
                &self.metadata
            }
            fn meta_mut(&mut self) -> &mut kube_core::ObjectMeta {
                &mut self.metadata
            }
        }
    };
}

pub(crate) use resource_like;

/// Annotations we keep: ours, and the index that the Job controller gives.
fn is_kept(annotation: &str) -> bool {
    let domain = annotation.split('/').next().unwrap_or_default();
    domain == api_types::GROUP
        || domain.strip_suffix(api_types::GROUP).is_some_and(|prefix| prefix.ends_with('.'))
        || annotation == COMPLETION_INDEX
}

/// Metadata without what nothing here reads, above all managed fields. Anybody who may write an object may write
/// times into them that our types cannot hold, and then no list with the object in it could be read.
pub(crate) fn slim_metadata<'de, D: Deserializer<'de>>(deserializer: D) -> Result<ObjectMeta, D::Error> {
    #[derive(serde::Deserialize)]
    #[serde(rename_all = "camelCase", default)]
    #[derive(Default)]
    struct Metadata {
        name: Option<String>,
        namespace: Option<String>,
        uid: Option<String>,
        resource_version: Option<String>,
        generation: Option<i64>,
        labels: Option<BTreeMap<String, String>>,
        #[serde(deserialize_with = "our_annotations")]
        annotations: Option<BTreeMap<String, String>>,
        owner_references: Option<Vec<OwnerReference>>,
        finalizers: Option<Vec<String>>,
        creation_timestamp: Option<Time>,
        deletion_timestamp: Option<Time>,
    }
    let metadata = Metadata::deserialize(deserializer)?;
    Ok(ObjectMeta {
        name: metadata.name,
        namespace: metadata.namespace,
        uid: metadata.uid,
        resource_version: metadata.resource_version,
        generation: metadata.generation,
        labels: metadata.labels,
        annotations: metadata.annotations,
        owner_references: metadata.owner_references,
        finalizers: metadata.finalizers,
        creation_timestamp: metadata.creation_timestamp,
        deletion_timestamp: metadata.deletion_timestamp,
        ..ObjectMeta::default()
    })
}

fn our_annotations<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<BTreeMap<String, String>>, D::Error> {
    let mut annotations: Option<BTreeMap<String, String>> = Option::deserialize(deserializer)?;
    if let Some(annotations) = &mut annotations {
        annotations.retain(|key, _| is_kept(key));
    }
    Ok(annotations.filter(|annotations| !annotations.is_empty()))
}

pub(crate) fn null_is_default<'de, D: Deserializer<'de>, T: Deserialize<'de> + Default>(
    deserializer: D,
) -> Result<T, D::Error> {
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}

pub(crate) fn how_many<'de, D: Deserializer<'de>>(deserializer: D) -> Result<usize, D::Error> {
    Ok(Option::<Vec<IgnoredAny>>::deserialize(deserializer)?.map_or(0, |items| items.len()))
}

pub(crate) fn is_there<'de, D: Deserializer<'de>>(deserializer: D) -> Result<bool, D::Error> {
    Ok(Option::<IgnoredAny>::deserialize(deserializer)?.is_some())
}

/// Volumes that are the same on every node: no scheduler looks at them.
const VOLUMES_ANYWHERE: [&str; 8] =
    ["configMap", "downwardAPI", "emptyDir", "hostPath", "image", "nfs", "projected", "secret"];

#[derive(serde::Deserialize)]
struct SlimVolume {
    #[serde(default)]
    name: String,
    #[serde(flatten)]
    #[expect(clippy::zero_sized_map_values, reason = "the keys of a JSON object, without its values")]
    sources: BTreeMap<String, IgnoredAny>,
}

pub(crate) fn volume_kinds<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<String>, D::Error> {
    let mut volumes = Option::<Vec<SlimVolume>>::deserialize(deserializer)?.unwrap_or_default();
    // A Run's checkpoints are on a volume that all members share, so every node reaches it.
    volumes.retain(|volume| volume.name != names::CHECKPOINT_VOLUME);
    let mut kinds: Vec<String> = volumes.into_iter().flat_map(|volume| volume.sources.into_keys()).collect();
    kinds.retain(|kind| !VOLUMES_ANYWHERE.contains(&kind.as_str()));
    kinds.sort();
    kinds.dedup();
    Ok(kinds)
}
