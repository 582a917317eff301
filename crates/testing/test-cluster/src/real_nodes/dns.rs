//! DNS for pods: CoreDNS in the cluster's network namespace, so that members of a gang find each other by name.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::{Duration, Instant};

use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding};
use kube::api::PostParams;
use kube::{Api, Client};
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use toolbox::engine_bin;

use super::network::{self, Network};
use crate::control_plane::{Identities, Layout};
use crate::process::Process;
use crate::{Error, files};

const NAME: &str = "cluster-dns";
/// The domain of all names.
pub(super) const DOMAIN: &str = "cluster.local";
const READY_PORT: u16 = 8181;
const READY_BOUND: Duration = Duration::from_secs(30);

/// Starts DNS, and returns once it knows the cluster's Services.
pub(super) async fn start(
    layout: &Layout,
    identities: &Identities,
    network: &Network,
    admin: &Client,
) -> Result<Process, Error> {
    allow_to_read(admin).await?;
    let url = format!("https://{}", network::API_SERVER);
    let kubeconfig = identities.write_kubeconfig(layout, &url, NAME, NAME, None)?;
    let corefile = layout.root.join("Corefile");
    files::write_private(&corefile, configuration(&kubeconfig.display().to_string()).as_bytes())?;
    let spec = network.inside(NAME, &engine_bin::find(NAME)?).arg("-conf").arg(&corefile);
    let mut process = Process::spawn(spec, &layout.logs)?;
    let deadline = Instant::now() + READY_BOUND;
    while !is_ready(network).await {
        if let Some(status) = process.exit_status() {
            return Err(Error::Ended { name: NAME.into(), status, log: process.log_tail() });
        }
        if Instant::now() >= deadline {
            let what = format!("{NAME} to be ready: {}", process.log_tail());
            return Err(Error::NotInTime { what, bound: READY_BOUND });
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    Ok(process)
}

/// Answers live for a second and are not cached: a member that looks for another one too early asks again.
fn configuration(kubeconfig: &str) -> String {
    format!(
        ".:53 {{
  bind {}
  errors
  ready 127.0.0.1:{READY_PORT}
  kubernetes {DOMAIN} in-addr.arpa {{
    kubeconfig {kubeconfig}
    ttl 1
  }}
}}
",
        network::DNS,
    )
}

/// CoreDNS's rights in upstream's installation.
async fn allow_to_read(admin: &Client) -> Result<(), Error> {
    let verbs = json!(["list", "watch"]);
    let role: ClusterRole = serde_json::from_value(json!({
        "metadata": { "name": NAME },
        "rules": [
            { "apiGroups": [""], "resources": ["services", "namespaces", "pods"], "verbs": verbs },
            { "apiGroups": ["discovery.k8s.io"], "resources": ["endpointslices"], "verbs": verbs },
        ],
    }))
    .expect("a constant role is well formed");
    let binding: ClusterRoleBinding = serde_json::from_value(json!({
        "metadata": { "name": NAME },
        "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": NAME },
        "subjects": [{ "apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": NAME }],
    }))
    .expect("a constant binding is well formed");
    let failed = |source| Error::Kube { what: format!("let {NAME} read Services"), source };
    Api::<ClusterRole>::all(admin.clone()).create(&PostParams::default(), &role).await.map_err(failed)?;
    Api::<ClusterRoleBinding>::all(admin.clone())
        .create(&PostParams::default(), &binding)
        .await
        .map_err(failed)?;
    Ok(())
}

async fn is_ready(network: &Network) -> bool {
    let ask = async {
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, READY_PORT));
        let mut stream = network::socket_in(&network.namespace())?.connect(address).await?;
        stream.write_all(b"GET /ready HTTP/1.0\r\n\r\n").await?;
        let mut answer = [0; 64];
        let count = stream.read(&mut answer).await?;
        Ok::<_, std::io::Error>(String::from_utf8_lossy(&answer[..count]).contains(" 200 "))
    };
    tokio::time::timeout(Duration::from_secs(2), ask).await.is_ok_and(|ready| ready.unwrap_or(false))
}
