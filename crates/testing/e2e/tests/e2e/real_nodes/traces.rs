//! Finds what nodes may leave behind on the host: processes, namespaces, mounts, links.

use std::collections::BTreeSet;
use std::fs;

use test_cluster::RealMachine;

/// The processes of these nodes and their pods, each as its number and start: numbers are used again.
pub fn processes_of(machines: &[RealMachine]) -> BTreeSet<String> {
    machines.iter().flat_map(RealMachine::processes).filter_map(identity_of).collect()
}

/// All processes of the host, named likewise. A zombie is as good as gone.
pub fn processes_alive() -> anyhow::Result<BTreeSet<String>> {
    Ok(numbers()?.into_iter().filter_map(identity_of).collect())
}

/// The processes that this one has started, named likewise.
pub fn children_of(parent: u32) -> anyhow::Result<BTreeSet<String>> {
    let of_parent = |pid: &u32| Stat::of(*pid).is_some_and(|stat| stat.parent == parent);
    Ok(numbers()?.into_iter().filter(of_parent).filter_map(identity_of).collect())
}

/// The namespaces that processes of these nodes are in and the host is not.
pub fn namespaces_of(machines: &[RealMachine]) -> BTreeSet<String> {
    let ours = namespaces(std::process::id());
    let theirs = machines.iter().flat_map(RealMachine::processes).flat_map(namespaces);
    theirs.filter(|namespace| !ours.contains(namespace)).collect()
}

/// All namespaces that a process is in, zombies aside.
pub fn namespaces_alive() -> anyhow::Result<BTreeSet<String>> {
    let alive = numbers()?.into_iter().filter(|pid| identity_of(*pid).is_some());
    Ok(alive.flat_map(namespaces).collect())
}

/// The host's mounts.
pub fn mounts() -> anyhow::Result<BTreeSet<String>> {
    Ok(fs::read_to_string("/proc/self/mountinfo")?.lines().map(str::to_owned).collect())
}

/// The host's links.
pub fn links() -> anyhow::Result<BTreeSet<String>> {
    let entries = fs::read_dir("/sys/class/net")?.flatten();
    Ok(entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect())
}

fn numbers() -> anyhow::Result<Vec<u32>> {
    let entries = fs::read_dir("/proc")?.flatten();
    Ok(entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect())
}

fn namespaces(pid: u32) -> Vec<String> {
    let link = |kind| fs::read_link(format!("/proc/{pid}/ns/{kind}")).ok();
    let links = ["net", "mnt", "pid", "uts", "ipc"].into_iter().filter_map(link);
    links.map(|link| link.display().to_string()).collect()
}

fn identity_of(pid: u32) -> Option<String> {
    Stat::of(pid).filter(|stat| stat.state != "Z").map(|stat| format!("{pid} since {}", stat.since))
}

/// What the kernel says of a process.
struct Stat {
    state: String,
    parent: u32,
    since: String,
}

impl Stat {
    fn of(pid: u32) -> Option<Self> {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        // After the program's name in brackets: the state, the parent, and 18 fields later the start.
        let mut fields = stat.rsplit_once(')')?.1.split_whitespace();
        let (state, parent) = (fields.next()?.to_owned(), fields.next()?.parse().ok()?);
        Some(Self { state, parent, since: fields.nth(17)?.to_owned() })
    }
}
