//! Finds programs of the distribution that tests need.

use std::fs;
use std::path::{Path, PathBuf};

/// Whether `path` is a file that may be executed.
pub fn is_executable(path: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt;
    path.metadata().is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o111 != 0)
}

/// The program of this name on the search path, if there is one.
pub fn on_path(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).map(|folder| folder.join(program)).find(|path| is_executable(path))
}

/// The folder of PostgreSQL's programs: Debian's newest, else the one on the search path.
pub fn postgres() -> Option<PathBuf> {
    let mut versions: Vec<(u32, PathBuf)> = fs::read_dir("/usr/lib/postgresql")
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|entry| Some((entry.file_name().to_str()?.parse().ok()?, entry.path().join("bin"))))
        .collect();
    versions.sort();
    let search_path = std::env::var_os("PATH").unwrap_or_default();
    let installed = versions.into_iter().rev().map(|(_, bin)| bin);
    installed.chain(std::env::split_paths(&search_path)).find(|folder| {
        ["initdb", "postgres", "psql", "pg_isready"].iter().all(|name| folder.join(name).is_file())
    })
}

/// The network plugin of pods on real nodes.
pub const BRIDGE: &str = "bridge";

/// The search path of a real node: root's, which the caller's may not be.
pub const NODE_PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// The folders in which distributions and upstream put network plugins.
const PLUGINS: &str = "/usr/lib/cni:/opt/cni/bin:/usr/libexec/cni";

/// The path of a program that real nodes need, on their search path.
pub fn of_real_nodes(program: &str) -> Option<PathBuf> {
    // iproute2 has a program called `bridge` too.
    let path = if program == BRIDGE { PLUGINS } else { NODE_PATH };
    std::env::split_paths(path).map(|folder| folder.join(program)).find(|path| is_executable(path))
}
