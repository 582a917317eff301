//! Our own processes on a test cluster, each with its production identity and rights.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use api_types::names;
use nix::sys::signal::Signal;
use serde_json::Value;
use toolbox::checkout::target_folder;

use crate::postgres::Postgres;
use crate::process::{Process, ProcessSpec};
use crate::{Error, TestCluster};

/// How long a process may take to become ready. A scheduler that follows one that was killed waits for its
/// lease (30 s at most), its write timeout (5 s), and lists.
const READY_WITHIN: Duration = Duration::from_mins(1);
const LOG_POLL: Duration = Duration::from_millis(1);
/// Set to `release`, it makes tests run what ships.
const BUILD_VARIABLE: &str = "WARPYARD_BUILD";
const CONTROLLERS_READY: &str = "Controlling runs.";

/// Starts our binaries, as built into one folder.
pub struct Platform<'a> {
    cluster: &'a TestCluster,
    binaries: PathBuf,
    ledger: Option<LedgerFiles>,
}

/// The files with the URLs of the ledger's database, for each role.
struct LedgerFiles {
    owner: PathBuf,
    meter: PathBuf,
    reader: PathBuf,
}

/// The scheduler's leader election and writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LeaseTimes {
    /// As installed.
    Production,
    /// So short that a test can see many changes of leader. On a busy machine leaders lose their lease by
    /// themselves, so the test must restart them.
    Short,
    /// For a test with one change of leader and no restarts.
    Medium,
    /// For a test that is not about changes of leader, and that restarts nothing: CI's machines have stood still for
    /// nine seconds.
    Patient,
}

/// Duration, renewal deadline and pace of a lease.
const MEDIUM_LEASE: [&str; 3] = ["12s", "10s", "300ms"];
const PATIENT_LEASE: [&str; 3] = ["30s", "25s", "1s"];

impl LeaseTimes {
    /// As installed in a release build, which benches measure; patient in a debug build, which tests run.
    pub fn of_this_build() -> Self {
        if cfg!(debug_assertions) { Self::Patient } else { Self::Production }
    }

    /// Flags, if the times differ from the installed ones.
    fn flags(self, short: [&str; 3]) -> Option<[String; 3]> {
        let [duration, deadline, retry] = match self {
            Self::Production => return None,
            Self::Short => short,
            Self::Medium => MEDIUM_LEASE,
            Self::Patient => PATIENT_LEASE,
        };
        Some([
            format!("--lease-duration={duration}"),
            format!("--lease-renew-deadline={deadline}"),
            format!("--lease-retry={retry}"),
        ])
    }
}

impl<'a> Platform<'a> {
    /// Binaries of the debug build, as `cargo xtask e2e` and `cargo xtask dev` make it; of the release build, if
    /// `cargo xtask e2e --release` says so.
    pub fn debug(cluster: &'a TestCluster) -> Self {
        let is_release = std::env::var_os(BUILD_VARIABLE).is_some_and(|build| build == "release");
        if is_release { Self::release(cluster) } else { Self::of_build(cluster, "debug") }
    }

    /// Binaries of the release build, as `cargo xtask bench` makes it.
    pub fn release(cluster: &'a TestCluster) -> Self {
        Self::of_build(cluster, "release")
    }

    fn of_build(cluster: &'a TestCluster, build: &str) -> Self {
        Self { cluster, binaries: target_folder().join(build), ledger: None }
    }

    /// Binaries of the build that this code itself is of.
    pub fn same_build(cluster: &'a TestCluster) -> Self {
        if cfg!(debug_assertions) { Self::debug(cluster) } else { Self::release(cluster) }
    }

    /// With the ledger in this database: the controllers migrate its schema and meter into it, the REST API
    /// reads from it.
    #[must_use]
    pub fn with_ledger(mut self, database: &Postgres) -> Self {
        self.ledger = Some(LedgerFiles {
            owner: database.owner_url_file(),
            meter: database.meter_url_file(),
            reader: database.reader_url_file(),
        });
        self
    }

    /// A scheduler with a pod of its own, and so with an identity that the fence can distinguish.
    pub async fn scheduler(&self, name: &str, times: LeaseTimes, failpoints: &str) -> Result<Service, Error> {
        let kubeconfig = self
            .cluster
            .kubeconfig_for_service_account(names::SYSTEM_NAMESPACE, names::SCHEDULER_SERVICE_ACCOUNT)
            .await?;
        self.scheduler_as(name, &kubeconfig, times, failpoints)
    }

    /// A patient scheduler with a pod of its own and further arguments.
    pub async fn scheduler_with(&self, name: &str, arguments: &[&str]) -> Result<Service, Error> {
        let kubeconfig = self
            .cluster
            .kubeconfig_for_service_account(names::SYSTEM_NAMESPACE, names::SCHEDULER_SERVICE_ACCOUNT)
            .await?;
        let spec = self.scheduler_spec(name, &kubeconfig, LeaseTimes::Patient, "");
        self.start(spec.args(arguments.iter().copied()), "Scheduling.")
    }

    /// A scheduler with a pod of its own that buys machines.
    pub async fn buying_scheduler(
        &self,
        name: &str,
        times: LeaseTimes,
        failpoints: &str,
    ) -> Result<Service, Error> {
        let kubeconfig = self
            .cluster
            .kubeconfig_for_service_account(names::SYSTEM_NAMESPACE, names::SCHEDULER_SERVICE_ACCOUNT)
            .await?;
        let spec = self.scheduler_spec(name, &kubeconfig, times, failpoints);
        self.start(spec.args(["--buy-machines"]), "Scheduling.")
    }

    /// A scheduler with the identity in `kubeconfig`, like a restarted container of a pod.
    pub fn scheduler_as(
        &self,
        name: &str,
        kubeconfig: &Path,
        times: LeaseTimes,
        failpoints: &str,
    ) -> Result<Service, Error> {
        self.start(self.scheduler_spec(name, kubeconfig, times, failpoints), "Scheduling.")
    }

    /// The same with further arguments.
    pub fn scheduler_again(
        &self,
        name: &str,
        kubeconfig: &Path,
        times: LeaseTimes,
        arguments: &[&str],
    ) -> Result<Service, Error> {
        let spec = self.scheduler_spec(name, kubeconfig, times, "");
        self.start(spec.args(arguments.iter().copied()), "Scheduling.")
    }

    fn scheduler_spec(
        &self,
        name: &str,
        kubeconfig: &Path,
        times: LeaseTimes,
        failpoints: &str,
    ) -> ProcessSpec {
        let mut spec = self
            .spec(name, "warpyard-scheduler", kubeconfig)
            .env("RUST_LOG", "info,scheduler=debug,cluster_apply=debug");
        if let Some(lease) = times.flags(["2s", "1200ms", "200ms"]) {
            spec = spec.args(lease);
        }
        if matches!(times, LeaseTimes::Short | LeaseTimes::Medium) {
            spec = spec.args(["--write-timeout=500ms", "--settle=700ms"]);
        }
        if !failpoints.is_empty() {
            spec = spec.env("FAILPOINTS", failpoints);
        }
        spec
    }

    /// A scheduler with a pod of its own that logs as in production; `change` may add arguments.
    pub async fn scheduler_as_installed(
        &self,
        name: &str,
        change: impl FnOnce(ProcessSpec) -> ProcessSpec,
    ) -> Result<Service, Error> {
        let kubeconfig = self
            .cluster
            .kubeconfig_for_service_account(names::SYSTEM_NAMESPACE, names::SCHEDULER_SERVICE_ACCOUNT)
            .await?;
        self.start(change(self.spec(name, "warpyard-scheduler", &kubeconfig)), "Scheduling.")
    }

    /// The controllers.
    pub async fn controllers(&self, name: &str) -> Result<Service, Error> {
        self.controllers_with(name, |spec| spec).await
    }

    /// The controllers; `change` may add arguments.
    pub async fn controllers_with(
        &self,
        name: &str,
        change: impl FnOnce(ProcessSpec) -> ProcessSpec,
    ) -> Result<Service, Error> {
        let kubeconfig = self
            .cluster
            .kubeconfig_for_service_account(names::SYSTEM_NAMESPACE, names::CONTROLLERS_SERVICE_ACCOUNT)
            .await?;
        let spec = self.controllers_spec(name, &kubeconfig, LeaseTimes::of_this_build());
        self.start(change(spec), CONTROLLERS_READY)
    }

    /// The controllers with the identity in `kubeconfig`, like a restarted container of a pod.
    pub fn controllers_as(&self, name: &str, kubeconfig: &Path, times: LeaseTimes) -> Result<Service, Error> {
        self.start(self.controllers_spec(name, kubeconfig, times), CONTROLLERS_READY)
    }

    fn controllers_spec(&self, name: &str, kubeconfig: &Path, times: LeaseTimes) -> ProcessSpec {
        let mut spec = self.spec(name, "warpyard-controllers", kubeconfig);
        // Short is longer than the scheduler's: they are killed while the machine is busiest.
        if let Some(lease) = times.flags(MEDIUM_LEASE) {
            spec = spec.args(lease);
        }
        match &self.ledger {
            Some(LedgerFiles { owner, meter, .. }) => {
                spec.path_arg("database-url-file", meter).path_arg("migrate-url-file", owner)
            }
            None => spec,
        }
    }

    /// The REST API, and its address.
    pub async fn api_server(&self, listen: &str) -> Result<(Service, String), Error> {
        self.api_server_with(listen, |spec| spec).await
    }

    /// The REST API with a log of this filter, and its address.
    pub async fn api_server_with_logs(&self, listen: &str, logs: &str) -> Result<(Service, String), Error> {
        self.api_server_with(listen, |spec| spec.env("RUST_LOG", logs)).await
    }

    async fn api_server_with(
        &self,
        listen: &str,
        change: impl FnOnce(ProcessSpec) -> ProcessSpec,
    ) -> Result<(Service, String), Error> {
        let kubeconfig = self
            .cluster
            .kubeconfig_for_service_account(names::SYSTEM_NAMESPACE, names::API_SERVER_SERVICE_ACCOUNT)
            .await?;
        let mut spec = change(self.spec("warpyard-api-server", "warpyard-api-server", &kubeconfig));
        if let Some(LedgerFiles { reader, .. }) = &self.ledger {
            spec = spec.path_arg("database-url-file", reader);
        }
        let mut service = self.start(spec.arg(format!("--listen={listen}")), "Serving.")?;
        let line = service.wait_for_line("Listening.", READY_WITHIN).await?;
        let address = line["address"].as_str().unwrap_or_default().to_owned();
        service.ready().await?;
        Ok((service, format!("http://{address}")))
    }

    /// The path of one of our binaries.
    pub fn binary(&self, name: &str) -> PathBuf {
        self.binaries.join(name)
    }

    fn spec(&self, name: &str, binary: &str, kubeconfig: &Path) -> ProcessSpec {
        ProcessSpec::new(name, self.binary(binary))
            .path_arg("kubeconfig", kubeconfig)
            .arg("--log-format=json")
    }

    fn start(&self, spec: ProcessSpec, ready_line: &'static str) -> Result<Service, Error> {
        let process = Process::spawn(spec, self.cluster.logs())?;
        let read_bytes = fs::metadata(process.log()).map_or(0, |metadata| metadata.len());
        Ok(Service { process, ready_line, begins_at: read_bytes, read_bytes })
    }
}

/// One of our processes, with its log read as it is written.
pub struct Service {
    process: Process,
    ready_line: &'static str,
    /// The position in the log at which this process begins.
    begins_at: u64,
    read_bytes: u64,
}

impl Service {
    /// The process.
    pub fn process(&mut self) -> &mut Process {
        &mut self.process
    }

    /// Waits until the process is ready.
    pub async fn ready(&mut self) -> Result<(), Error> {
        self.wait_for_line(self.ready_line, READY_WITHIN).await.map(drop)
    }

    /// Waits for the log line with the address of health and metrics, which comes before the process is ready.
    pub async fn health_address(&mut self) -> Result<String, Error> {
        let line = self.wait_for_line("Serving health and metrics.", READY_WITHIN).await?;
        Ok(line["address"].as_str().unwrap_or_default().to_owned())
    }

    /// Waits for a log line with this message, skipping others; lines already read do not count.
    pub async fn wait_for_line(&mut self, message: &str, bound: Duration) -> Result<Value, Error> {
        let (line, end) = self.line_after(self.read_bytes, message, bound).await?;
        self.read_bytes = end;
        Ok(line)
    }

    /// Waits until it has logged this message, in read or unread lines; reads none.
    pub async fn until_logged(&mut self, message: &str, bound: Duration) -> Result<(), Error> {
        self.line_after(self.begins_at, message, bound).await.map(drop)
    }

    /// The first line with this message after a position, and where it ends.
    async fn line_after(
        &mut self,
        mut position: u64,
        message: &str,
        bound: Duration,
    ) -> Result<(Value, u64), Error> {
        let deadline = Instant::now() + bound;
        loop {
            for (line, end) in lines_after(self.process.log(), position) {
                position = end;
                if line["message"] == message {
                    return Ok((line, end));
                }
            }
            let ended = self.process.exit_status();
            if ended.is_some() || Instant::now() > deadline {
                return Err(Error::NoSuchLine {
                    process: self.process.name().to_owned(),
                    message: message.to_owned(),
                    tail: self.process.log_tail(),
                });
            }
            tokio::time::sleep(LOG_POLL).await;
        }
    }

    /// Every line that it has written and that was not read yet.
    pub fn read_lines(&mut self) -> Vec<Value> {
        let lines = lines_after(self.process.log(), self.read_bytes);
        self.read_bytes = lines.last().map_or(self.read_bytes, |(_, end)| *end);
        lines.into_iter().map(|(line, _)| line).collect()
    }

    /// SIGKILL, and wait until it is gone.
    pub fn kill(&mut self) {
        self.process.kill();
    }

    /// SIGSTOP: the process stands still, as on an overloaded machine.
    pub fn freeze(&mut self) {
        self.process.signal(Signal::SIGSTOP);
    }

    /// SIGCONT.
    pub fn thaw(&mut self) {
        self.process.signal(Signal::SIGCONT);
    }

    /// SIGTERM, and SIGKILL if that does not help.
    pub async fn terminate(self) {
        self.process.terminate(Duration::from_secs(10)).await;
    }
}

/// Whole lines after a position, and where each ends.
fn lines_after(log: &Path, position: u64) -> Vec<(Value, u64)> {
    let bytes = read_from(log, position);
    let mut end = position;
    let mut lines = Vec::new();
    for line in bytes.split_inclusive(|byte| *byte == b'\n').filter(|line| line.ends_with(b"\n")) {
        end += line.len() as u64;
        lines.push((serde_json::from_slice(line).unwrap_or(Value::Null), end));
    }
    lines
}

fn read_from(path: &Path, position: u64) -> Vec<u8> {
    use std::io::{Read, Seek, SeekFrom};
    let mut bytes = Vec::new();
    let read = fs::File::open(path).and_then(|mut file| {
        file.seek(SeekFrom::Start(position))?;
        file.read_to_end(&mut bytes)
    });
    // A log that cannot be read has no lines; waits for a line then fail.
    drop(read);
    bytes
}
