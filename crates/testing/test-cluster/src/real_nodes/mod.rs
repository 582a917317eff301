//! Nodes with a real kubelet, containerd and runc, several on one machine, each in namespaces of its own.
//!
//! ```text
//!   the host's loopback        the cluster's network namespace         a node: net, mount, pid, uts, ipc
//!  ┌────────────────┐  forward  ┌────────────────────────────┐  veth  ┌──────────────────────────────────┐
//!  │ kube-apiserver │◄─────────►│ 10.77.0.1   nodes' gateway │◄──────►│ init ─► containerd ─► pods       │
//!  │ a test's server│  by us    │ 10.96.0.1   kubernetes     │        │      ├► kubelet       10.244.N.x │
//!  └────────────────┘           │ 10.96.0.10  cluster-dns    │        │      └► gpu-plugin               │
//!                               └────────────────────────────┘        └──────────────────────────────────┘
//! ```
//!
//! Nothing is added to the host's own network, so no packet of a pod can leave the machine, and every cluster
//! may use the same addresses. Only processes hold the namespaces, and they die with the test: links, mounts
//! and namespaces go with them, however the test ends. Only cgroups have to be removed explicitly; if this test
//! cannot, the next one does. Reasons: `docs/decisions/0038-real-nodes-of-namespaces.md`.

mod cgroups;
mod dns;
mod forward;
mod host;
mod image;
mod machine;
mod network;
mod node;

use std::collections::BTreeMap;
use std::net::{SocketAddr, SocketAddrV4};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use kube::Client;
use toolbox::engine_bin;

pub use image::{BUSYBOX_IMAGE, MACHINE_IMAGE};
pub use machine::RealMachine;

use crate::cluster::TestCluster;
use crate::control_plane::{Identities, Layout};
use crate::process::Process;
use crate::{Error, fault_proxy, files};
use cgroups::Cgroups;
use host::Tools;
use machine::Site;
pub(crate) use network::EGRESS_SOCKET;
use network::Network;

/// A node to add.
#[derive(Clone, Debug)]
pub struct RealNode {
    /// The node's name, and its host name.
    pub name: String,
    /// Fake GPUs, called `<node>-gpu-0`, … A node with none has no GPU taint either.
    pub gpus: u32,
    /// The label `nvidia.com/gpu.product`.
    pub gpu_product: String,
    /// Further labels.
    pub labels: BTreeMap<String, String>,
    /// Folders of the host that every container sees at the same path, and may write to.
    pub shared: Vec<PathBuf>,
    /// The same, but read-only.
    pub shared_read_only: Vec<PathBuf>,
}

/// A server that pods reach over TLS.
#[derive(Clone, Debug)]
pub struct ExposedByTls {
    /// Its address for pods.
    pub address: SocketAddr,
    /// The file of the authority that signed its certificate.
    pub authority: PathBuf,
}

impl Default for RealNode {
    fn default() -> Self {
        Self {
            name: "real-0".into(),
            gpus: 8,
            gpu_product: "NVIDIA-H100-80GB-HBM3".into(),
            labels: BTreeMap::new(),
            shared: Vec::new(),
            shared_read_only: Vec::new(),
        }
    }
}

impl TestCluster {
    /// Adds a node with a real kubelet, and returns once it is ready and offers its GPUs. The cluster must have been
    /// built with [`crate::Builder::real_nodes`].
    pub async fn add_real_node(&self, node: RealNode) -> Result<RealMachine, Error> {
        let machine = self.real_nodes()?.add(node, self)?;
        machine.power_on().await?;
        Ok(machine)
    }

    /// Lets pods reach a server on the host's loopback; returns its address for pods.
    pub fn expose_to_pods(&self, server: SocketAddr) -> Result<SocketAddr, Error> {
        let listen = SocketAddrV4::new(network::GATEWAY, 0);
        self.real_nodes()?.network.forward(listen, server)
    }

    /// The same for a plain HTTP server that pods may reach only over TLS, like through the proxy in
    /// production.
    pub fn expose_to_pods_by_tls(&self, server: SocketAddr) -> Result<ExposedByTls, Error> {
        let authority = &self.running.identities.authority;
        let name = format!("exposed-{}", server.port());
        let certificate = authority.sign_server(&name, &[&network::GATEWAY.to_string()])?;
        let acceptor = fault_proxy::acceptor(&certificate)
            .map_err(|source| Error::Io { what: "take connections by TLS".into(), source })?;
        let address = self.real_nodes()?.network.forward_from_tls(acceptor, server)?;
        Ok(ExposedByTls { address, authority: authority.cert().to_owned() })
    }

    fn real_nodes(&self) -> Result<&RealNodes, Error> {
        let nodes = self.running.real_nodes.as_ref();
        nodes.ok_or_else(|| Error::NotRunning { name: "real nodes (see `Builder::real_nodes`)".into() })
    }
}

/// The real nodes of a cluster. Dropping this powers them all off.
pub(crate) struct RealNodes {
    machines: Mutex<Vec<RealMachine>>,
    network: Arc<Network>,
    cgroups: Arc<Cgroups>,
    tools: Arc<Tools>,
    images: PathBuf,
}

impl RealNodes {
    /// Prepares what must exist before the API server starts.
    pub async fn prepare(layout: &Layout) -> Result<Self, Error> {
        let tools = Tools::find()?;
        for server in ["kubelet", "gpu-plugin", "cluster-dns"] {
            engine_bin::find(server)?;
        }
        let cgroups = Cgroups::of_this_process()?;
        cgroups::sweep();
        let network = Network::create(&layout.logs).await?;
        network.serve_egress(&layout.egress_socket())?;
        Ok(Self {
            machines: Mutex::default(),
            network: Arc::new(network),
            cgroups: Arc::new(cgroups),
            tools: Arc::new(tools),
            images: image::write_archive(&layout.root)?,
        })
    }

    /// The API server's own names in the nodes' network.
    pub const API_SERVER_NAMES: [&str; 2] = ["10.77.0.1", "10.96.0.1"];

    /// Flags by which the API server reaches kubelets and authenticates to them.
    pub fn api_server_flags(layout: &Layout, identities: &Identities) -> Result<Vec<String>, Error> {
        let client = identities.authority.sign_client(
            "kubelet-client",
            "kube-apiserver-kubelet-client",
            Some("system:masters"),
        )?;
        let egress = layout.root.join("egress.yaml");
        files::write_private(&egress, network::egress_configuration().as_bytes())?;
        Ok(vec![
            format!("--kubelet-client-certificate={}", client.cert.display()),
            format!("--kubelet-client-key={}", client.key.display()),
            format!("--kubelet-certificate-authority={}", identities.authority.cert().display()),
            "--kubelet-preferred-address-types=InternalIP".into(),
            format!("--egress-selector-config-file={}", egress.display()),
            "--allow-privileged=true".into(),
        ])
    }

    /// Connects the nodes' network to the running API server, and starts and returns DNS.
    pub async fn connect(
        &self,
        layout: &Layout,
        identities: &Identities,
        api_server: SocketAddr,
        admin: &Client,
    ) -> Result<Process, Error> {
        self.network.forward(network::API_SERVER, api_server)?;
        self.network.forward(network::KUBERNETES_SERVICE, api_server)?;
        dns::start(layout, identities, &self.network, admin).await
    }

    fn add(&self, node: RealNode, cluster: &TestCluster) -> Result<RealMachine, Error> {
        let running = &cluster.running;
        let mut machines = self.machines.lock().unwrap_or_else(PoisonError::into_inner);
        let number = u8::try_from(machines.len() + 1).ok().filter(|number| *number <= network::NODES_MAX);
        let number = number.ok_or_else(|| Error::Manifest {
            what: format!("add node {}", node.name),
            why: format!("a cluster has at most {} real nodes in its life", network::NODES_MAX),
        })?;
        let site = Site {
            network: Arc::clone(&self.network),
            cgroups: Arc::clone(&self.cgroups),
            tools: Arc::clone(&self.tools),
            images: self.images.clone(),
            layout: running.layout.clone(),
            admin: cluster.admin_client(),
            node_lease_seconds: running.node_lease_seconds,
        };
        let machine = RealMachine::create(node, number, site, &running.identities)?;
        machines.push(machine.clone());
        Ok(machine)
    }
}

impl Drop for RealNodes {
    fn drop(&mut self) {
        for machine in self.machines.lock().unwrap_or_else(PoisonError::into_inner).iter() {
            machine.end();
        }
        self.cgroups.remove();
    }
}
