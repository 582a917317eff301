//! A real Kubernetes control plane with fake GPU nodes, on loopback, for tests and for `cargo xtask dev`.
//!
//! ```text
//!   Builder ─► pki ─► etcd ─► kube-apiserver ─┬─► CRDs, deploy/ ────────────┐
//!                                             ├─► controller-manager ──────►├─► TestCluster: admin client, logins
//!                                             ├─► KWOK, fake nodes ────────►│
//!                                             ├─► real nodes, if asked for ►│
//!                                             └─► Karpenter, if asked for ──┘
//! ```
//!
//! RBAC is on, and the certificates come from a CA made for this one cluster. The API server listens only on
//! 127.0.0.1, etcd on a socket in a private directory, and the others nowhere. Any number of clusters run side
//! by side. No server outlives the process that started it, however that ends (see [`process`]). Real nodes
//! (see [`RealNode`]) are in namespaces of their own and need root; nothing else does.
//!
//! This crate never builds a server (`cargo xtask engine` does), never writes outside the cluster's directory, and
//! never touches another cluster: it ignores `KUBECONFIG`.
//!
//! ```no_run
//! # async fn example() -> Result<(), test_cluster::Error> {
//! use test_cluster::{FakeNodes, TestCluster};
//!
//! let cluster = TestCluster::builder()
//!     .nodes(FakeNodes { count: 4, racks: 2, ..FakeNodes::default() })
//!     .user("alice", &["vision"])
//!     .start()
//!     .await?;
//! let admin = cluster.admin_client();
//! let scheduler = cluster.kubeconfig_for_service_account("warpyard-system", "warpyard-scheduler").await?;
//! let alice = cluster.token_for_user("alice")?;
//! cluster.stop().await;
//! # Ok(()) }
//! ```

mod cluster;
mod control_plane;
pub mod etcd;
pub mod fault_proxy;
mod faults;
pub mod files;
mod identities;
mod install;
pub mod karpenter;
mod kubeconfig;
mod kwok;
mod nodes;
mod pki;
pub mod platform;
mod ports;
pub mod postgres;
pub mod process;
pub mod python;
mod real_nodes;
mod slow_link;

use std::process::ExitStatus;
use std::time::Duration;

use toolbox::engine_bin;

pub use cluster::{Builder, TestCluster};
pub use identities::{ServiceAccountLogin, User};
pub use nodes::FakeNodes;
pub use ports::free_port;
pub use real_nodes::{BUSYBOX_IMAGE, ExposedByTls, MACHINE_IMAGE, RealMachine, RealNode};

/// Why a cluster could not be started or used.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A server's binary is missing.
    #[error(transparent)]
    EngineBin(#[from] engine_bin::Error),
    /// The tool that ends servers together with our process is missing.
    #[error(
        "setpriv is not installed, and without it servers could outlive a killed test\n\nhint: install the package util-linux"
    )]
    NoSetpriv,
    /// Real nodes need root, for namespaces and cgroups.
    #[error("real nodes need root\n\nhint: run this as root; no other test needs it")]
    NotRoot,
    /// A program that real nodes are made of is missing.
    #[error(
        "{program} is not installed\n\nhint: run `cargo xtask packages`, or install the package {package}"
    )]
    NoProgram {
        /// The program looked for.
        program: &'static str,
        /// Its package in Debian.
        package: &'static str,
    },
    /// The SDK's Python environment is missing.
    #[error("there is no Python environment in {}\n\nhint: run `cargo xtask python`", place.display())]
    NoPython {
        /// Where it would be.
        place: std::path::PathBuf,
    },
    /// The database's programs are missing.
    #[error("PostgreSQL is not installed: no {program} was found\n\nhint: install the package postgresql")]
    NoPostgres {
        /// The program looked for.
        program: String,
    },
    /// A certificate could not be made.
    #[error("cannot make a certificate")]
    Certificate(#[from] rcgen::Error),
    /// An operation on a file, port or process failed.
    #[error("cannot {what}")]
    Io {
        /// What was attempted.
        what: String,
        /// Why it failed.
        source: std::io::Error,
    },
    /// A server ended by itself.
    #[error("{name} ended ({status}); its last words:\n{log}")]
    Ended {
        /// The server.
        name: String,
        /// How it ended.
        status: ExitStatus,
        /// The end of its log.
        log: String,
    },
    /// A kubeconfig could not be used.
    #[error("cannot {what}")]
    Kubeconfig {
        /// What was attempted.
        what: String,
        /// Why it failed.
        source: kube::config::KubeconfigError,
    },
    /// The API server refused or did not answer.
    #[error("cannot {what}")]
    Kube {
        /// What was attempted.
        what: String,
        /// Why it failed.
        source: kube::Error,
    },
    /// A file in `deploy/` is wrong.
    #[error("cannot {what}: {why}")]
    Manifest {
        /// What was attempted.
        what: String,
        /// Why it failed.
        why: String,
    },
    /// Something took too long.
    #[error("waited {bound:?} in vain for {what}")]
    NotInTime {
        /// The awaited event.
        what: String,
        /// The bound.
        bound: Duration,
    },
    /// The user was not added to the builder.
    #[error(
        "the cluster has no user {name:?}\n\nhint: the API server reads its users at start: name them with `Builder::user`"
    )]
    NoSuchUser {
        /// The name asked for.
        name: String,
    },
    /// One of our processes did not log the awaited line.
    #[error("{process} did not log {message:?}; its last words:\n{tail}")]
    NoSuchLine {
        /// The process.
        process: String,
        /// The message waited for.
        message: String,
        /// The end of its log.
        tail: String,
    },
    /// The cluster was started without this server.
    #[error("the cluster runs no {name}")]
    NotRunning {
        /// The server.
        name: String,
    },
}
