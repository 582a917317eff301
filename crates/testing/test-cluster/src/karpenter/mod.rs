//! Karpenter, with a cloud at its edge that misbehaves on request (`engine/karpenter`).
//!
//! ```text
//!   Karpenter (this) ─► controls.json ─► the cloud ─► Nodes ─► KWOK, as on all fake nodes
//!                   ◄── lives.jsonl  ◄──┘  ▲
//!   NodeClaims ─► Karpenter's controllers ─┘
//! ```
//!
//! It listens nowhere. The cloud's machines outlive its process: machines that boot while it is away exist when
//! it is back.

mod controls;
mod lives;
mod notice;
mod price_list;

use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use controls::{Controls, Launches, Price, Stock};
pub use controls::{Fate, Odds, Offerings, Tries};
use jiff::Timestamp;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::Client;
pub use lives::{CloudRecord, Life, Offer};
pub use price_list::{Listed, price_list};
use serde::Deserialize;
use toolbox::engine_bin;

use crate::control_plane::{Identities, Layout};
use crate::process::{Process, ProcessSpec};
use crate::{Error, files, install, nodes};

/// The `KWOKNodeClass` that claims refer to.
pub const NODE_CLASS: &str = "default";
const NAME: &str = "karpenter";
/// Ten times what it needs on a loaded machine.
const BOUND: Duration = Duration::from_mins(1);
const POLL: Duration = Duration::from_millis(50);

/// The settings of Karpenter.
#[derive(Clone, Debug)]
pub struct KarpenterSettings {
    /// How long a machine takes to boot, until [`Karpenter::boot_time`] says otherwise.
    pub boot_time: Duration,
    /// Karpenter waits for more pods until none came for this long …
    pub batch_idle: Duration,
    /// … but at most this long.
    pub batch_max: Duration,
    /// Feature gates besides the defaults, in Karpenter's form: `NodeOverlay=true,…`.
    pub feature_gates: String,
    /// Requests per second to the API server; Karpenter's default is 200.
    pub requests_per_second: u32,
    /// Another list of instance types than our own.
    pub instance_types: Option<PathBuf>,
}

impl Default for KarpenterSettings {
    /// Karpenter's own defaults, with machines that boot in a second.
    fn default() -> Self {
        Self {
            boot_time: Duration::from_secs(1),
            batch_idle: Duration::from_secs(1),
            batch_max: Duration::from_secs(10),
            feature_gates: String::new(),
            requests_per_second: 200,
            instance_types: None,
        }
    }
}

/// A running Karpenter and its cloud. Dropping it kills the process.
pub struct Karpenter {
    process: Mutex<Option<Process>>,
    spec: ProcessSpec,
    dir: PathBuf,
    logs: PathBuf,
    admin: Client,
    controls: Mutex<Controls>,
}

impl Karpenter {
    /// Installs Karpenter's custom resources and a node class, then starts it; it watches when this returns.
    pub(crate) async fn start(
        layout: &Layout,
        identities: &Identities,
        url: &str,
        admin: &Client,
        settings: &KarpenterSettings,
    ) -> Result<Self, Error> {
        install::these_custom_resources(admin, custom_resources().await?).await?;
        install::object(admin, node_class()).await?;
        let dir = layout.root.join(NAME);
        // A given directory may have files of an earlier cluster, whose machines do not exist any more.
        let _ = std::fs::remove_dir_all(&dir);
        files::create_dir(&dir)?;
        let controls = Controls::new(settings.boot_time);
        controls.write(&dir.join("controls.json"))?;
        let types = dir.join("instance-types.json");
        match &settings.instance_types {
            Some(path) => drop(
                std::fs::copy(path, &types)
                    .map_err(|source| Error::Io { what: format!("copy {}", path.display()), source })?,
            ),
            None => files::write_private(&types, price_list::INSTANCE_TYPES.as_bytes())?,
        }
        // It stands for the cloud too, which removes the Nodes of machines that are gone.
        let kubeconfig = identities.write_kubeconfig(layout, url, NAME, NAME, Some("system:masters"))?;
        let milliseconds = |time: Duration| format!("{}ms", time.as_millis());
        let requests = settings.requests_per_second;
        let spec = ProcessSpec::new(NAME, engine_bin::find(NAME)?)
            .env("KUBECONFIG", kubeconfig)
            .env("WARPYARD_CLOUD_DIR", &dir)
            .env("INSTANCE_TYPES_FILE_PATH", &types)
            .env("DISABLE_LEADER_ELECTION", "true")
            .env("LOG_LEVEL", "info")
            .env("BATCH_IDLE_DURATION", milliseconds(settings.batch_idle))
            .env("BATCH_MAX_DURATION", milliseconds(settings.batch_max))
            .env("KUBE_CLIENT_QPS", requests.to_string())
            .env("KUBE_CLIENT_BURST", requests.saturating_mul(2).to_string());
        let spec = match settings.feature_gates.as_str() {
            "" => spec,
            gates => spec.env("FEATURE_GATES", gates),
        };
        let karpenter = Self {
            process: Mutex::new(None),
            spec,
            dir,
            logs: layout.logs.clone(),
            admin: admin.clone(),
            controls: Mutex::new(controls),
        };
        karpenter.start_again().await?;
        Ok(karpenter)
    }

    /// Starts it after [`Self::stop`]; it watches when this returns.
    pub async fn start_again(&self) -> Result<(), Error> {
        let process = Process::spawn(self.spec.clone(), &self.logs)?;
        let pid = process.pid();
        *lock(&self.process) = Some(process);
        self.until("Karpenter to watch", |record| record.started.contains(&pid)).await
    }

    /// Kills it, as if its machine were lost. The cloud's machines stay, and are paid for.
    pub fn stop(&self) {
        drop(lock(&self.process).take());
    }

    /// Its process id, while it runs.
    pub fn pid(&self) -> Option<u32> {
        lock(&self.process).as_ref().map(Process::pid)
    }

    /// From now on machines take this long to boot.
    pub fn boot_time(&self, time: Duration) -> Result<(), Error> {
        self.tell(|controls| controls.boot_milliseconds = controls::milliseconds(time))
    }

    /// From now on these offerings are out of stock; running machines stay.
    pub fn stock_out(&self, of: Offerings) -> Result<(), Error> {
        self.stock(of, 0)
    }

    /// From now on at most this many machines of these offerings together run at a time.
    pub fn stock(&self, of: Offerings, machines_max: usize) -> Result<(), Error> {
        self.tell(|controls| {
            controls.stock.retain(|stock| stock.of != of);
            controls.stock.push(Stock { of, machines_max });
        })
    }

    /// All machines are in stock again. Karpenter does not try offerings that it found out of stock for three
    /// minutes; claims that are not Karpenter's own are tried at once.
    pub fn restock(&self) -> Result<(), Error> {
        self.tell(|controls| controls.stock.clear())
    }

    /// From now on machines of these offerings cost this much, in micro-units per hour. Those that run keep their price.
    pub fn set_price(&self, of: Offerings, micros_per_hour: i64) -> Result<(), Error> {
        self.tell(|controls| {
            controls.prices.retain(|price| price.of != of);
            controls.prices.push(Price { of, micros_per_hour });
        })
    }

    /// The fates of the next claims, in the order of their launches; later ones have no fault.
    pub fn next_launches(&self, fates: impl IntoIterator<Item = Fate>) -> Result<(), Error> {
        self.tell(|controls| {
            let batch = controls.launches.batch + 1;
            controls.launches = Launches { batch, fates: fates.into_iter().collect() };
        })
    }

    /// From now on a share of the launches gets a fault; `None` ends that.
    pub fn odds(&self, odds: Option<Odds>) -> Result<(), Error> {
        self.tell(|controls| controls.odds = odds)
    }

    /// The cloud announces that it takes back a spot machine, and does so: the Node gets the node agent's
    /// words, and is gone with its machine when the time is over. Returns the time of the end.
    pub async fn notice(&self, node: &str, time: Duration) -> Result<Timestamp, Error> {
        let seconds = i64::try_from(time.as_secs()).unwrap_or(i64::MAX);
        // Whole seconds, as the clouds themselves write; never less than was asked for.
        let at = Timestamp::now().as_second().saturating_add(seconds).saturating_add(1);
        let at = Timestamp::from_second(at)
            .map_err(|error| Error::Manifest { what: format!("take {node} back"), why: error.to_string() })?;
        self.reclaim(node, at)?;
        notice::write(&self.admin, node, at).await?;
        Ok(at)
    }

    /// The machine is gone at once, without a notice, and its Node with it. Karpenter looks for such machines
    /// every two minutes; until then the claim stays, unless it is deleted.
    pub async fn crash(&self, node: &str) -> Result<(), Error> {
        self.reclaim(node, Timestamp::now())?;
        // Also when Karpenter's process, which plays the cloud, is away.
        nodes::remove_by_force(&self.admin, node).await?;
        if self.pid().is_none() {
            return Ok(());
        }
        let has_ended = |life: &Life| life.node == node && life.ended.is_some();
        self.until(&format!("the machine {node} to end"), |record| record.lives.iter().any(has_ended)).await
    }

    /// Every machine that the cloud ever launched: the cloud's own bill.
    pub fn lives(&self) -> Result<Vec<Life>, Error> {
        Ok(self.record()?.lives)
    }

    /// Everything that the cloud has recorded.
    pub fn record(&self) -> Result<CloudRecord, Error> {
        lives::read(&self.dir.join("lives.jsonl"))
    }

    fn reclaim(&self, node: &str, at: Timestamp) -> Result<(), Error> {
        self.tell(|controls| controls.reclaim.extend([(node.to_owned(), at)]))
    }

    /// Launches after this returns obey it.
    fn tell(&self, change: impl FnOnce(&mut Controls)) -> Result<(), Error> {
        let mut controls = lock(&self.controls);
        change(&mut controls);
        controls.write(&self.dir.join("controls.json"))
    }

    async fn until(&self, what: &str, holds: impl Fn(&CloudRecord) -> bool) -> Result<(), Error> {
        let deadline = Instant::now() + BOUND;
        while !holds(&self.record()?) {
            if let Some(process) = lock(&self.process).as_mut()
                && let Some(status) = process.exit_status()
            {
                return Err(Error::Ended { name: NAME.into(), status, log: process.log_tail() });
            }
            if Instant::now() >= deadline {
                return Err(Error::NotInTime { what: what.to_owned(), bound: BOUND });
            }
            tokio::time::sleep(POLL).await;
        }
        Ok(())
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // A panic elsewhere leaves what is in it as valid as it was.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Karpenter's custom resources, which are in its binary.
async fn custom_resources() -> Result<Vec<CustomResourceDefinition>, Error> {
    let what = || "ask Karpenter for its custom resources".to_owned();
    let output = tokio::process::Command::new(engine_bin::find(NAME)?)
        .arg("crds")
        .output()
        .await
        .map_err(|source| Error::Io { what: what(), source })?;
    serde_norway::Deserializer::from_slice(&output.stdout)
        .map(Option::<CustomResourceDefinition>::deserialize)
        .filter_map(Result::transpose)
        .collect::<Result<Vec<_>, _>>()
        .map_err(|error| Error::Manifest { what: what(), why: error.to_string() })
}

fn node_class() -> serde_json::Value {
    serde_json::json!({
        "apiVersion": "karpenter.kwok.sh/v1alpha1",
        "kind": "KWOKNodeClass",
        "metadata": { "name": NODE_CLASS },
        "spec": {},
    })
}
