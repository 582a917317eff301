//! A real PostgreSQL on loopback that tests may crash.
//!
//! ```text
//!   start ─► initdb ─► postgres ─► database warpyard; roles warpyard_owner, _meter, _reader ─► files with URLs
//!              crash, kill ─► (gone) ─► start_again: recovers from its log, same port, same URLs
//! ```
//!
//! It writes to disk as in production (`fsync` is on): committed data must survive a crash. It listens on
//! 127.0.0.1 only, asks for passwords that were made for it, and opens no socket file. PostgreSQL refuses to
//! run as root: started by root it runs as `postgres` or `nobody`, with its data in a folder of its own.

use std::fs;
use std::net::{Ipv4Addr, TcpListener};
use std::os::unix::fs::{MetadataExt, chown};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use nix::sys::signal::{self, Signal};
use nix::unistd::Pid;
use tempfile::TempDir;
use toolbox::programs;

use crate::process::{Process, ProcessSpec, UserIds};
use crate::{Error, files};

/// The database that is made at start.
const DATABASE: &str = "warpyard";
/// A port found free may be taken before the server binds it; three in a row mean that something else is wrong.
const PORT_ATTEMPTS_MAX: usize = 3;
/// Ten times what each takes on a loaded machine; recovery after a crash included.
const READY_BOUND: Duration = Duration::from_mins(1);
/// The bound on a shutdown, and on backends to notice that their postmaster is gone.
const GONE_BOUND: Duration = Duration::from_secs(30);
const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// A running PostgreSQL. Dropping it ends it and removes its data.
#[derive(Debug)]
pub struct Postgres {
    programs: PathBuf,
    folder: PathBuf,
    data: Data,
    port: u16,
    passwords: Passwords,
    server: Option<Process>,
}

/// Where the server keeps its files.
#[derive(Debug)]
struct Data {
    path: PathBuf,
    run_as: Option<UserIds>,
    /// Removed when dropped.
    _temporary: Option<TempDir>,
}

/// One for each role.
#[derive(Debug)]
struct Passwords {
    superuser: String,
    owner: String,
    meter: String,
    reader: String,
}

/// The URLs of one database, for each role.
#[derive(Clone)]
pub struct DatabaseUrls {
    /// A superuser, for administration.
    pub superuser: String,
    /// Owns the schema.
    pub owner: String,
    /// Writes.
    pub meter: String,
    /// Reads.
    pub reader: String,
}

impl Postgres {
    /// Makes a server with an empty database in `<dir>/postgres`, and returns once it answers.
    pub async fn start(dir: &Path) -> Result<Self, Error> {
        let programs = programs::postgres().ok_or_else(|| Error::NoPostgres { program: "initdb".into() })?;
        let folder = dir.join("postgres");
        files::create_dir(&folder)?;
        let data = Data::create(&folder)?;
        let passwords = Passwords::create()?;
        let mut postgres = Self { programs, folder, data, port: lasting_port()?, passwords, server: None };
        postgres.init_data().await?;
        let mut attempts_left = PORT_ATTEMPTS_MAX;
        while let Err(error) = postgres.start_again().await {
            attempts_left -= 1;
            if attempts_left == 0 || !matches!(error, Error::Ended { .. }) {
                return Err(error);
            }
            postgres.port = lasting_port()?;
        }
        postgres.create_roles().await?;
        let urls = postgres.create_database(DATABASE).await?;
        for (file, url) in [
            ("superuser", urls.superuser),
            ("owner", urls.owner),
            ("meter", urls.meter),
            ("reader", urls.reader),
        ] {
            files::write_private(&postgres.url_file(file), format!("{url}\n").as_bytes())?;
        }
        Ok(postgres)
    }

    /// The URL of a superuser, in a private file.
    pub fn superuser_url_file(&self) -> PathBuf {
        self.url_file("superuser")
    }

    /// The URL of `warpyard_owner`, in a private file.
    pub fn owner_url_file(&self) -> PathBuf {
        self.url_file("owner")
    }

    /// The URL of `warpyard_meter`, in a private file.
    pub fn meter_url_file(&self) -> PathBuf {
        self.url_file("meter")
    }

    /// The URL of `warpyard_reader`, in a private file.
    pub fn reader_url_file(&self) -> PathBuf {
        self.url_file("reader")
    }

    /// Makes another database, for another test.
    pub async fn create_database(&self, name: &str) -> Result<DatabaseUrls, Error> {
        self.psql(&format!(
            "CREATE DATABASE {name} OWNER warpyard_owner;
             REVOKE ALL ON DATABASE {name} FROM PUBLIC;
             GRANT CONNECT ON DATABASE {name} TO warpyard_meter, warpyard_reader;"
        ))
        .await?;
        let Passwords { superuser, owner, meter, reader } = &self.passwords;
        let url = |user: &str, password: &str| {
            format!("postgres://{user}:{password}@127.0.0.1:{}/{name}?sslmode=disable", self.port)
        };
        Ok(DatabaseUrls {
            superuser: url("postgres", superuser),
            owner: url("warpyard_owner", owner),
            meter: url("warpyard_meter", meter),
            reader: url("warpyard_reader", reader),
        })
    }

    /// Crashes it: `immediate` shutdown, which leaves the data as it is on disk.
    pub async fn crash(&mut self) {
        self.end(Signal::SIGQUIT).await;
    }

    /// Kills the server's first process. Returns when the others have noticed and ended, because the server
    /// does not start while one of them still uses its memory.
    pub async fn kill(&mut self) {
        let Some(mut server) = self.server.take() else { return };
        // A stopped process starts no others while we look for its children.
        server.signal(Signal::SIGSTOP);
        let backends = children_of(server.pid());
        server.kill();
        if !wait_until_gone(&backends).await {
            for pid in backends.iter().filter(|pid| is_running_postgres(**pid)) {
                let _ = signal::kill(*pid, Signal::SIGKILL);
            }
            wait_until_gone(&backends).await;
        }
    }

    /// Starts the crashed, killed or stopped server with the same data and address; returns once it answers.
    pub async fn start_again(&mut self) -> Result<(), Error> {
        self.stop().await;
        let mut spec = self.spec("postgres", "postgres").arg("-D").arg(&self.data.path);
        for setting in [
            "listen_addresses=127.0.0.1".into(),
            format!("port={}", self.port),
            // A socket's path may not be longer than 107 bytes, and nobody needs one.
            "unix_socket_directories=".into(),
            "shared_buffers=64MB".into(),
            // Files below the data, which are removed with it, instead of /dev/shm, where a kill would leave them.
            "dynamic_shared_memory_type=mmap".into(),
        ] {
            spec = spec.arg("-c").arg(setting);
        }
        let mut server = Process::spawn(spec, &self.folder)?;
        let deadline = Instant::now() + READY_BOUND;
        while !self.answers().await {
            if let Some(status) = server.exit_status() {
                return Err(Error::Ended { name: "postgres".into(), status, log: server.log_tail() });
            }
            if Instant::now() >= deadline {
                return Err(Error::NotInTime { what: "PostgreSQL to answer".into(), bound: READY_BOUND });
            }
            tokio::time::sleep(POLL_INTERVAL).await;
        }
        self.server = Some(server);
        Ok(())
    }

    /// Stops it in order: connections are cut, and everything is written.
    pub async fn stop(&mut self) {
        self.end(Signal::SIGINT).await;
    }

    async fn end(&mut self, how: Signal) {
        if let Some(mut server) = self.server.take() {
            server.signal(how);
            server.wait(GONE_BOUND).await;
        }
    }

    async fn init_data(&self) -> Result<(), Error> {
        let password = self.data.path.with_extension("password");
        files::write_private(&password, self.passwords.superuser.as_bytes())?;
        if let Some(UserIds { uid, gid }) = self.data.run_as {
            let handed_over = chown(&password, Some(uid), Some(gid));
            handed_over
                .map_err(|source| Error::Io { what: "hand a file to PostgreSQL's user".into(), source })?;
        }
        let spec = self
            .spec("initdb", "initdb")
            .args(["--username=postgres", "--auth=scram-sha-256", "--encoding=UTF8", "--locale=C.UTF-8"])
            .args(["--no-sync", "--no-instructions"])
            .path_arg("pwfile", &password)
            .path_arg("pgdata", &self.data.path);
        let done = self.run(spec).await;
        let _ = fs::remove_file(&password);
        done
    }

    async fn create_roles(&self) -> Result<(), Error> {
        let Passwords { owner, meter, reader, .. } = &self.passwords;
        self.psql(&format!(
            "CREATE ROLE warpyard_owner LOGIN PASSWORD '{owner}';
             CREATE ROLE warpyard_meter LOGIN PASSWORD '{meter}';
             CREATE ROLE warpyard_reader LOGIN PASSWORD '{reader}';"
        ))
        .await
    }

    /// Runs SQL as a superuser.
    async fn psql(&self, sql: &str) -> Result<(), Error> {
        let secret = files::random_secret()?;
        // Other users can read arguments and the environment, but not private files.
        let (script, passwords) =
            (self.folder.join(format!("{secret}.sql")), self.folder.join(format!("{secret}.pgpass")));
        files::write_private(&script, sql.as_bytes())?;
        files::write_private(&passwords, format!("*:*:*:*:{}", self.passwords.superuser).as_bytes())?;
        let spec = ProcessSpec::new("psql", self.programs.join("psql"))
            .args(["-X", "-q", "-w", "-v", "ON_ERROR_STOP=1", "-h", "127.0.0.1", "-U", "postgres"])
            .args(["-d", "postgres", "-p", &self.port.to_string(), "-f"])
            .arg(&script)
            .env("PGPASSFILE", &passwords);
        let done = self.run(spec).await;
        for file in [script, passwords] {
            let _ = fs::remove_file(file);
        }
        done
    }

    async fn answers(&self) -> bool {
        let status = tokio::process::Command::new(self.programs.join("pg_isready"))
            .args(["-q", "-h", "127.0.0.1", "-t", "1", "-p", &self.port.to_string()])
            .status()
            .await;
        status.is_ok_and(|status| status.success())
    }

    /// Runs a program to its end.
    async fn run(&self, spec: ProcessSpec) -> Result<(), Error> {
        let mut process = Process::spawn(spec, &self.folder)?;
        match process.wait(READY_BOUND).await {
            Some(status) if status.success() => Ok(()),
            Some(status) => {
                Err(Error::Ended { name: process.name().into(), status, log: process.log_tail() })
            }
            None => Err(Error::NotInTime { what: format!("{} to end", process.name()), bound: READY_BOUND }),
        }
    }

    /// A program that works on the data, as the user who owns it.
    fn spec(&self, name: &str, program: &str) -> ProcessSpec {
        let spec = ProcessSpec::new(name, self.programs.join(program));
        let spec = match self.data.path.parent() {
            Some(parent) => spec.current_dir(parent),
            None => spec,
        };
        match self.data.run_as {
            Some(user) => spec.run_as(user),
            None => spec,
        }
    }

    fn url_file(&self, role: &str) -> PathBuf {
        self.folder.join(format!("{role}.url"))
    }
}

impl Drop for Postgres {
    #[expect(
        clippy::disallowed_methods,
        reason = "a destructor cannot await, and this takes some milliseconds"
    )]
    fn drop(&mut self) {
        let Some(mut server) = self.server.take() else { return };
        // SIGKILL would leave backends that still write into the folder that is about to be removed.
        server.signal(Signal::SIGQUIT);
        let deadline = Instant::now() + GONE_BOUND;
        while server.exit_status().is_none() && Instant::now() < deadline {
            std::thread::sleep(POLL_INTERVAL);
        }
    }
}

impl Data {
    fn create(folder: &Path) -> Result<Self, Error> {
        let io = |what: &str| {
            let what = what.to_owned();
            move |source| Error::Io { what, source }
        };
        let Some(run_as) = other_user_if_root()? else {
            let path = folder.join("data");
            let _ = fs::remove_dir_all(&path);
            return Ok(Self { path, run_as: None, _temporary: None });
        };
        // The other user can reach the system's temporary folder, but perhaps not ours.
        let temporary = tempfile::Builder::new()
            .prefix("warpyard-postgres-")
            .tempdir()
            .map_err(io("create a folder for PostgreSQL's data"))?;
        chown(temporary.path(), Some(run_as.uid), Some(run_as.gid))
            .map_err(io("hand a folder to PostgreSQL's user"))?;
        Ok(Self { path: temporary.path().join("data"), run_as: Some(run_as), _temporary: Some(temporary) })
    }
}

impl Passwords {
    fn create() -> Result<Self, Error> {
        Ok(Self {
            superuser: files::random_secret()?,
            owner: files::random_secret()?,
            meter: files::random_secret()?,
            reader: files::random_secret()?,
        })
    }
}

/// `postgres` or `nobody`, if we are root.
fn other_user_if_root() -> Result<Option<UserIds>, Error> {
    let io = |what: &str| {
        let what = what.to_owned();
        move |source| Error::Io { what, source }
    };
    let ourselves = fs::metadata("/proc/self").map_err(io("read who we are"))?;
    if ourselves.uid() != 0 {
        return Ok(None);
    }
    let users = fs::read_to_string("/etc/passwd").map_err(io("read /etc/passwd"))?;
    let ids = |name: &str| {
        users.lines().find_map(|line| {
            let mut fields = line.split(':');
            (fields.next() == Some(name)).then_some(())?;
            Some(UserIds { uid: fields.nth(1)?.parse().ok()?, gid: fields.next()?.parse().ok()? })
        })
    };
    let nobody =
        || std::io::Error::other("it has neither a user postgres nor nobody, and root may not run it");
    let user = ids("postgres").or_else(|| ids("nobody"));
    user.map(Some).ok_or_else(nobody).map_err(io("find a user for PostgreSQL in /etc/passwd"))
}

/// A free port that stays free while the server is down: below 32768, above which the kernel gives ports to
/// other connections.
fn lasting_port() -> Result<u16, Error> {
    const FIRST: u16 = 20_000;
    const COUNT: u16 = 12_000;
    let secret = files::random_secret()?;
    let start = u16::from_str_radix(&secret[..4], 16).unwrap_or_default() % COUNT;
    (0..COUNT)
        .map(|step| FIRST + (start + step) % COUNT)
        .find(|port| TcpListener::bind((Ipv4Addr::LOCALHOST, *port)).is_ok())
        .ok_or_else(|| Error::Io {
            what: "find a free loopback port below 32768".into(),
            source: std::io::ErrorKind::AddrInUse.into(),
        })
}

async fn wait_until_gone(processes: &[Pid]) -> bool {
    let deadline = Instant::now() + GONE_BOUND;
    while processes.iter().any(|pid| is_running_postgres(*pid)) {
        if Instant::now() >= deadline {
            return false;
        }
        tokio::time::sleep(POLL_INTERVAL).await;
    }
    true
}

/// The processes whose parent is this one.
fn children_of(parent: u32) -> Vec<Pid> {
    let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
    processes
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok().map(Pid::from_raw))
        .filter(|pid| stat(*pid).is_some_and(|(_, _, its_parent)| its_parent == parent))
        .collect()
}

/// Whether the process exists and is still PostgreSQL's, and not another one with its number.
fn is_running_postgres(pid: Pid) -> bool {
    stat(pid).is_some_and(|(name, state, _)| name == "postgres" && state != 'Z')
}

/// Name, state and parent of a process.
fn stat(pid: Pid) -> Option<(String, char, u32)> {
    // `pid (name) state parent …`; the name may hold anything.
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let (before, after) = stat.rsplit_once(')')?;
    let mut fields = after.split_whitespace();
    let state = fields.next()?.chars().next()?;
    Some((before.split_once('(')?.1.to_owned(), state, fields.next()?.parse().ok()?))
}
