//! The programs that real nodes need on this machine.

use std::path::{Path, PathBuf};

use nix::unistd::Uid;
use toolbox::programs::{self, BRIDGE};

use crate::Error;

/// Programs and their packages in Debian.
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

/// The programs, found.
#[derive(Debug)]
pub(super) struct Tools {
    /// The folder of the network plugins.
    pub cni: PathBuf,
}

impl Tools {
    /// Looks for all programs, so that a missing one is reported before anything starts.
    pub fn find() -> Result<Self, Error> {
        if !Uid::effective().is_root() {
            return Err(Error::NotRoot);
        }
        for (program, package) in PROGRAMS {
            programs::of_real_nodes(program).ok_or(Error::NoProgram { program, package })?;
        }
        let cni = programs::of_real_nodes(BRIDGE).and_then(|bridge| bridge.parent().map(Path::to_owned));
        Ok(Self { cni: cni.unwrap_or_default() })
    }
}
