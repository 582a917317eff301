//! Server processes that cannot outlive the process that started them.
//!
//! ```text
//!   our process ── one spawner thread ──► setpriv --pdeathsig KILL ─exec─► sh: is our parent alive? ─exec─► server
//! ```
//!
//! The kernel's parent-death signal is the only thing that works when the parent gets SIGKILL: no code of ours runs
//! then, neither a destructor nor a handler. Its three traps, and what we do about each:
//! - It fires when the *thread* that spawned the child ends. Tests and tokio workers come and go, so one thread of our
//!   own spawns every child and never ends.
//! - The parent may die after the fork and before `setpriv` has asked for the signal. So the shell that follows checks
//!   that its parent is still the one that started it, and the server is only then exec'ed.
//! - Setting it in the child before exec would need `unsafe`. `setpriv` (util-linux) does it for us, and `exec` keeps it.
//!
//! It does not reach grandchildren; none of the servers we start forks. Should one, each child is the leader of
//! a process group of its own, and [`Process`] kills the whole group when it is stopped or dropped. The group also
//! keeps a Ctrl-C in the terminal from ending servers before their owner could stop them in order.

use std::ffi::{OsStr, OsString};
use std::fs::OpenOptions;
use std::io;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{OnceLock, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use nix::sys::signal::{self, Signal};
use nix::unistd::Pid;

use crate::Error;

/// A process to start.
#[derive(Clone, Debug)]
pub struct ProcessSpec {
    name: String,
    program: PathBuf,
    args: Vec<OsString>,
    env: Vec<(OsString, OsString)>,
    current_dir: Option<PathBuf>,
    run_as: Option<UserIds>,
}

/// The user and group of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UserIds {
    /// The user.
    pub uid: u32,
    /// Its only group.
    pub gid: u32,
}

impl ProcessSpec {
    /// `program`, called `name` in messages and in the name of its log file.
    pub fn new(name: impl Into<String>, program: impl Into<PathBuf>) -> Self {
        Self {
            name: name.into(),
            program: program.into(),
            args: Vec::new(),
            env: Vec::new(),
            current_dir: None,
            run_as: None,
        }
    }

    /// Adds an argument.
    #[must_use]
    pub fn arg(mut self, arg: impl AsRef<OsStr>) -> Self {
        self.args.push(arg.as_ref().to_owned());
        self
    }

    /// Adds arguments.
    #[must_use]
    pub fn args(mut self, args: impl IntoIterator<Item = impl AsRef<OsStr>>) -> Self {
        self.args.extend(args.into_iter().map(|arg| arg.as_ref().to_owned()));
        self
    }

    /// Adds `--name=value`, for a value that is a path.
    #[must_use]
    pub fn path_arg(self, name: &str, value: &Path) -> Self {
        let mut arg = OsString::from(format!("--{name}="));
        arg.push(value);
        self.arg(arg)
    }

    /// Runs it in a directory other than ours; the program's own path must then be absolute.
    #[must_use]
    pub fn current_dir(mut self, dir: impl Into<PathBuf>) -> Self {
        self.current_dir = Some(dir.into());
        self
    }

    /// Runs it as another user, which only root can. Some servers refuse to run as root.
    #[must_use]
    pub fn run_as(mut self, user: UserIds) -> Self {
        self.run_as = Some(user);
        self
    }

    /// Sets an environment variable, in addition to the inherited ones.
    #[must_use]
    pub fn env(mut self, name: impl AsRef<OsStr>, value: impl AsRef<OsStr>) -> Self {
        self.env.push((name.as_ref().to_owned(), value.as_ref().to_owned()));
        self
    }
}

/// A running child. Dropping it kills it and its process group.
#[derive(Debug)]
pub struct Process {
    name: String,
    child: Child,
    log: PathBuf,
    ended: Option<ExitStatus>,
}

impl Process {
    /// Starts a process that dies with ours; what it prints is appended to `<logs>/<name>.log`.
    pub fn spawn(spec: ProcessSpec, logs: &Path) -> Result<Self, Error> {
        let log = logs.join(format!("{}.log", spec.name));
        let failed = |source| match source {
            SpawnError::Io(source) => Error::Io { what: format!("start {}", spec.program.display()), source },
            SpawnError::NoSetpriv => Error::NoSetpriv,
        };
        let child = spawn_on_lasting_thread(spec.clone(), log.clone()).map_err(failed)?;
        Ok(Self { name: spec.name, child, log, ended: None })
    }

    /// The name given in its spec.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The process id.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// The file that holds what it printed.
    pub fn log(&self) -> &Path {
        &self.log
    }

    /// How it ended, if it has.
    pub fn exit_status(&mut self) -> Option<ExitStatus> {
        if self.ended.is_none() {
            self.ended = self.child.try_wait().unwrap_or(None);
        }
        self.ended
    }

    /// Sends a signal to the process and its group; one that has ended is left alone.
    pub fn signal(&mut self, signal: Signal) {
        if self.exit_status().is_none() {
            // It is not reaped before `exit_status` says so, hence the number cannot belong to another process yet.
            let _ = signal::killpg(self.process_group(), signal);
        }
    }

    /// Waits until it ends, for at most `bound`.
    pub async fn wait(&mut self, bound: Duration) -> Option<ExitStatus> {
        let deadline = Instant::now() + bound;
        loop {
            let status = self.exit_status();
            if status.is_some() || Instant::now() >= deadline {
                return status;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    /// Asks it to end, and kills it if it has not within `grace`.
    pub async fn terminate(mut self, grace: Duration) {
        self.signal(Signal::SIGTERM);
        self.wait(grace).await;
    }

    /// Kills it and waits until it is gone.
    pub fn kill(&mut self) {
        self.signal(Signal::SIGKILL);
        if self.ended.is_none() {
            self.ended = self.child.wait().ok();
        }
    }

    /// The end of what it printed, for messages.
    pub fn log_tail(&self) -> String {
        const LINES: usize = 12;
        let text = std::fs::read(&self.log)
            .map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
            .unwrap_or_default();
        let lines: Vec<_> = text.lines().collect();
        lines[lines.len().saturating_sub(LINES)..].join("\n")
    }

    fn process_group(&self) -> Pid {
        Pid::from_raw(i32::try_from(self.child.id()).expect("Linux process ids fit in an i32"))
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
    }
}

#[derive(Debug)]
enum SpawnError {
    Io(io::Error),
    NoSetpriv,
}

type SpawnRequest = (ProcessSpec, PathBuf, mpsc::SyncSender<Result<Child, SpawnError>>);

fn spawn_on_lasting_thread(spec: ProcessSpec, log: PathBuf) -> Result<Child, SpawnError> {
    static SPAWNER: OnceLock<mpsc::Sender<SpawnRequest>> = OnceLock::new();
    let spawner = SPAWNER.get_or_init(|| {
        let (requests, inbox) = mpsc::channel::<SpawnRequest>();
        thread::Builder::new()
            .name("spawner".into())
            // Ends only with the process: the sender is a static.
            .spawn(move || inbox.iter().for_each(|(spec, log, reply)| drop(reply.send(spawn(&spec, &log)))))
            .expect("a machine that cannot start one thread cannot run a cluster");
        requests
    });
    let (reply, answer) = mpsc::sync_channel(1);
    spawner.send((spec, log, reply)).expect("the spawner thread never ends");
    answer.recv().expect("the spawner thread answers every request")
}

fn spawn(spec: &ProcessSpec, log: &Path) -> Result<Child, SpawnError> {
    const EXEC_IF_PARENT_LIVES: &str = r#"[ "$PPID" = "$1" ] || exit 1; shift; exec "$@""#;
    let output = OpenOptions::new().create(true).append(true).open(log).map_err(SpawnError::Io)?;
    let errors = output.try_clone().map_err(SpawnError::Io)?;
    let mut command = Command::new("setpriv");
    if let Some(dir) = &spec.current_dir {
        command.current_dir(dir);
    }
    if let Some(UserIds { uid, gid }) = spec.run_as {
        // A change of user clears the parent-death signal, so setpriv changes the user first.
        command.args([format!("--reuid={uid}"), format!("--regid={gid}"), "--clear-groups".into()]);
    }
    command
        .args(["--pdeathsig", "KILL", "--", "/bin/sh", "-c", EXEC_IF_PARENT_LIVES, "sh"])
        .arg(std::process::id().to_string())
        .arg(&spec.program)
        .args(&spec.args)
        .env_remove("KUBECONFIG")
        .envs(spec.env.iter().map(|(name, value)| (name, value)))
        .stdin(Stdio::null())
        .stdout(output)
        .stderr(errors)
        .process_group(0)
        .spawn()
        .map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => SpawnError::NoSetpriv,
            _ => SpawnError::Io(error),
        })
}
