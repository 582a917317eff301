//! Container images made from files of this machine: there is no registry, and nothing is ever pulled.
//!
//! ```text
//!   busybox ─► layer ─┬─► warpyard.test/pause:1      holds a pod's namespaces
//!                     └─► warpyard.test/busybox:1    a shell and its tools
//!   links   ─► layer ───► warpyard.test/machine:1    this machine's programs, by links to a mount
//! ```
//!
//! The tag is not `latest`, because the kubelet would pull that.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use toolbox::programs;

use crate::{Error, files};

/// A pod's first container.
pub(super) const PAUSE_IMAGE: &str = "warpyard.test/pause:1";
/// A shell with the usual small tools.
pub const BUSYBOX_IMAGE: &str = "warpyard.test/busybox:1";
/// This machine's own programs, read-only: `/usr` is the host's. A folder of [`super::RealNode::shared`] may
/// hold more, such as a virtual environment of Python.
pub const MACHINE_IMAGE: &str = "warpyard.test/machine:1";

/// The path of the host's `/usr` in every container; in [`MACHINE_IMAGE`] the usual paths lead there.
pub(super) const MACHINE_USR: &str = "/machine/usr";
/// Likewise `/etc/alternatives`, which some programs in `/usr` are links to.
pub(super) const MACHINE_ALTERNATIVES: &str = "/machine/alternatives";

const PATH_VARIABLE: &str = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// Writes one archive with all images below `root`, for `ctr images import`.
pub(super) fn write_archive(root: &Path) -> Result<PathBuf, Error> {
    let work = root.join("images");
    let layout = work.join("layout");
    files::create_dir(&layout.join("blobs/sha256"))?;
    let busybox = layer(&work, "busybox", stage_busybox)?;
    let machine = layer(&work, "machine", stage_machine)?;
    let images = [
        (
            PAUSE_IMAGE,
            &busybox,
            json!({ "Entrypoint": ["/bin/busybox", "sleep", "2147483647"], "User": "65535:65535" }),
        ),
        (BUSYBOX_IMAGE, &busybox, json!({ "Cmd": ["/bin/sh"] })),
        (MACHINE_IMAGE, &machine, json!({ "Cmd": ["/bin/sh"] })),
    ];
    let mut manifests = Vec::new();
    add_blob(&layout, &busybox)?;
    add_blob(&layout, &machine)?;
    for (name, layer, settings) in images {
        let config = serde_json::to_vec(&configuration(layer, settings)).expect("JSON can be written");
        let manifest = serde_json::to_vec(&manifest(&config, layer)).expect("JSON can be written");
        add_blob(&layout, &config)?;
        add_blob(&layout, &manifest)?;
        let mut entry = descriptor("application/vnd.oci.image.manifest.v1+json", &manifest);
        entry["annotations"] = json!({ "io.containerd.image.name": name });
        entry["platform"] = json!({ "architecture": architecture(), "os": "linux" });
        manifests.push(entry);
    }
    let index = json!({ "schemaVersion": 2, "manifests": manifests });
    files::write_private(&layout.join("index.json"), index.to_string().as_bytes())?;
    files::write_private(&layout.join("oci-layout"), br#"{"imageLayoutVersion":"1.0.0"}"#)?;
    let archive = root.join("images.tar");
    tar(&layout, &archive)?;
    fs::remove_dir_all(&work)
        .map_err(|source| Error::Io { what: format!("remove {}", work.display()), source })?;
    Ok(archive)
}

fn configuration(layer: &[u8], settings: Value) -> Value {
    let mut config = settings;
    config["Env"] = json!([PATH_VARIABLE]);
    config["WorkingDir"] = json!("/");
    json!({
        "architecture": architecture(),
        "os": "linux",
        "config": config,
        "rootfs": { "type": "layers", "diff_ids": [digest(layer)] },
    })
}

fn manifest(config: &[u8], layer: &[u8]) -> Value {
    json!({
        "schemaVersion": 2,
        "mediaType": "application/vnd.oci.image.manifest.v1+json",
        "config": descriptor("application/vnd.oci.image.config.v1+json", config),
        "layers": [descriptor("application/vnd.oci.image.layer.v1.tar", layer)],
    })
}

fn descriptor(media_type: &str, blob: &[u8]) -> Value {
    json!({ "mediaType": media_type, "digest": digest(blob), "size": blob.len() })
}

fn digest(blob: &[u8]) -> String {
    format!("sha256:{:x}", Sha256::digest(blob))
}

/// In the spelling of Go and OCI.
fn architecture() -> &'static str {
    match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    }
}

fn add_blob(layout: &Path, blob: &[u8]) -> Result<(), Error> {
    files::write_private(&layout.join("blobs").join(digest(blob).replace(':', "/")), blob)
}

/// A tar of the files that `stage` puts into an empty folder.
fn layer(
    work: &Path,
    name: &str,
    stage: impl FnOnce(&Path) -> std::io::Result<()>,
) -> Result<Vec<u8>, Error> {
    let folder = work.join(name);
    let failed = |source| Error::Io { what: format!("make the layer of {name}"), source };
    fs::create_dir_all(&folder).map_err(failed)?;
    fs::set_permissions(&folder, fs::Permissions::from_mode(0o755)).map_err(failed)?;
    stage(&folder).map_err(failed)?;
    let archive = work.join(format!("{name}.tar"));
    tar(&folder, &archive)?;
    fs::read(&archive).map_err(failed)
}

fn stage_busybox(folder: &Path) -> std::io::Result<()> {
    stage_basics(folder)?;
    let busybox = programs::of_real_nodes("busybox").ok_or(std::io::ErrorKind::NotFound)?;
    fs::create_dir(folder.join("bin"))?;
    fs::copy(&busybox, folder.join("bin/busybox"))?;
    let applets = Command::new(&busybox).arg("--list").output()?.stdout;
    for applet in String::from_utf8_lossy(&applets).lines().filter(|applet| *applet != "busybox") {
        symlink("busybox", folder.join("bin").join(applet))?;
    }
    Ok(())
}

fn stage_machine(folder: &Path) -> std::io::Result<()> {
    stage_basics(folder)?;
    symlink(MACHINE_ALTERNATIVES, folder.join("etc/alternatives"))?;
    symlink(MACHINE_USR, folder.join("usr"))?;
    // As on the host, where these are links into /usr too.
    for name in ["bin", "sbin", "lib", "lib64"] {
        symlink(format!("{MACHINE_USR}/{name}"), folder.join(name))?;
    }
    Ok(())
}

fn stage_basics(folder: &Path) -> std::io::Result<()> {
    for name in ["dev", "etc", "proc", "root", "sys", "tmp", "var", "var/tmp"] {
        fs::create_dir(folder.join(name))?;
        let mode = if name.ends_with("tmp") { 0o1777 } else { 0o755 };
        fs::set_permissions(folder.join(name), fs::Permissions::from_mode(mode))?;
    }
    fs::write(folder.join("etc/passwd"), "root:x:0:0:root:/root:/bin/sh\n")?;
    fs::write(folder.join("etc/group"), "root:x:0:\n")?;
    fs::write(folder.join("etc/nsswitch.conf"), "hosts: files dns\n")
}

/// The same files give the same bytes.
fn tar(folder: &Path, archive: &Path) -> Result<(), Error> {
    let what = || format!("archive {}", folder.display());
    let output = Command::new("tar")
        .args(["--sort=name", "--mtime=@0", "--owner=0", "--group=0", "--numeric-owner", "-cf"])
        .arg(archive)
        .arg("-C")
        .arg(folder)
        .arg(".")
        .output()
        .map_err(|source| Error::Io { what: what(), source })?;
    if output.status.success() {
        return Ok(());
    }
    let why = String::from_utf8_lossy(&output.stderr).into_owned();
    Err(Error::Io { what: what(), source: std::io::Error::other(why) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_image_names_its_layer_by_what_is_in_it() {
        let config = configuration(b"layer", json!({ "Cmd": ["/bin/sh"] }));
        let expected = "sha256:dac1d7cfa95021764849fd102524e141488c5e3a90f861dbb5a12d9ac8584f85";
        assert_eq!(config["rootfs"]["diff_ids"][0], expected);
        let manifest = manifest(b"config", b"layer");
        assert_eq!(manifest["layers"][0]["digest"], config["rootfs"]["diff_ids"][0]);
        assert_eq!(manifest["layers"][0]["size"], 5);
        assert_eq!(manifest["config"]["digest"], digest(b"config"));
    }

    #[test]
    fn no_image_is_one_that_the_kubelet_would_pull() {
        for image in [PAUSE_IMAGE, BUSYBOX_IMAGE, MACHINE_IMAGE] {
            assert!(image.contains(':') && !image.ends_with(":latest"), "{image}");
        }
    }
}
