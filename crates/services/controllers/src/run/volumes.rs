//! The volumes of a member, and where they go.

use api_types::names::CHECKPOINT_VOLUME;
use k8s_openapi::api::core::v1::{
    EmptyDirVolumeSource, PersistentVolumeClaimVolumeSource, Volume, VolumeMount,
};

use super::build::Blueprint;

/// Where a member finds the Run's checkpoints.
pub(super) const CHECKPOINT_DIRECTORY: &str = "/warpyard/checkpoints";

/// Each volume with its place in the container.
pub(super) fn of(it: &Blueprint<'_>) -> Vec<(Volume, VolumeMount)> {
    let reports = it.around.reporting.as_ref().map(super::reporting::Reporting::volume);
    std::iter::once(shared_memory()).chain(checkpoints(it)).chain(reports).collect()
}

/// The runtime's 64 MiB of shared memory are too little for data loaders and NCCL.
fn shared_memory() -> (Volume, VolumeMount) {
    let source =
        EmptyDirVolumeSource { medium: Some("Memory".to_owned()), ..EmptyDirVolumeSource::default() };
    let volume = Volume { name: "shm".to_owned(), empty_dir: Some(source), ..Volume::default() };
    (volume, mount("shm", "/dev/shm"))
}

/// A folder of the Run's own, also when another Run of the same name was there before.
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
