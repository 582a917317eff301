//! Cgroups of the nodes: only these outlive the nodes' processes.
//!
//! ```text
//!   /sys/fs/cgroup/<controller>/warpyard-<our pid>-<our start>/<node>/system     init, containerd, kubelet
//!                                                                    /kubepods   what the kubelet makes
//! ```
//!
//! The name identifies the owner, so that the next test can remove the cgroups of a killed one.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::Error;

const HIERARCHIES: &str = "/sys/fs/cgroup";
/// The hierarchy in which processes of a node are found; each is in exactly one of its cgroups.
const PROCESSES: &str = "pids";
const PREFIX: &str = "warpyard-";
const SHARES: &str = "cpu.shares";
/// A process outside all cgroups weighs 1024, and so does a whole cgroup by default: next to ten busy
/// processes, all nodes together would get about a tenth of the machine. With this they weigh as much as eight
/// processes.
const PROCESSES_WORTH: u32 = 8 * 1024;
/// Killed processes are gone within milliseconds, unless they are in the middle of a write to a slow disk.
const GONE_BOUND: Duration = Duration::from_secs(20);

/// The cgroups of one process of ours, and of its nodes.
#[derive(Debug)]
pub(super) struct Cgroups {
    owner: String,
}

impl Cgroups {
    /// The cgroups of this process, which need not exist yet.
    pub fn of_this_process() -> Result<Self, Error> {
        if !Path::new(HIERARCHIES).join(PROCESSES).is_dir() {
            return Err(Error::Io {
                what: "use cgroups of version 1, which real nodes have been tried with".into(),
                source: std::io::Error::from(std::io::ErrorKind::NotFound),
            });
        }
        // More than one cluster of a process may have a node of the same name.
        let secret = crate::files::random_secret()?;
        let pid = std::process::id();
        let start = start_of(pid).unwrap_or_default();
        Ok(Self { owner: format!("{PREFIX}{pid}-{start}-{}", &secret[..8]) })
    }

    /// The cgroup of a node, as a path below each hierarchy.
    pub fn of_node(&self, node: &str) -> String {
        format!("/{}/{node}", self.owner)
    }

    /// Makes a node's cgroups in every hierarchy, with the processors and the memory that the machine has.
    pub fn create(&self, node: &str) -> Result<(), Error> {
        for hierarchy in hierarchies() {
            let owner = hierarchy.join(&self.owner);
            fs::create_dir_all(&owner)
                .map_err(|source| Error::Io { what: format!("create {}", owner.display()), source })?;
            if owner.join(SHARES).exists() {
                fs::write(owner.join(SHARES), PROCESSES_WORTH.to_string()).map_err(|source| Error::Io {
                    what: format!("give {} processors", owner.display()),
                    source,
                })?;
            }
            for path in [owner.clone(), owner.join(node), owner.join(node).join("system")] {
                let failed = |source| Error::Io { what: format!("create {}", path.display()), source };
                fs::create_dir_all(&path).map_err(failed)?;
                for file in ["cpuset.cpus", "cpuset.mems"] {
                    // The one hierarchy with these files accepts no process in a cgroup where they are empty.
                    if path.join(file).exists() {
                        fs::read(hierarchy.join(file))
                            .and_then(|all| fs::write(path.join(file), all))
                            .map_err(failed)?;
                    }
                }
            }
        }
        Ok(())
    }

    /// The host's numbers of all processes of a node.
    pub fn processes(&self, node: &str) -> Vec<u32> {
        let mut found = Vec::new();
        let mut open = vec![Path::new(HIERARCHIES).join(PROCESSES).join(&self.owner).join(node)];
        while let Some(path) = open.pop() {
            let listed = fs::read_to_string(path.join("cgroup.procs")).unwrap_or_default();
            found.extend(listed.lines().filter_map(|line| line.parse::<u32>().ok()));
            open.extend(folders_in(&path));
        }
        found
    }

    /// The folders of a node that exist.
    pub fn folders(&self, node: &str) -> Vec<PathBuf> {
        let folders = hierarchies().into_iter().map(|hierarchy| hierarchy.join(&self.owner).join(node));
        folders.filter(|path| path.is_dir()).collect()
    }

    /// Waits until a node's processes, which have been killed, are gone; then removes its cgroups.
    pub fn remove_node(&self, node: &str) {
        let deadline = Instant::now() + GONE_BOUND;
        while !self.processes(node).is_empty() && Instant::now() < deadline {
            #[expect(
                clippy::disallowed_methods,
                reason = "destructors wait too, and there is no runtime then"
            )]
            std::thread::sleep(Duration::from_millis(5));
        }
        for hierarchy in hierarchies() {
            remove_tree(&hierarchy.join(&self.owner).join(node));
        }
    }

    /// Removes the remaining cgroups of this process.
    pub fn remove(&self) {
        for hierarchy in hierarchies() {
            remove_tree(&hierarchy.join(&self.owner));
        }
    }
}

/// Removes cgroups of processes that are gone.
pub(super) fn sweep() {
    for path in hierarchies().iter().flat_map(|hierarchy| folders_in(hierarchy)) {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if owner_is_gone(&name, start_of) {
            remove_tree(&path);
        }
    }
}

/// Whether a cgroup is ours and its process no longer runs. Process numbers are reused; the start time
/// distinguishes them.
fn owner_is_gone(name: &str, start_of: impl Fn(u32) -> Option<u64>) -> bool {
    let mut parts = name.strip_prefix(PREFIX).unwrap_or_default().split('-');
    let (Some(pid), Some(start)) =
        (parts.next().and_then(|pid| pid.parse().ok()), parts.next().and_then(|start| start.parse().ok()))
    else {
        return false;
    };
    start_of(pid) != Some(start)
}

/// When a process started, in ticks since the machine's boot.
fn start_of(pid: u32) -> Option<u64> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The second field is the program's name in brackets, which may hold anything; the 22nd is the start.
    stat.rsplit_once(')')?.1.split_whitespace().nth(19)?.parse().ok()
}

fn hierarchies() -> Vec<PathBuf> {
    folders_in(Path::new(HIERARCHIES))
}

fn folders_in(path: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(path).into_iter().flatten().flatten();
    entries
        .filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()))
        .map(|entry| entry.path())
        .collect()
}

/// A cgroup can be removed once it has neither processes nor cgroups in it. What cannot be removed stays for the next sweep.
fn remove_tree(path: &Path) {
    for folder in folders_in(path) {
        remove_tree(&folder);
    }
    let _ = fs::remove_dir(path);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_cgroups_of_processes_that_are_gone_are_swept() {
        let start_of = |pid| (pid == 7).then_some(100);
        for (name, expected) in [
            ("warpyard-7-100-ab12", false),
            ("warpyard-7-99-ab12", true),
            ("warpyard-8-100-ab12", true),
            ("warpyard-x-100", false),
            ("warpyard-7", false),
            ("kubepods", false),
            ("system.slice", false),
        ] {
            assert_eq!(owner_is_gone(name, start_of), expected, "{name}");
        }
    }

    #[test]
    fn a_process_knows_its_own_start() {
        let own = std::process::id();
        assert!(start_of(own).is_some_and(|start| start > 0));
        assert!(!owner_is_gone(&format!("{PREFIX}{own}-{}-x", start_of(own).unwrap()), start_of));
    }
}
