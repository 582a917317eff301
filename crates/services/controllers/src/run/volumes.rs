//! The volumes of a member, and their mounts.

use api_types::names::CHECKPOINT_VOLUME;
use k8s_openapi::api::core::v1::{
    EmptyDirVolumeSource, PersistentVolumeClaimVolumeSource, Volume, VolumeMount,
};

use super::blueprint::Blueprint;

/// The folder with the Run's checkpoints, in a member.
pub(super) const CHECKPOINT_DIRECTORY: &str = "/warpyard/checkpoints";

/// Each volume with its mount.
pub(super) fn of(it: &Blueprint<'_>) -> Vec<(Volume, VolumeMount)> {
    let reports = it.around.reporting.as_ref().map(super::reporting::Reporting::volume);
    std::iter::once(shared_memory()).chain(checkpoints(it)).chain(reports).collect()
}

/// Shared memory: the runtime's 64 MiB are too little for data loaders and NCCL.
fn shared_memory() -> (Volume, VolumeMount) {
    let source =
        EmptyDirVolumeSource { medium: Some("Memory".to_owned()), ..EmptyDirVolumeSource::default() };
    let volume = Volume { name: "shm".to_owned(), empty_dir: Some(source), ..Volume::default() };
    (volume, mount("shm", "/dev/shm"))
}

/// A folder of this Run's own, even if there was another Run of the same name before.
fn checkpoints(it: &Blueprint<'_>) -> Option<(Volume, VolumeMount)> {
    let claim_name = it.run.spec.checkpoint.as_ref()?.claim.clone();
    let volume = Volume {
        name: CHECKPOINT_VOLUME.to_owned(),
        persistent_volume_claim: Some(PersistentVolumeClaimVolumeSource { claim_name, read_only: None }),
        ..Volume::default()
    };
    let folder = format!("warpyard/{}-{}", it.run.name, it.run.owner.uid);
    let mount = VolumeMount { sub_path: Some(folder), ..mount(CHECKPOINT_VOLUME, CHECKPOINT_DIRECTORY) };
    Some((volume, mount))
}

fn mount(name: &str, path: &str) -> VolumeMount {
    VolumeMount { name: name.to_owned(), mount_path: path.to_owned(), ..VolumeMount::default() }
}
