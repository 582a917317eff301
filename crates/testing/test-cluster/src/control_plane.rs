//! etcd, the API server, the controller-manager and, on request, kube-scheduler: their flags and readiness.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use kube::Client;
use toolbox::engine_bin;

use crate::etcd::Etcd;
use crate::kubeconfig::{self, Credential};
use crate::pki::{Authority, CertifiedKey, TokenKey};
use crate::process::{Process, ProcessSpec};
use crate::real_nodes::EGRESS_SOCKET;
use crate::slow_link::SlowLink;
use crate::{Error, files, ports};

/// A port found free may be taken before the server binds it; three in a row mean that something else is wrong.
const PORT_ATTEMPTS_MAX: usize = 3;
/// Ten times what a server needs on a loaded machine.
const READY_BOUND: Duration = Duration::from_mins(1);
/// Creating the default roles takes half of the API server's start; an admin needs none of them.
const SERVES_ADMINS: &str = "/readyz?exclude=poststarthook%2Frbac%2Fbootstrap-roles\
     &exclude=poststarthook%2Fscheduling%2Fbootstrap-system-priority-classes";
const POLL_INTERVAL: Duration = Duration::from_millis(25);

/// Where a cluster keeps its files.
#[derive(Clone, Debug)]
pub(crate) struct Layout {
    pub root: PathBuf,
    pub pki: PathBuf,
    pub logs: PathBuf,
    etcd: PathBuf,
}

impl Layout {
    pub fn create(root: &Path) -> Result<Self, Error> {
        let layout = Self {
            root: root.to_owned(),
            pki: root.join("pki"),
            logs: root.join("logs"),
            etcd: root.join("etcd"),
        };
        for dir in [&layout.pki, &layout.logs, &layout.etcd] {
            files::create_dir(dir)?;
        }
        Ok(layout)
    }

    /// The store, by its own socket.
    pub fn store(&self) -> Etcd {
        Etcd::at(self.etcd.join(ETCD_CLIENT_SOCKET))
    }

    /// The socket over which an API server reaches real nodes.
    pub fn egress_socket(&self) -> PathBuf {
        self.etcd.join(EGRESS_SOCKET)
    }

    /// Opens the link that can be slowed.
    pub fn open_slow_link(&self) -> Result<SlowLink, Error> {
        SlowLink::start(&self.etcd.join(ETCD_SLOW_SOCKET), self.etcd.join(ETCD_CLIENT_SOCKET))
    }
}

/// All certificates and keys of one cluster.
pub(crate) struct Identities {
    pub authority: Authority,
    pub server: CertifiedKey,
    pub token_key: TokenKey,
}

impl Identities {
    /// Makes the identities of one cluster, whose API server has `names` besides the usual ones.
    pub fn create(layout: &Layout, names: &[&str]) -> Result<Self, Error> {
        let authority = Authority::create(&layout.pki, "ca")?;
        let usual = ["127.0.0.1", "localhost", "kubernetes.default.svc"];
        Ok(Self {
            server: authority.sign_server("kube-apiserver", &[&usual, names].concat())?,
            token_key: TokenKey::create(&layout.pki)?,
            authority,
        })
    }

    /// Writes the kubeconfig of a component that logs in with a certificate.
    pub fn write_kubeconfig(
        &self,
        layout: &Layout,
        server: &str,
        file: &str,
        user: &str,
        group: Option<&str>,
    ) -> Result<PathBuf, Error> {
        let path = layout.root.join(format!("{file}.kubeconfig"));
        let signed = self.authority.sign_client(file, user, group)?;
        kubeconfig::write(&path, server, self.authority.cert(), user, &Credential::Certificate(&signed))?;
        Ok(path)
    }
}

/// etcd's sockets, as files in the directory that it and the API server run in. Only their owner may enter that, so
/// the store needs neither certificates nor ports. (The API server opens some 200 connections to it: with TLS, that
/// was a third of the processor time of a start.) The names look like host and port because etcd requires that;
/// they are relative because a socket's path may have at most 107 bytes.
const ETCD_CLIENT_SOCKET: &str = "client:1";
/// The same store, over a link that can be slowed.
const ETCD_SLOW_SOCKET: &str = "slow:1";
const ETCD_PEER_SOCKET: &str = "peer:1";

/// Starts etcd, and returns once it accepts connections.
pub(crate) async fn start_etcd(layout: &Layout) -> Result<Process, Error> {
    let data = layout.etcd.join("data");
    // A directory that was given may hold an earlier cluster.
    let _ = std::fs::remove_dir_all(&data);
    for socket in [ETCD_CLIENT_SOCKET, ETCD_PEER_SOCKET] {
        let _ = std::fs::remove_file(layout.etcd.join(socket));
    }
    let (client, peer) = (format!("unix://{ETCD_CLIENT_SOCKET}"), format!("unix://{ETCD_PEER_SOCKET}"));
    let spec = ProcessSpec::new("etcd", engine_bin::find("etcd")?)
        .current_dir(&layout.etcd)
        .path_arg("data-dir", &data)
        .arg(format!("--listen-client-urls={client}"))
        .arg(format!("--advertise-client-urls={client}"))
        .arg(format!("--listen-peer-urls={peer}"))
        .arg(format!("--initial-advertise-peer-urls={peer}"))
        .arg(format!("--initial-cluster=default={peer}"))
        .args(["--unsafe-no-fsync", "--log-level=warn"]);
    let mut process = Process::spawn(spec, &layout.logs)?;
    let socket = layout.etcd.join(ETCD_CLIENT_SOCKET);
    until_ready(&mut process, async || socket.exists()).await?;
    Ok(process)
}

pub(crate) struct ApiServer {
    pub process: Process,
    pub plan: ApiServerPlan,
    pub admin_kubeconfig: PathBuf,
    pub admin: Client,
}

/// The input to start an API server again.
#[derive(Clone, Debug)]
pub(crate) struct ApiServerPlan {
    pub name: String,
    pub port: u16,
    /// Whether it reads the store over the link that can be slowed.
    pub by_slow_link: bool,
    /// The file of users and tokens.
    pub users: PathBuf,
    pub flags: Vec<String>,
}

impl ApiServerPlan {
    pub fn url(&self) -> String {
        format!("https://{}", self.address())
    }

    pub fn address(&self) -> SocketAddr {
        SocketAddr::from((Ipv4Addr::LOCALHOST, self.port))
    }
}

/// Starts an API server on a free port, and returns once it serves an admin. Its default roles may be
/// incomplete, so other users must wait for [`wait_until_complete`].
pub(crate) async fn start_api_server(
    layout: &Layout,
    identities: &Identities,
    plan: ApiServerPlan,
) -> Result<ApiServer, Error> {
    let (_, server) = on_free_port(async |port| {
        let plan = ApiServerPlan { port, ..plan.clone() };
        let file = plan.name.replace("kube-apiserver", "admin");
        let admin_kubeconfig =
            identities.write_kubeconfig(layout, &plan.url(), &file, "admin", Some("system:masters"))?;
        let admin = kubeconfig::client(&admin_kubeconfig).await?;
        let process = spawn_api_server(layout, identities, &plan, &admin).await?;
        Ok(ApiServer { process, plan, admin_kubeconfig, admin })
    })
    .await?;
    Ok(server)
}

/// Starts an API server as planned, and returns once it serves this admin.
pub(crate) async fn spawn_api_server(
    layout: &Layout,
    identities: &Identities,
    plan: &ApiServerPlan,
    admin: &Client,
) -> Result<Process, Error> {
    let mut process = Process::spawn(api_server_spec(layout, identities, plan)?, &layout.logs)?;
    until_ready(&mut process, async || is_ready(admin, SERVES_ADMINS).await).await?;
    Ok(process)
}

/// Waits until the API server says that it is ready in every respect.
pub(crate) async fn wait_until_complete(admin: &Client) -> Result<(), Error> {
    let deadline = Instant::now() + READY_BOUND;
    while !is_ready(admin, "/readyz").await {
        if Instant::now() >= deadline {
            return Err(Error::NotInTime { what: "the API server to be ready".into(), bound: READY_BOUND });
        }
        tokio::time::sleep(POLL_INTERVAL).await;
    }
    Ok(())
}

fn api_server_spec(
    layout: &Layout,
    identities: &Identities,
    plan: &ApiServerPlan,
) -> Result<ProcessSpec, Error> {
    let socket = if plan.by_slow_link { ETCD_SLOW_SOCKET } else { ETCD_CLIENT_SOCKET };
    let spec = ProcessSpec::new(&plan.name, engine_bin::find("kube-apiserver")?)
        .current_dir(&layout.etcd)
        .arg(format!("--etcd-servers=unix://{socket}"))
        .args(["--bind-address=127.0.0.1", "--advertise-address=127.0.0.1"])
        .arg(format!("--secure-port={}", plan.port))
        // Endpoints of the `kubernetes` Service may not be loopback addresses, and nothing here uses them.
        .arg("--endpoint-reconciler-type=none")
        .path_arg("tls-cert-file", &identities.server.cert)
        .path_arg("tls-private-key-file", &identities.server.key)
        .path_arg("client-ca-file", identities.authority.cert())
        .path_arg("service-account-key-file", &identities.token_key.public)
        .path_arg("service-account-signing-key-file", &identities.token_key.private)
        .arg("--service-account-issuer=https://kubernetes.default.svc")
        .path_arg("token-auth-file", &plan.users)
        .args(["--anonymous-auth=false", "--authorization-mode=Node,RBAC"])
        // Fake nodes are ready when they are created; this plugin would taint each until the controller-manager had
        // looked at it, which takes it half a minute for a thousand.
        .arg("--disable-admission-plugins=TaintNodesByCondition")
        .args(["--enable-admission-plugins=NodeRestriction", "--service-cluster-ip-range=10.96.0.0/16"])
        .arg("--profiling=false")
        // Saves the tenth of its processor time that the garbage collector took, for some hundred megabytes:
        // tests lack cores.
        .env("GOGC", "400")
        .args(&plan.flags);
    Ok(spec)
}

/// Starts the controller-manager; the caller waits for the objects that it makes.
pub(crate) fn start_controller_manager(
    layout: &Layout,
    identities: &Identities,
    url: &str,
    extra_flags: &[String],
) -> Result<Process, Error> {
    let name = "kube-controller-manager";
    let kubeconfig =
        identities.write_kubeconfig(layout, url, name, "system:kube-controller-manager", None)?;
    let spec = ProcessSpec::new(name, engine_bin::find(name)?)
        .path_arg("kubeconfig", &kubeconfig)
        .path_arg("service-account-private-key-file", &identities.token_key.private)
        .path_arg("root-ca-file", identities.authority.cert())
        // As in production, each controller has only the rights of its own role.
        .args(["--use-service-account-credentials=true", "--leader-elect=false"])
        // No port of its own.
        .args(["--bind-address=127.0.0.1", "--secure-port=0"])
        // Well above upstream's 20 per second, so that tests wait for our code only.
        .args(["--kube-api-qps=500", "--kube-api-burst=1000"])
        .args(extra_flags);
    Process::spawn(spec, &layout.logs)
}

/// Starts kube-scheduler with at most `qps` requests per second.
pub(crate) fn start_kube_scheduler(
    layout: &Layout,
    identities: &Identities,
    url: &str,
    qps: u32,
) -> Result<Process, Error> {
    let name = "kube-scheduler";
    let kubeconfig = identities.write_kubeconfig(layout, url, name, "system:kube-scheduler", None)?;
    let config = serde_json::json!({
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "clientConnection": { "kubeconfig": kubeconfig, "qps": qps, "burst": qps.saturating_mul(2) },
        "leaderElection": { "leaderElect": false },
    });
    let path = layout.root.join("kube-scheduler.yaml");
    files::write_private(&path, config.to_string().as_bytes())?;
    let spec = ProcessSpec::new(name, engine_bin::find(name)?)
        .path_arg("config", &path)
        .args(["--bind-address=127.0.0.1", "--secure-port=0"]);
    Process::spawn(spec, &layout.logs)
}

async fn is_ready(admin: &Client, path: &str) -> bool {
    let request = http::Request::get(path).body(Vec::new()).expect("a constant request is well formed");
    // The certificate is checked against the cluster's own authority, so a stranger on the port is never "ready".
    admin.request_text(request).await.is_ok_and(|answer| answer == "ok")
}

/// Runs `start` with a free port, and again with another if the server found it taken.
async fn on_free_port<T>(start: impl AsyncFn(u16) -> Result<T, Error>) -> Result<(u16, T), Error> {
    let mut attempts = 0;
    loop {
        attempts += 1;
        let port = ports::free_port()?;
        match start(port).await {
            Ok(started) => return Ok((port, started)),
            Err(Error::Ended { log, .. })
                if attempts < PORT_ATTEMPTS_MAX && log.contains("address already in use") => {}
            Err(error) => return Err(error),
        }
    }
}

/// Waits until `ready` holds; a server that ends before that is an error with the end of its log.
async fn until_ready(process: &mut Process, ready: impl AsyncFn() -> bool) -> Result<(), Error> {
    let deadline = Instant::now() + READY_BOUND;
    loop {
        if let Some(status) = process.exit_status() {
            return Err(Error::Ended { name: process.name().to_owned(), status, log: process.log_tail() });
        }
        // A connection to a server that is stuck must not outlast the bound.
        if tokio::time::timeout(READY_BOUND, ready()).await.unwrap_or(false) {
            return Ok(());
        }
        if Instant::now() >= deadline {
            let error = io::Error::new(io::ErrorKind::TimedOut, process.log_tail());
            return Err(Error::Io {
                what: format!("wait {READY_BOUND:?} for {}", process.name()),
                source: error,
            });
        }
        tokio::time::sleep(POLL_INTERVAL).await;
    }
}
