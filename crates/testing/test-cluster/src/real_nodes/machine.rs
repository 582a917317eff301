//! One node as a machine, which can be switched on, lose its power, come back and be removed.
//!
//! ```text
//!   create ─► off ── power_on ─► boots ─► ready ─┬─ power_off ─► off
//!                                                └─ remove ───► gone, and its Node with it
//! ```

use std::fs;
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use api_types::names;
use k8s_openapi::api::core::v1::Node;
use kube::{Api, Client};
use toolbox::{engine_bin, programs};

use super::RealNode;
use super::cgroups::Cgroups;
use super::host::Tools;
use super::network::{self, Network};
use super::node::{self, Paths};
use crate::control_plane::{Identities, Layout};
use crate::pki::CertifiedKey;
use crate::process::{Process, ProcessSpec};
use crate::{Error, files, nodes};

const INIT: &str = include_str!("init.sh");
/// About ten times what a boot takes on a loaded machine.
const READY_BOUND: Duration = Duration::from_mins(1);
const POLL_INTERVAL: Duration = Duration::from_millis(50);

/// What all nodes of a cluster share.
pub(super) struct Site {
    pub network: Arc<Network>,
    pub cgroups: Arc<Cgroups>,
    pub tools: Arc<Tools>,
    pub images: PathBuf,
    pub layout: Layout,
    pub admin: Client,
    pub node_lease_seconds: u32,
}

/// A node with a real kubelet. It runs until it is switched off or its cluster ends.
#[derive(Clone)]
pub struct RealMachine(Arc<Inner>);

struct Inner {
    node: RealNode,
    number: u8,
    site: Site,
    folder: PathBuf,
    kubeconfig: PathBuf,
    machine_id: String,
    power: Mutex<Option<On>>,
}

struct On {
    process: Process,
    link: String,
}

impl RealMachine {
    /// Writes all files of a node; it is switched off at first.
    pub(super) fn create(
        node: RealNode,
        number: u8,
        site: Site,
        identities: &Identities,
    ) -> Result<Self, Error> {
        let name = node.name.clone();
        let folder = site.layout.root.join("nodes").join(&name);
        let url = format!("https://{}", network::API_SERVER);
        let user = format!("system:node:{name}");
        let kubeconfig = identities.write_kubeconfig(
            &site.layout,
            &url,
            &format!("kubelet-{name}"),
            &user,
            Some("system:nodes"),
        )?;
        let address = network::address_of(number).to_string();
        let serving =
            identities.authority.sign_server(&format!("kubelet-{name}-serving"), &[&address, &name])?;
        let machine_id = files::random_secret()?;
        let power = Mutex::new(None);
        let inner = Inner { node, number, site, folder, kubeconfig, machine_id, power };
        inner.write_settings(identities.authority.cert(), &serving)?;
        Ok(Self(Arc::new(inner)))
    }

    /// The node's name.
    pub fn name(&self) -> &str {
        &self.0.node.name
    }

    /// The node's address, in the cluster's network.
    pub fn address(&self) -> Ipv4Addr {
        network::address_of(self.0.number)
    }

    /// Switches it on, and returns how long it took to be ready with all its GPUs. If it is on, its power is
    /// cut first.
    pub async fn power_on(&self) -> Result<Duration, Error> {
        self.power_off().await;
        let began = Instant::now();
        let boot_id = fs::read_to_string("/proc/sys/kernel/random/uuid")
            .map_err(|source| Error::Io { what: "make up a boot's id".into(), source })?;
        let boot_id = boot_id.trim();
        let inner = &self.0;
        inner.site.cgroups.create(self.name())?;
        let process = Process::spawn(inner.process(boot_id)?, &inner.site.layout.logs)?;
        let link = inner.site.network.plug(inner.number, &process).await?;
        *inner.power() = Some(On { process, link });
        inner.wait_until_ready(boot_id).await?;
        let took = began.elapsed();
        eprintln!("Node {} was ready after {:.1} s.", self.name(), took.as_secs_f64());
        Ok(took)
    }

    /// Cuts the power: it does and sends nothing more. Its disk stays.
    pub async fn power_off(&self) {
        let machine = self.clone();
        tokio::task::spawn_blocking(move || machine.0.cut()).await.expect("cutting the power does not panic");
    }

    /// Cuts the power and removes the machine, with its disk and its Node.
    pub async fn remove(self) -> Result<(), Error> {
        self.power_off().await;
        self.end();
        nodes::remove(&self.0.site.admin, self.name()).await
    }

    /// The host's numbers of its processes, including those of its pods.
    pub fn processes(&self) -> Vec<u32> {
        self.0.site.cgroups.processes(self.name())
    }

    /// Its cgroups on the host.
    pub fn cgroups(&self) -> Vec<PathBuf> {
        self.0.site.cgroups.folders(self.name())
    }

    /// Cuts the power and removes the disk.
    pub(super) fn end(&self) {
        self.0.cut();
        let _ = fs::remove_dir_all(&self.0.folder);
    }
}

impl Inner {
    fn write_settings(&self, authority: &Path, serving: &CertifiedKey) -> Result<(), Error> {
        let settings = self.folder.join("settings");
        files::create_dir(&settings.join("cni"))?;
        files::create_dir(&self.disk())?;
        let paths = Paths { settings: &settings, disk: &self.disk(), cni: &self.site.tools.cni };
        let cgroup = self.site.cgroups.of_node(&self.node.name);
        let lease_seconds = self.site.node_lease_seconds;
        let kubelet = node::kubelet(&self.node, self.number, &cgroup, authority, serving, lease_seconds);
        let container = node::container(default_container()?, &self.node);
        for (file, content) in [
            ("init.sh", INIT.to_owned()),
            ("containerd.toml", node::containerd(&paths)),
            ("kubelet.json", kubelet.to_string()),
            ("container.json", container.to_string()),
            ("cni/10-pods.conflist", node::pod_network(self.number).to_string()),
        ] {
            files::write_private(&settings.join(file), content.as_bytes())?;
        }
        Ok(())
    }

    /// The process that ends with the machine: unshare(1) holds the namespaces, and kills their first process
    /// when it dies.
    fn process(&self, boot_id: &str) -> Result<ProcessSpec, Error> {
        let name = &self.node.name;
        let settings = self.folder.join("settings");
        let spec = ProcessSpec::new(name, "unshare")
            .args(["--net", "--mount", "--uts", "--ipc", "--pid", "--fork", "--mount-proc"])
            .args(["--kill-child=SIGKILL", "--", "/bin/sh"])
            .arg(settings.join("init.sh"))
            .env("PATH", programs::NODE_PATH)
            .env("NODE", name)
            .env("ADDRESS", network::address_of(self.number).to_string())
            .env("CGROUP", self.site.cgroups.of_node(name))
            .env("SETTINGS", &settings)
            .env("DISK", self.disk())
            .env("LOGS", self.site.layout.logs.join(name))
            .env("IMAGES", &self.site.images)
            .env("KUBELET", engine_bin::find("kubelet")?)
            .env("KUBECONFIG_OF_NODE", &self.kubeconfig)
            .env("LABELS", node::labels(&self.node))
            .env("GPU_PLUGIN", engine_bin::find("gpu-plugin")?)
            .env("GPUS", self.node.gpus.to_string())
            .env("MACHINE_ID", &self.machine_id)
            .env("BOOT_ID", boot_id);
        Ok(spec)
    }

    async fn wait_until_ready(&self, boot_id: &str) -> Result<(), Error> {
        let deadline = Instant::now() + READY_BOUND;
        let api: Api<Node> = Api::all(self.site.admin.clone());
        let name = &self.node.name;
        loop {
            let found = api.get_opt(name).await;
            let found = found.map_err(|source| Error::Kube { what: format!("get node {name}"), source })?;
            if found.is_some_and(|found| is_ready(&found, boot_id, self.node.gpus)) {
                return Ok(());
            }
            let ended = self.power().as_mut().and_then(|on| on.process.exit_status());
            if let Some(status) = ended {
                return Err(Error::Ended { name: name.clone(), status, log: self.last_words() });
            }
            if Instant::now() >= deadline {
                let what = format!("node {name} to be ready; its last words:\n{}", self.last_words());
                return Err(Error::NotInTime { what, bound: READY_BOUND });
            }
            tokio::time::sleep(POLL_INTERVAL).await;
        }
    }

    fn cut(&self) {
        if let Some(mut on) = self.power().take() {
            // First the link: peers of the node must not notice its end by a closed connection.
            self.site.network.unplug(self.number, &on.link);
            on.process.kill();
        }
        self.site.cgroups.remove_node(&self.node.name);
    }

    fn last_words(&self) -> String {
        const LINES: usize = 8;
        let logs = ["", "-containerd", "-kubelet", "-gpu-plugin"];
        let ends = logs.map(|log| {
            let path = self.site.layout.logs.join(format!("{}{log}.log", self.node.name));
            let text = String::from_utf8_lossy(&fs::read(&path).unwrap_or_default()).into_owned();
            let lines: Vec<_> = text.lines().collect();
            format!("{}:\n{}", path.display(), lines[lines.len().saturating_sub(LINES)..].join("\n"))
        });
        ends.join("\n")
    }

    fn disk(&self) -> PathBuf {
        self.folder.join("disk")
    }

    fn power(&self) -> MutexGuard<'_, Option<On>> {
        self.power.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// containerd's default settings of a container.
fn default_container() -> Result<serde_json::Value, Error> {
    let failed = |source| Error::Io { what: "ask containerd for its default container".into(), source };
    let output = Command::new("ctr")
        .args(["oci", "spec"])
        .env("PATH", programs::NODE_PATH)
        .output()
        .map_err(failed)?;
    serde_json::from_slice(&output.stdout).map_err(|error| failed(error.into()))
}

/// Whether this boot of the node is ready, with all its GPUs: the status of an earlier boot stays in the Node
/// for a while.
fn is_ready(node: &Node, boot_id: &str, gpus: u32) -> bool {
    let Some(status) = &node.status else { return false };
    let boots = status.node_info.as_ref().is_some_and(|info| info.boot_id == boot_id);
    let mut conditions = status.conditions.iter().flatten();
    let is_ready = conditions.any(|condition| condition.type_ == "Ready" && condition.status == "True");
    let offered = status.allocatable.as_ref().and_then(|offered| offered.get(names::GPU_RESOURCE));
    let offered = offered.map_or("0", |quantity| quantity.0.as_str());
    boots && is_ready && offered == gpus.to_string()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_node_is_ready_when_this_boot_says_so_and_all_gpus_are_there() {
        let node = |boot: &str, ready: &str, gpus: &str| -> Node {
            let info = json!({
                "bootID": boot, "machineID": "", "systemUUID": "", "kernelVersion": "", "osImage": "",
                "containerRuntimeVersion": "", "kubeletVersion": "", "kubeProxyVersion": "",
                "operatingSystem": "", "architecture": "",
            });
            serde_json::from_value(json!({ "status": {
                "nodeInfo": info,
                "conditions": [{ "type": "Ready", "status": ready }],
                "allocatable": { "nvidia.com/gpu": gpus },
            }}))
            .unwrap()
        };
        assert!(is_ready(&node("b", "True", "2"), "b", 2));
        assert!(!is_ready(&node("a", "True", "2"), "b", 2), "an earlier boot");
        assert!(!is_ready(&node("b", "False", "2"), "b", 2));
        assert!(!is_ready(&node("b", "True", "0"), "b", 2), "the plugin has not registered yet");
        assert!(!is_ready(&Node::default(), "b", 0));
    }
}
