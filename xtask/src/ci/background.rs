//! Commands that run one after the other in the background, at a low priority.

use std::fs::{self, File};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use std::{io, thread};

use anyhow::{Context, bail};
use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;

/// How often somebody who waits is told so.
const NEWS_INTERVAL: Duration = Duration::from_mins(1);

/// What runs in the background. Dropping it ends that.
pub struct Background {
    logs: PathBuf,
    /// Each command that ended, in order.
    ended: Receiver<(&'static str, io::Result<ExitStatus>)>,
    running: Arc<Mutex<Option<Pid>>>,
}

impl Background {
    /// Starts the first of the named commands; each of the others follows the one before. The folder gets a log of each.
    pub fn start(commands: Vec<(&'static str, Command)>, logs: &Path) -> anyhow::Result<Self> {
        let logs = logs.to_owned();
        fs::create_dir_all(&logs).with_context(|| format!("failed to create {}", logs.display()))?;
        let (say, ended) = mpsc::channel();
        let running = Arc::new(Mutex::new(None));
        let background = Self { logs: logs.clone(), ended, running: Arc::clone(&running) };
        thread::spawn(move || {
            for (name, command) in commands {
                let status = start(&command, &logs.join(name)).and_then(|mut child| {
                    *running.lock().expect("nobody panics with it") = Some(group(&child));
                    let status = child.wait();
                    *running.lock().expect("nobody panics with it") = None;
                    status
                });
                let is_over = !status.as_ref().is_ok_and(ExitStatus::success);
                // Nobody waits any more if another step failed.
                if say.send((name, status)).is_err() || is_over {
                    return;
                }
            }
        });
        Ok(background)
    }

    /// Waits until the command has succeeded, and prints what it printed. Commands are waited for in their order.
    pub fn wait_for(&mut self, name: &str) -> anyhow::Result<()> {
        loop {
            match self.ended.recv_timeout(NEWS_INTERVAL) {
                Ok((ended, status)) => {
                    let printed = fs::read(self.logs.join(ended)).unwrap_or_default();
                    eprintln!("{}", String::from_utf8_lossy(&printed).trim_end());
                    let status = status.with_context(|| format!("failed to run {ended}"))?;
                    if !status.success() {
                        bail!("{ended} ended with {status}");
                    }
                    if ended == name {
                        return Ok(());
                    }
                }
                Err(mpsc::RecvTimeoutError::Timeout) => eprintln!("Still waiting for {name}."),
                Err(mpsc::RecvTimeoutError::Disconnected) => bail!("{name} was not started"),
            }
        }
    }
}

impl Drop for Background {
    fn drop(&mut self) {
        if let Some(group) = self.running.lock().ok().and_then(|mut running| running.take()) {
            let _ = killpg(group, Signal::SIGTERM);
        }
    }
}

/// In a process group of its own, so that it ends with everything that it started.
fn start(command: &Command, log: &Path) -> io::Result<Child> {
    let log = File::create(log)?;
    let mut nice = Command::new("nice");
    nice.args(["-n", "10"]).arg(command.get_program()).args(command.get_args()).process_group(0);
    nice.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log).spawn()
}

fn group(leader: &Child) -> Pid {
    Pid::from_raw(i32::try_from(leader.id()).expect("a process id is a small number"))
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::{Path, PathBuf};
    use std::process::Command;
    use std::thread;
    use std::time::Duration;

    use toolbox::checkout::target_folder;

    use super::Background;

    fn shell(script: &str) -> Command {
        let mut sh = Command::new("sh");
        sh.args(["-c", script]);
        sh
    }

    fn wait_until(what: &str, is_so: impl Fn() -> bool) {
        for _ in 0..1_000 {
            if is_so() {
                return;
            }
            thread::park_timeout(Duration::from_millis(10));
        }
        panic!("{what} for ten seconds");
    }

    #[test]
    fn one_follows_the_other_and_a_failure_ends_the_row() {
        let row = vec![("first", shell("echo 1")), ("second", shell("exit 3")), ("third", shell("true"))];
        let mut background = Background::start(row, &target_folder().join("background-row")).unwrap();
        background.wait_for("first").unwrap();
        let error = background.wait_for("third").unwrap_err();
        assert!(error.to_string().contains("second ended with"), "{error}");
        assert!(background.wait_for("third").is_err(), "it was never started");
    }

    #[test]
    fn what_runs_ends_with_it() {
        let logs = target_folder().join("background-end");
        let log: PathBuf = logs.join("endless");
        let _ = fs::remove_file(&log);
        // The shell's child must end too.
        let row = vec![("endless", shell("sleep 600 & echo $!; wait"))];
        let background = Background::start(row, &logs).unwrap();
        let child = || fs::read_to_string(&log).unwrap_or_default().trim().to_owned();
        wait_until("nothing was started", || !child().is_empty());
        let process = Path::new("/proc").join(child());
        assert!(process.exists());
        drop(background);
        wait_until("the child lives on", || !process.exists());
    }
}
