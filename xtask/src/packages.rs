//! `cargo xtask packages`: installs programs of the distribution that tests need, if they are missing.

use std::os::unix::fs::MetadataExt;
use std::process::Command;

use anyhow::{Context, bail};
use toolbox::programs;

use crate::commands;

/// A program from the distribution, which is too large to build from source.
struct Package {
    /// The name in Debian.
    name: &'static str,
    what_for: &'static str,
    is_there: fn() -> bool,
}

const PACKAGES: &[Package] = &[
    Package { name: "postgresql", what_for: "the ledger", is_there: has_postgres },
    Package { name: "valgrind", what_for: "counting instructions", is_there: || is_on_path("valgrind") },
    Package { name: "python3-venv", what_for: "tests of the Python SDK", is_there: has_venv },
    Package { name: "strace", what_for: "killing saves at every call", is_there: || is_on_path("strace") },
    Package { name: "chromium", what_for: "tests of the portal", is_there: || is_on_path("chromium") },
    Package { name: "containerd", what_for: REAL_NODES, is_there: || real_nodes_have("containerd") },
    Package { name: "runc", what_for: REAL_NODES, is_there: || real_nodes_have("runc") },
    Package { name: "busybox-static", what_for: REAL_NODES, is_there: || real_nodes_have("busybox") },
    Package {
        name: "containernetworking-plugins",
        what_for: REAL_NODES,
        is_there: || real_nodes_have("bridge"),
    },
    Package { name: "iproute2", what_for: REAL_NODES, is_there: || real_nodes_have("ip") },
];

const REAL_NODES: &str = "real nodes";

/// The oldest Node.js that the portal's build runs on.
const NODE_MIN: (u32, u32) = (20, 19);

/// Installs missing packages, if this machine has apt and we are root; otherwise prints what to install.
pub fn install() -> anyhow::Result<()> {
    let missing: Vec<_> = PACKAGES.iter().filter(|package| !(package.is_there)()).collect();
    if !missing.is_empty() {
        let names: Vec<_> = missing.iter().map(|package| package.name).collect();
        for package in &missing {
            eprintln!("{} is missing ({})", package.name, package.what_for);
        }
        if !(is_on_path("apt-get") && is_root()) {
            bail!("install {} with this machine's package manager, then try again", names.join(", "));
        }
        commands::run(apt().arg("update"))?;
        commands::run(apt().args(["install", "--yes"]).args(&names))?;
    }
    check_node()
}

fn apt() -> Command {
    let mut apt = Command::new("apt-get");
    apt.arg("--quiet=2").env("DEBIAN_FRONTEND", "noninteractive");
    apt
}

fn is_root() -> bool {
    // A process' folder belongs to its effective user.
    std::fs::metadata("/proc/self").is_ok_and(|folder| folder.uid() == 0)
}

fn has_postgres() -> bool {
    programs::postgres().is_some()
}

/// Debian keeps a part of Python in a package of its own, without which no environment can be made.
fn has_venv() -> bool {
    let mut python = Command::new("python3");
    python.args(["-c", "import venv, ensurepip"]).output().is_ok_and(|output| output.status.success())
}

/// Real nodes use root's search path, which may not be ours.
fn real_nodes_have(program: &str) -> bool {
    programs::of_real_nodes(program).is_some()
}

fn is_on_path(program: &str) -> bool {
    programs::on_path(program).is_some()
}

/// Fails, with a hint, unless there is a Node.js that can build the portal.
pub fn check_node() -> anyhow::Result<()> {
    let hint = format!("install Node.js {}.{} or newer, with npm", NODE_MIN.0, NODE_MIN.1);
    let output = Command::new("node").arg("--version").output().with_context(|| hint.clone())?;
    let text = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    let mut numbers = text.trim_start_matches('v').split('.').map_while(|number| number.parse::<u32>().ok());
    let version = (numbers.next().unwrap_or_default(), numbers.next().unwrap_or_default());
    if version < NODE_MIN {
        bail!("this machine has Node.js {text}, which is too old: {hint}");
    }
    Ok(())
}
