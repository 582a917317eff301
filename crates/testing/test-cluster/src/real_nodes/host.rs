//! What real nodes need of the machine that they run on.

use std::path::{Path, PathBuf};

use nix::unistd::Uid;

use crate::Error;
use crate::engine_bin::is_executable;

/// Programs and the packages that they are in, as Debian calls them.
const PROGRAMS: &[(&str, &str)] = &[
    ("containerd", "containerd"),
    ("containerd-shim-runc-v2", "containerd"),
    ("ctr", "containerd"),
    ("runc", "runc"),
    ("busybox", "busybox-static"),
    (BRIDGE, "containernetworking-plugins"),
    ("ip", "iproute2"),
    ("nsenter", "util-linux"),
    ("unshare", "util-linux"),
    ("tar", "tar"),
];

/// The network plugin of pods.
const BRIDGE: &str = "bridge";

/// The search path of a node: root's, which the caller's may not be.
pub(super) const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// Where distributions and upstream put network plugins.
const PLUGINS: &str = "/usr/lib/cni:/opt/cni/bin:/usr/libexec/cni";

/// The programs, found.
#[derive(Debug)]
pub(super) struct Tools {
    /// The folder of the network plugins.
    pub cni: PathBuf,
}

impl Tools {
    /// Looks for everything, so that what is missing is said before anything starts.
    pub fn find() -> Result<Self, Error> {
        if !Uid::effective().is_root() {
            return Err(Error::NotRoot);
        }
        for (program, package) in PROGRAMS {
            find(program).ok_or(Error::NoProgram { program, package })?;
        }
        let cni = find(BRIDGE).and_then(|bridge| bridge.parent().map(Path::to_owned));
        Ok(Self { cni: cni.unwrap_or_default() })
    }
}

/// A program that real nodes are made of, where they look for it.
pub fn find(program: &str) -> Option<PathBuf> {
    // There is a program called `bridge` in iproute2 too.
    let path = if program == BRIDGE { PLUGINS } else { PATH };
    std::env::split_paths(path).map(|folder| folder.join(program)).find(|path| is_executable(path))
}
