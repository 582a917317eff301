//! The public interface of a cluster: how to build, use and stop it.

use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicUsize;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use api_types::names;
use k8s_openapi::api::core::v1::ServiceAccount;
use kube::api::Api;
use kube::{Client, ResourceExt};
use nix::sys::signal::Signal;
use tempfile::TempDir;
use toolbox::checkout::repository_root;
use toolbox::engine_bin;

use crate::control_plane::{self, ApiServer, ApiServerPlan, Identities, Layout};
use crate::identities::{self, ServiceAccountLogin, User};
use crate::karpenter::{Karpenter, KarpenterSettings};
use crate::kubeconfig::{self, Credential};
use crate::nodes::{self, FakeNodes};
use crate::process::Process;
use crate::real_nodes::RealNodes;
use crate::slow_link::SlowLink;
use crate::{Error, files, install, kwok};

/// Set to anything to keep a cluster's directory, with all logs, after it ended.
const KEEP_VARIABLE: &str = "WARPYARD_KEEP_CLUSTER";

/// Describes a cluster to be started.
#[derive(Debug)]
#[expect(clippy::struct_excessive_bools, reason = "each says whether one part is there")]
pub struct Builder {
    dir: Option<PathBuf>,
    nodes: Vec<FakeNodes>,
    users: Vec<(String, Vec<String>)>,
    controller_manager: bool,
    kwok: bool,
    install: bool,
    node_lease_seconds: u32,
    api_server_flags: Vec<String>,
    api_servers: usize,
    controller_manager_flags: Vec<String>,
    real_nodes: bool,
    karpenter: Option<Box<KarpenterSettings>>,
}

impl Builder {
    /// Keeps the cluster's files in `dir`, which is not removed afterwards. Without it, a temporary directory.
    #[must_use]
    pub fn dir(mut self, dir: impl Into<PathBuf>) -> Self {
        self.dir = Some(dir.into());
        self
    }

    /// Adds a group of fake nodes.
    #[must_use]
    pub fn nodes(mut self, nodes: FakeNodes) -> Self {
        self.nodes.push(nodes);
        self
    }

    /// Adds a user who logs in with a token; RBAC decides their rights.
    #[must_use]
    pub fn user(mut self, name: &str, groups: &[&str]) -> Self {
        self.users.push((name.to_owned(), groups.iter().map(ToString::to_string).collect()));
        self
    }

    /// Leaves out the controller-manager: no Jobs, no garbage collection, no `default` service accounts.
    #[must_use]
    pub fn without_controller_manager(mut self) -> Self {
        self.controller_manager = false;
        self
    }

    /// Leaves out KWOK: bound pods stay Pending, and the controller-manager, if there is one, declares nodes
    /// dead after its grace period.
    #[must_use]
    pub fn without_kwok(mut self) -> Self {
        self.kwok = false;
        self
    }

    /// Leaves out the custom resources and `deploy/`.
    #[must_use]
    pub fn without_install(mut self) -> Self {
        self.install = false;
        self
    }

    /// Prepares for nodes with a real kubelet, which [`TestCluster::add_real_node`] adds. This needs root.
    #[must_use]
    pub fn real_nodes(mut self) -> Self {
        self.real_nodes = true;
        self
    }

    /// Adds Karpenter with a cloud that can misbehave: [`TestCluster::karpenter`].
    #[must_use]
    pub fn karpenter(mut self, settings: KarpenterSettings) -> Self {
        self.karpenter = Some(Box::new(settings));
        self
    }

    /// How long a node's lease lasts; KWOK and kubelets renew it four times as often. 40 as with a kubelet; 400
    /// in benchmarks, so that renewals are not the load.
    #[must_use]
    pub fn node_lease_seconds(mut self, seconds: u32) -> Self {
        self.node_lease_seconds = seconds;
        self
    }

    /// Adds a flag of the API server, for example `--max-requests-inflight=2000`.
    #[must_use]
    pub fn api_server_flag(mut self, flag: impl Into<String>) -> Self {
        self.api_server_flags.push(flag.into());
        self
    }

    /// Stores pods and nodes as JSON, so that [`TestCluster::etcd`] can be read. In production they are protobuf.
    #[must_use]
    pub fn readable_store(self) -> Self {
        self.api_server_flag("--storage-media-type=application/json")
    }

    /// How many API servers share the store. All but the first read it over a link that
    /// [`TestCluster::delay_store`] slows.
    #[must_use]
    pub fn api_servers(mut self, count: usize) -> Self {
        self.api_servers = count.max(1);
        self
    }

    /// Adds a flag of the controller-manager, for example `--node-monitor-grace-period=20s`.
    #[must_use]
    pub fn controller_manager_flag(mut self, flag: impl Into<String>) -> Self {
        self.controller_manager_flags.push(flag.into());
        self
    }

    /// Starts the cluster; it is ready when this returns. If it fails, the directory with the logs is kept.
    pub async fn start(self) -> Result<TestCluster, Error> {
        let started = Instant::now();
        for name in ["etcd", "kube-apiserver", "kube-controller-manager", "kwok"] {
            engine_bin::find(name)?;
        }
        if self.karpenter.is_some() {
            engine_bin::find("karpenter")?;
        }
        let mut home = Home::create(self.dir.as_deref())?;
        match self.start_in(home.path(), started).await {
            Ok(running) => Ok(TestCluster { running, home, stopped: false }),
            Err(error) => {
                eprintln!(
                    "The cluster did not start; its logs are in {}.",
                    home.keep().join("logs").display()
                );
                Err(error)
            }
        }
    }

    async fn start_in(self, dir: &Path, started: Instant) -> Result<Running, Error> {
        let layout = Layout::create(dir)?;
        let real_nodes = if self.real_nodes { Some(RealNodes::prepare(&layout).await?) } else { None };
        let names = if self.real_nodes { RealNodes::API_SERVER_NAMES.as_slice() } else { &[] };
        let identities = Identities::create(&layout, names)?;
        let mut api_server_flags = self.api_server_flags.clone();
        if self.real_nodes {
            api_server_flags.extend(RealNodes::api_server_flags(&layout, &identities)?);
        }
        let users = self
            .users
            .iter()
            .map(|(name, groups)| User::create(name, &groups.iter().map(String::as_str).collect::<Vec<_>>()))
            .collect::<Result<Vec<_>, _>>()?;
        let token_file = layout.root.join("tokens.csv");
        files::write_private(&token_file, identities::token_file(&users).as_bytes())?;
        let etcd = control_plane::start_etcd(&layout).await?;
        let slow_link = (self.api_servers > 1).then(|| layout.open_slow_link()).transpose()?;
        let plan = |index: usize| ApiServerPlan {
            name: if index == 0 { "kube-apiserver".into() } else { format!("kube-apiserver-{}", index + 1) },
            port: 0,
            by_slow_link: index > 0,
            users: token_file.clone(),
            flags: api_server_flags.clone(),
        };
        let ApiServer { process, plan: first, admin_kubeconfig, admin } =
            control_plane::start_api_server(&layout, &identities, plan(0)).await?;
        let (url, address) = (first.url(), first.address());
        let (mut plans, mut servers) = (vec![first], vec![process]);
        for index in 1..self.api_servers {
            let server = control_plane::start_api_server(&layout, &identities, plan(index)).await?;
            plans.push(server.plan);
            servers.push(server.process);
        }
        // In the order in which they are stopped: clients of a server before the server.
        let mut processes = Vec::new();
        if self.kwok {
            processes.push(kwok::start(&layout, &identities, &url, self.node_lease_seconds)?);
        }
        if let Some(nodes) = &real_nodes {
            processes.push(nodes.connect(&layout, &identities, address, &admin).await?);
        }
        processes.extend(servers);
        processes.push(etcd);
        let running = Running {
            karpenter: None,
            real_nodes,
            layout,
            identities,
            users,
            url,
            api_servers: plans,
            slow_link,
            proxies: AtomicUsize::new(0),
            admin_kubeconfig,
            admin,
            processes: Mutex::new(processes),
            kwok: self.kwok,
            node_lease_seconds: self.node_lease_seconds,
            ready_after: Duration::ZERO,
        };
        tokio::select! {
            finished = running.finish_start(&self) => finished?,
            error = running.a_server_ends() => return Err(error),
        }
        let karpenter = match &self.karpenter {
            Some(settings) => Some(Box::pin(running.start_karpenter(settings)).await?),
            None => None,
        };
        Ok(Running { ready_after: started.elapsed(), karpenter, ..running })
    }
}

/// A running cluster. Dropping it ends every server. Its files are then kept, because a test that does not
/// reach [`TestCluster::stop`] has failed, and the logs show why.
pub struct TestCluster {
    // Dropped in this order: servers before their files.
    pub(crate) running: Running,
    home: Home,
    stopped: bool,
}

pub(crate) struct Running {
    // Dropped first: clients before servers, and machines too.
    karpenter: Option<Box<Karpenter>>,
    pub(crate) real_nodes: Option<RealNodes>,
    pub(crate) layout: Layout,
    pub(crate) identities: Identities,
    users: Vec<User>,
    url: String,
    pub(crate) api_servers: Vec<ApiServerPlan>,
    pub(crate) slow_link: Option<SlowLink>,
    pub(crate) proxies: AtomicUsize,
    pub(crate) admin_kubeconfig: PathBuf,
    admin: Client,
    processes: Mutex<Vec<Process>>,
    kwok: bool,
    pub(crate) node_lease_seconds: u32,
    ready_after: Duration,
}

impl TestCluster {
    /// A cluster with all servers, without nodes and users until they are added.
    pub fn builder() -> Builder {
        Builder {
            dir: None,
            nodes: Vec::new(),
            users: Vec::new(),
            controller_manager: true,
            kwok: true,
            install: true,
            node_lease_seconds: 40,
            api_server_flags: Vec::new(),
            api_servers: 1,
            controller_manager_flags: Vec::new(),
            real_nodes: false,
            karpenter: None,
        }
    }

    /// Starts etcd and the API server with our objects installed, and nothing that acts on them.
    pub async fn start_control_plane_only() -> Result<Self, Error> {
        Self::builder().without_controller_manager().without_kwok().start().await
    }

    /// How long the start took, from [`Builder::start`] until everything was ready.
    pub fn ready_after(&self) -> Duration {
        self.running.ready_after
    }

    /// A client that may do everything.
    pub fn admin_client(&self) -> Client {
        self.running.admin.clone()
    }

    /// The kubeconfig of [`Self::admin_client`].
    pub fn admin_kubeconfig(&self) -> &Path {
        &self.running.admin_kubeconfig
    }

    /// The API server's address.
    pub fn url(&self) -> &str {
        &self.running.url
    }

    /// The cluster's directory.
    pub fn dir(&self) -> &Path {
        &self.running.layout.root
    }

    /// The directory of the servers' logs; put the logs of your own processes there too. It is kept when a test fails.
    pub fn logs(&self) -> &Path {
        &self.running.layout.logs
    }

    /// The kubectl that fits the API server.
    pub fn kubectl(&self) -> Result<PathBuf, Error> {
        Ok(engine_bin::find("kubectl")?)
    }

    /// Logs in as a service account. Each call makes a new placeholder pod and binds the token to it, so two
    /// logins as one account are two pods to the API server, like two replicas.
    pub async fn login_service_account(
        &self,
        namespace: &str,
        account: &str,
    ) -> Result<ServiceAccountLogin, Error> {
        let (token, pod) = identities::mint_token(&self.running.admin, namespace, account).await?;
        let kubeconfig = self.write_kubeconfig(&pod.name_any(), account, &token)?;
        Ok(ServiceAccountLogin {
            kubeconfig,
            token,
            pod: pod.name_any(),
            pod_uid: pod.uid().unwrap_or_default(),
        })
    }

    /// The kubeconfig of a new [`Self::login_service_account`].
    pub async fn kubeconfig_for_service_account(
        &self,
        namespace: &str,
        account: &str,
    ) -> Result<PathBuf, Error> {
        Ok(self.login_service_account(namespace, account).await?.kubeconfig)
    }

    /// The token of a user that was added to the builder.
    pub fn token_for_user(&self, name: &str) -> Result<&str, Error> {
        let user = self.running.users.iter().find(|user| user.name == name);
        user.map(|user| user.token.as_str()).ok_or_else(|| Error::NoSuchUser { name: name.to_owned() })
    }

    /// A kubeconfig for a user that was added to the builder.
    pub fn kubeconfig_for_user(&self, name: &str) -> Result<PathBuf, Error> {
        self.write_kubeconfig(&format!("user-{name}"), name, self.token_for_user(name)?)
    }

    /// A client that logs in with a kubeconfig made here.
    pub async fn client_for(&self, kubeconfig: &Path) -> Result<Client, Error> {
        kubeconfig::client(kubeconfig).await
    }

    /// Adds fake nodes, and returns once they can take pods.
    pub async fn add_fake_nodes(&self, nodes: &FakeNodes) -> Result<(), Error> {
        self.running.add_nodes(std::slice::from_ref(nodes)).await
    }

    /// Removes a node, as if its machine had vanished.
    pub async fn remove_node(&self, name: &str) -> Result<(), Error> {
        nodes::remove(&self.running.admin, name).await
    }

    /// Karpenter and its cloud, if the builder has them.
    pub fn karpenter(&self) -> Result<&Karpenter, Error> {
        let karpenter = self.running.karpenter.as_deref();
        karpenter.ok_or_else(|| Error::NotRunning { name: "karpenter".into() })
    }

    /// Starts kube-scheduler too, with at most `qps` requests per second.
    pub fn start_kube_scheduler(&self, qps: u32) -> Result<(), Error> {
        let Running { layout, identities, url, .. } = &self.running;
        let process = control_plane::start_kube_scheduler(layout, identities, url, qps)?;
        self.running.processes().insert(0, process);
        Ok(())
    }

    /// Ends one server for good, for example `kube-scheduler`.
    pub fn kill_server(&self, name: &str) -> Result<(), Error> {
        let mut processes = self.running.processes();
        let index = processes.iter().position(|process| process.name() == name);
        let index = index.ok_or_else(|| Error::NotRunning { name: name.to_owned() })?;
        drop(processes.remove(index));
        Ok(())
    }

    /// Sends a signal to one server, for example SIGSTOP to `kube-apiserver`.
    pub fn signal_server(&self, name: &str, signal: Signal) -> Result<(), Error> {
        let mut processes = self.running.processes();
        let process = processes.iter_mut().find(|process| process.name() == name);
        process.ok_or_else(|| Error::NotRunning { name: name.to_owned() })?.signal(signal);
        Ok(())
    }

    /// The process ids of the servers, by name.
    pub fn server_pids(&self) -> Vec<(String, u32)> {
        self.running.processes().iter().map(|process| (process.name().to_owned(), process.pid())).collect()
    }

    /// Ends every server and removes the cluster's directory, unless it was given or is to be kept.
    pub async fn stop(mut self) {
        self.stopped = true;
        // Killing is enough: nothing of the cluster is used again. It takes some milliseconds each.
        tokio::task::spawn_blocking(move || drop(self)).await.expect("stopping a cluster does not panic");
    }

    fn write_kubeconfig(&self, file: &str, user: &str, token: &str) -> Result<PathBuf, Error> {
        let path = self.running.layout.root.join(format!("{file}.kubeconfig"));
        let authority = self.running.identities.authority.cert();
        kubeconfig::write(&path, &self.running.url, authority, user, &Credential::Token(token))?;
        Ok(path)
    }
}

impl Drop for TestCluster {
    fn drop(&mut self) {
        if !self.stopped || std::env::var_os(KEEP_VARIABLE).is_some() {
            eprintln!("The cluster's files are kept in {}.", self.home.keep().display());
        }
    }
}

impl Running {
    /// Installs our objects, adds the nodes and starts the controller-manager, all at once; then waits for the
    /// objects that the controller-manager makes.
    async fn finish_start(&self, wanted: &Builder) -> Result<(), Error> {
        let installed = async {
            if wanted.install {
                install::custom_resources(&self.admin).await?;
                let deploy = repository_root().join("deploy");
                install::directory(&self.admin, &deploy).await?;
                if wanted.karpenter.is_some() {
                    install::directory(&self.admin, &deploy.join("machines")).await?;
                }
            }
            Ok::<_, Error>(())
        };
        let controlled = async {
            control_plane::wait_until_complete(&self.admin).await?;
            if wanted.controller_manager {
                self.start_controller_manager(&wanted.controller_manager_flags)?;
            }
            Ok::<_, Error>(())
        };
        futures::try_join!(installed, self.add_nodes(&wanted.nodes), controlled)?;
        if wanted.controller_manager {
            let system = wanted.install.then_some(names::SYSTEM_NAMESPACE);
            for namespace in ["default"].into_iter().chain(system) {
                wait_for_default_service_account(&self.admin, namespace).await?;
            }
        }
        Ok(())
    }

    async fn add_nodes(&self, groups: &[FakeNodes]) -> Result<(), Error> {
        if self.kwok {
            nodes::wait_for_lease_namespace(&self.admin).await?;
        }
        for group in groups {
            nodes::create(&self.admin, group).await?;
        }
        for group in groups.iter().filter(|_| self.kwok) {
            nodes::wait_until_played(&self.admin, group).await?;
        }
        Ok(())
    }

    fn start_controller_manager(&self, flags: &[String]) -> Result<(), Error> {
        let process =
            control_plane::start_controller_manager(&self.layout, &self.identities, &self.url, flags)?;
        self.processes().insert(0, process);
        Ok(())
    }

    async fn start_karpenter(&self, settings: &KarpenterSettings) -> Result<Box<Karpenter>, Error> {
        let Self { layout, identities, url, admin, .. } = self;
        Karpenter::start(layout, identities, url, admin, settings).await.map(Box::new)
    }

    /// Waits until a server ends by itself.
    async fn a_server_ends(&self) -> Error {
        loop {
            for process in self.processes().iter_mut() {
                if let Some(status) = process.exit_status() {
                    return Error::Ended { name: process.name().to_owned(), status, log: process.log_tail() };
                }
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }

    pub(crate) fn processes(&self) -> MutexGuard<'_, Vec<Process>> {
        // A panic elsewhere leaves the list as valid as it was.
        self.processes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Pods cannot be created in a namespace before the controller-manager has made its account `default`.
async fn wait_for_default_service_account(admin: &Client, namespace: &str) -> Result<(), Error> {
    const BOUND: Duration = Duration::from_secs(30);
    let deadline = Instant::now() + BOUND;
    let accounts: Api<ServiceAccount> = Api::namespaced(admin.clone(), namespace);
    loop {
        let found = accounts.get_opt("default").await;
        if found
            .map_err(|source| Error::Kube { what: "get service account default".into(), source })?
            .is_some()
        {
            return Ok(());
        }
        if Instant::now() >= deadline {
            let what = format!("service account {namespace}/default (is the controller-manager running?)");
            return Err(Error::NotInTime { what, bound: BOUND });
        }
        tokio::time::sleep(Duration::from_millis(25)).await;
    }
}

/// The directory a cluster lives in.
enum Home {
    Temporary(Option<TempDir>, PathBuf),
    Given(PathBuf),
}

impl Home {
    fn create(dir: Option<&Path>) -> Result<Self, Error> {
        let Some(dir) = dir else {
            // Of mode 0700, as tempfile makes them.
            let temporary = tempfile::Builder::new()
                .prefix("warpyard-cluster-")
                .tempdir()
                .map_err(|source| Error::Io { what: "create a temporary directory".into(), source })?;
            let path = temporary.path().to_owned();
            return Ok(Self::Temporary(Some(temporary), path));
        };
        files::create_dir(dir)?;
        // Paths go into kubeconfigs and flags of processes, which may have another working directory.
        let path = dir
            .canonicalize()
            .map_err(|source| Error::Io { what: format!("find {}", dir.display()), source })?;
        Ok(Self::Given(path))
    }

    fn path(&self) -> &Path {
        match self {
            Self::Temporary(_, path) | Self::Given(path) => path,
        }
    }

    /// Does not remove the directory in the end.
    fn keep(&mut self) -> &Path {
        if let Self::Temporary(temporary, _) = self
            && let Some(temporary) = temporary.take()
        {
            let _ = temporary.keep();
        }
        self.path()
    }
}
