//! Finds the real servers: one table of them, and the cache they are built into.
//!
//! `cargo xtask engine` fills the cache from the same table; this module builds nothing. To add a server, add a
//! module directory with its pins under `engine/` and a line to [`SERVERS`].

use std::path::PathBuf;
use std::process::Command;

use sha2::{Digest, Sha256};

use crate::checkout::repository_root;
use crate::programs::is_executable;

/// A server of the engine: how it is built, which also decides its place in the cache.
#[derive(Debug)]
pub struct Server {
    /// The binary's name.
    pub name: &'static str,
    /// The directory under `engine/` that holds its `go.mod` and `go.sum`.
    pub module: &'static str,
    /// The Go package of its `main`.
    pub package: &'static str,
    /// Flags for Go's linker.
    pub ldflags: &'static str,
    /// Whether the program's own source is in that directory: then its place depends on the source too, and a
    /// given directory cannot provide it.
    pub is_ours: bool,
}

/// Clients fail to parse the version of an unstamped build, and kubectl warns of skew.
const KUBERNETES_LDFLAGS: &str = "-s -w -X k8s.io/component-base/version.gitVersion=v1.36.3 \
     -X k8s.io/component-base/version.gitMajor=1 -X k8s.io/component-base/version.gitMinor=36 \
     -X k8s.io/component-base/version.gitTreeState=clean";

const fn kubernetes(name: &'static str, package: &'static str) -> Server {
    Server { name, module: "kubernetes", package, ldflags: KUBERNETES_LDFLAGS, is_ours: false }
}

/// Every server of the engine, in the order in which they are built: the API server's packages serve the others.
pub const SERVERS: &[Server] = &[
    Server {
        name: "etcd",
        module: "etcd",
        package: "go.etcd.io/etcd/server/v3",
        ldflags: "-s -w",
        is_ours: false,
    },
    kubernetes("kube-apiserver", "k8s.io/kubernetes/cmd/kube-apiserver"),
    kubernetes("kube-controller-manager", "k8s.io/kubernetes/cmd/kube-controller-manager"),
    kubernetes("kube-scheduler", "k8s.io/kubernetes/cmd/kube-scheduler"),
    kubernetes("kubectl", "k8s.io/kubernetes/cmd/kubectl"),
    Server {
        name: "kwok",
        module: "kwok",
        package: "sigs.k8s.io/kwok/cmd/kwok",
        ldflags: "-s -w",
        is_ours: false,
    },
    // Upstream's controllers around a cloud of ours.
    Server {
        name: "karpenter",
        module: "karpenter",
        package: "warpyard.dev/engine/karpenter",
        ldflags: "-s -w -X sigs.k8s.io/karpenter/pkg/operator.Version=1.14.1",
        is_ours: true,
    },
    // Real nodes: their kubelet, with pins of its own, their GPUs and their DNS.
    Server { module: "kubelet", ..kubernetes("kubelet", "k8s.io/kubernetes/cmd/kubelet") },
    Server {
        name: "gpu-plugin",
        module: "gpu-plugin",
        package: "warpyard.dev/engine/gpu-plugin",
        ldflags: "-s -w",
        is_ours: true,
    },
    Server {
        name: "cluster-dns",
        module: "cluster-dns",
        package: "warpyard.dev/engine/cluster-dns",
        ldflags: "-s -w",
        is_ours: true,
    },
    // Not a server: it judges nodes with kube-scheduler's plugins, for `filter-fuzz`. One plugin needs the
    // version stamp.
    Server {
        name: "filter-oracle",
        module: "filter-oracle",
        package: "warpyard.dev/engine/filter-oracle",
        ldflags: KUBERNETES_LDFLAGS,
        is_ours: true,
    },
];

/// Names a directory with the developer's own binaries, used instead of the cache.
pub const GIVEN_BINARIES_VARIABLE: &str = "WARPYARD_ENGINE_BIN";
/// Names the cache; the default is `warpyard/engine` in the user's cache directory.
pub const CACHE_VARIABLE: &str = "WARPYARD_ENGINE_CACHE";

/// A server's binary could not be found.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// It was never built.
    #[error("{name} is not built: there is no {}\n\nhint: run `cargo xtask engine`, or set {GIVEN_BINARIES_VARIABLE} to a directory that holds release binaries", path.display())]
    NotBuilt {
        /// The server.
        name: &'static str,
        /// Where it would be.
        path: PathBuf,
    },
    /// The developer's own directory lacks it.
    #[error("{GIVEN_BINARIES_VARIABLE} names {}, which holds no executable file {name}\n\nhint: put {name} there, or unset the variable and run `cargo xtask engine`", dir.display())]
    NotGiven {
        /// The server.
        name: &'static str,
        /// The directory.
        dir: PathBuf,
    },
    /// The table has no such server.
    #[error("the engine has no server {name:?}; it has {}", SERVERS.iter().map(|server| server.name).collect::<Vec<_>>().join(", "))]
    Unknown {
        /// The name asked for.
        name: String,
    },
    /// Go is needed to know which build of a server is meant.
    #[error(
        "cannot run `go version`\n\nhint: install Go {GO_VERSION_MIN} or newer, or set {GIVEN_BINARIES_VARIABLE} to a directory that holds release binaries"
    )]
    NoGo(#[source] std::io::Error),
    /// A pin could not be read.
    #[error("cannot read {}", path.display())]
    Pins {
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// Neither the cache variable, nor `XDG_CACHE_HOME`, nor `HOME` is set.
    #[error("no place for the engine's cache\n\nhint: set {CACHE_VARIABLE} to a directory")]
    NoCache,
}

/// The oldest Go that builds the engine, as the `go` lines of `engine/*/go.mod` say.
pub const GO_VERSION_MIN: &str = "1.26";

impl Server {
    /// The server called `name`.
    pub fn named(name: &str) -> Result<&'static Self, Error> {
        SERVERS
            .iter()
            .find(|server| server.name == name)
            .ok_or_else(|| Error::Unknown { name: name.to_owned() })
    }

    /// The directory of its pins.
    pub fn module_dir(&self) -> PathBuf {
        repository_root().join("engine").join(self.module)
    }

    /// The place of the build with this Go in the cache: the name covers everything that the binary depends on.
    pub fn cached_path(&self, go_version: &str) -> Result<PathBuf, Error> {
        let mut hash = Sha256::new();
        let mut files = vec![self.module_dir().join("go.mod"), self.module_dir().join("go.sum")];
        if self.is_ours {
            files.extend(self.sources()?);
        }
        for path in files {
            hash.update(std::fs::read(&path).map_err(|source| Error::Pins { path, source })?);
            hash.update([0]);
        }
        for text in [self.package, self.ldflags, go_version] {
            hash.update(text);
            hash.update([0]);
        }
        let digest = hash.finalize();
        // 64 bits are plenty to keep a few builds of one server apart.
        let key: String = digest[..8].iter().fold(String::new(), |key, byte| key + &format!("{byte:02x}"));
        Ok(cache_dir()?.join(format!("{}-{key}", self.name)))
    }

    /// The Go files next to the pins, in order of their names.
    fn sources(&self) -> Result<Vec<PathBuf>, Error> {
        let dir = self.module_dir();
        let failed = |source| Error::Pins { path: dir.clone(), source };
        let mut paths = Vec::new();
        for entry in std::fs::read_dir(&dir).map_err(failed)? {
            paths.push(entry.map_err(failed)?.path());
        }
        paths.retain(|path| path.extension().is_some_and(|extension| extension == "go"));
        paths.sort();
        Ok(paths)
    }

    /// The binary to run: the developer's own if they gave a directory that can have it, else the cached build.
    pub fn find(&'static self) -> Result<PathBuf, Error> {
        if let Some(dir) = given_dir().filter(|_| !self.is_ours) {
            let path = dir.join(self.name);
            return if is_executable(&path) {
                Ok(path)
            } else {
                Err(Error::NotGiven { name: self.name, dir })
            };
        }
        let path = self.cached_path(&go_version()?)?;
        if is_executable(&path) { Ok(path) } else { Err(Error::NotBuilt { name: self.name, path }) }
    }
}

/// The binary of the server called `name`.
pub fn find(name: &str) -> Result<PathBuf, Error> {
    Server::named(name)?.find()
}

/// The developer's directory of binaries, if one is set.
pub fn given_dir() -> Option<PathBuf> {
    // Absolute, because servers run in directories of their own.
    non_empty_variable(GIVEN_BINARIES_VARIABLE).map(|dir| std::path::absolute(&dir).unwrap_or(dir))
}

/// The directory that holds built servers; it may not exist yet.
pub fn cache_dir() -> Result<PathBuf, Error> {
    non_empty_variable(CACHE_VARIABLE)
        .or_else(|| non_empty_variable("XDG_CACHE_HOME").map(|dir| dir.join("warpyard/engine")))
        .or_else(|| non_empty_variable("HOME").map(|dir| dir.join(".cache/warpyard/engine")))
        .ok_or(Error::NoCache)
}

/// What `go version` prints: compiler, release and platform, each of which changes the binary.
pub fn go_version() -> Result<String, Error> {
    let output = Command::new("go")
        .arg("version")
        .env("GOTOOLCHAIN", "local")
        .current_dir(repository_root())
        .output()
        .map_err(Error::NoGo)?;
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

fn non_empty_variable(name: &str) -> Option<PathBuf> {
    std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_server_has_pins() {
        for server in SERVERS {
            for file in ["go.mod", "go.sum"] {
                assert!(server.module_dir().join(file).is_file(), "{} has no {file}", server.name);
            }
        }
    }

    #[test]
    fn the_oldest_go_is_what_the_pins_say() {
        for server in SERVERS {
            let go_mod = std::fs::read_to_string(server.module_dir().join("go.mod")).unwrap();
            let line = format!("go {GO_VERSION_MIN}");
            assert!(
                go_mod.lines().any(|found| found.starts_with(&line)),
                "{}: no line {line:?}",
                server.name
            );
        }
    }

    #[test]
    fn a_build_moves_in_the_cache_with_the_compiler_the_package_and_the_flags() {
        let etcd = Server::named("etcd").unwrap();
        let path = |server: &Server, go| server.cached_path(go).unwrap();
        assert_eq!(path(etcd, "go1"), path(etcd, "go1"));
        assert_ne!(path(etcd, "go1"), path(etcd, "go2"));
        assert_ne!(path(etcd, "go1"), path(&Server { ldflags: "-s", ..*etcd }, "go1"));
        assert_ne!(path(etcd, "go1"), path(&Server { package: "example.com/other", ..*etcd }, "go1"));
    }

    #[test]
    fn an_unknown_server_is_answered_with_the_known_ones() {
        let message = Server::named("kublet").unwrap_err().to_string();
        assert!(message.contains("kublet") && message.contains("kube-apiserver"), "{message}");
    }

    #[test]
    fn the_kubernetes_stamp_is_the_pinned_version() {
        for server in ["kubectl", "kubelet", "filter-oracle"] {
            let pins = Server::named(server).unwrap().module_dir().join("go.mod");
            let go_mod = std::fs::read_to_string(pins).unwrap();
            let pinned = go_mod
                .lines()
                .find_map(|line| line.trim_start_matches("require").trim().strip_prefix("k8s.io/kubernetes "))
                .expect("go.mod requires k8s.io/kubernetes");
            assert!(
                KUBERNETES_LDFLAGS.contains(&format!("gitVersion={pinned} ")),
                "{server} is stamped otherwise than {pinned}"
            );
        }
    }

    #[test]
    fn karpenters_stamp_is_the_pinned_version() {
        let karpenter = Server::named("karpenter").unwrap();
        let go_mod = std::fs::read_to_string(karpenter.module_dir().join("go.mod")).unwrap();
        let pinned = go_mod
            .lines()
            .find_map(|line| {
                line.trim_start_matches("require").trim().strip_prefix("sigs.k8s.io/karpenter v")
            })
            .expect("go.mod requires sigs.k8s.io/karpenter");
        assert!(karpenter.ldflags.ends_with(&format!("operator.Version={pinned}")), "{pinned}");
    }
}
