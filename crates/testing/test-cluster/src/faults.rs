//! Faults of a cluster's servers.

use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::time::Duration;

use crate::cluster::TestCluster;
use crate::etcd::Etcd;
use crate::fault_proxy::FaultProxy;
use crate::identities::ServiceAccountLogin;
use crate::kubeconfig::{self, Credential};
use crate::{Error, control_plane, kwok};

impl TestCluster {
    /// The store itself; see [`crate::Builder::readable_store`].
    pub fn etcd(&self) -> Etcd {
        self.running.layout.store()
    }

    /// The addresses of the API servers, the first one's first.
    pub fn api_server_urls(&self) -> Vec<String> {
        self.running.api_servers.iter().map(control_plane::ApiServerPlan::url).collect()
    }

    /// Delays what all API servers but the first read from the store.
    pub fn delay_store(&self, delay: Duration) -> Result<(), Error> {
        let link = self.running.slow_link.as_ref();
        link.ok_or_else(|| Error::NotRunning { name: "second API server".into() })?.set_delay(delay);
        Ok(())
    }

    /// Kills an API server (`kube-apiserver`, `kube-apiserver-2`) and starts it again on its port; returns once it serves.
    pub async fn restart_api_server(&self, name: &str) -> Result<(), Error> {
        self.stop_api_server(name)?;
        self.start_api_server_again(name).await
    }

    /// Kills an API server, whose port stays its own.
    pub fn stop_api_server(&self, name: &str) -> Result<(), Error> {
        self.kill_server(name)
    }

    /// Starts an API server that was stopped; returns once it serves.
    pub async fn start_api_server_again(&self, name: &str) -> Result<(), Error> {
        let plan = self.running.api_servers.iter().find(|plan| plan.name == name);
        let plan = plan.ok_or_else(|| Error::NotRunning { name: name.to_owned() })?;
        let admin = kubeconfig::client_at(&self.running.admin_kubeconfig, &plan.url()).await?;
        let (layout, identities) = (&self.running.layout, &self.running.identities);
        let process = control_plane::spawn_api_server(layout, identities, plan, &admin).await?;
        // Before etcd, which is stopped last.
        let mut processes = self.running.processes();
        let index = processes.len().saturating_sub(1);
        processes.insert(index, process);
        Ok(())
    }

    /// Starts KWOK again. Unlike a kubelet, it never retries writes that failed while the API server was away.
    pub fn restart_kwok(&self) -> Result<(), Error> {
        self.kill_server("kwok")?;
        let running = &self.running;
        let (layout, identities, url) = (&running.layout, &running.identities, self.url());
        let process = kwok::start(layout, identities, url, running.node_lease_seconds)?;
        running.processes().insert(0, process);
        Ok(())
    }

    /// A proxy in front of these API servers, by their addresses; its faults are drawn from `seed`.
    pub async fn fault_proxy(&self, api_servers: &[String], seed: u64) -> Result<FaultProxy, Error> {
        let number = self.running.proxies.fetch_add(1, Ordering::Relaxed);
        let authority = &self.running.identities.authority;
        let certificate = authority.sign_server(&format!("fault-proxy-{number}"), &["127.0.0.1"])?;
        FaultProxy::start(&certificate, authority.cert(), api_servers, seed).await
    }

    /// A kubeconfig for a login at another address, such as a proxy's.
    pub fn kubeconfig_through(&self, login: &ServiceAccountLogin, url: &str) -> Result<PathBuf, Error> {
        let port = url.rsplit(':').next().unwrap_or_default();
        let path = self.running.layout.root.join(format!("{}-by-{port}.kubeconfig", login.pod));
        let authority = self.running.identities.authority.cert();
        kubeconfig::write(&path, url, authority, &login.pod, &Credential::Token(&login.token))?;
        Ok(path)
    }
}
