//! `cargo xtask quickstart`: runs the README's quickstart as written, so that it stays correct.

use std::fs;
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use toolbox::checkout::repository_root;

use crate::commands;

/// The most commands that a newcomer should need.
const COMMANDS_MAX: usize = 8;
/// The line that `cargo xtask dev` prints when it is up.
const UP: &str = "Warpyard is up";
/// The time limit for compiling and starting.
const UP_WITHIN: Duration = Duration::from_mins(20);
const ENDS_WITHIN: Duration = Duration::from_mins(1);
/// The command that stays in the foreground, in a terminal of its own.
const DEV: &str = "cargo xtask dev";

/// Runs every command of the quickstart, in order.
pub fn run() -> anyhow::Result<()> {
    let readme =
        fs::read_to_string(repository_root().join("README.md")).context("failed to read README.md")?;
    let commands = quickstart_commands(&readme)?;
    ensure!(
        commands.len() <= COMMANDS_MAX,
        "the quickstart has {} commands, and may have at most {COMMANDS_MAX}",
        commands.len()
    );
    let at = commands.iter().position(|command| command.starts_with(DEV));
    let at = at.with_context(|| format!("the quickstart never says `{DEV}`"))?;
    for command in &commands[..at] {
        run_script(command)?;
    }
    let mut dev = Dev::start(&commands[at])?;
    run_script(&commands[at + 1..].join("\n"))?;
    dev.stop()
}

/// The lines of the `sh` blocks between the two marks.
fn quickstart_commands(readme: &str) -> anyhow::Result<Vec<String>> {
    let (_, rest) = readme.split_once("<!-- quickstart -->").context("README.md has no quickstart mark")?;
    let (quickstart, _) =
        rest.split_once("<!-- /quickstart -->").context("README.md's quickstart does not end")?;
    let blocks = quickstart.split("```sh\n").skip(1).filter_map(|block| block.split_once("```"));
    let lines = blocks.flat_map(|(block, _)| block.lines());
    Ok(lines.map(str::trim).filter(|line| !line.is_empty()).map(str::to_owned).collect())
}

fn run_script(script: &str) -> anyhow::Result<()> {
    let mut bash = Command::new("bash");
    bash.args(["-euxo", "pipefail", "-c", script]).current_dir(repository_root());
    commands::run(&mut bash)
}

/// `cargo xtask dev` in its terminal.
struct Dev {
    child: Child,
}

impl Dev {
    fn start(command: &str) -> anyhow::Result<Self> {
        let mut bash = Command::new("bash");
        bash.args(["-c", &format!("exec {command}")]).current_dir(repository_root()).stdout(Stdio::piped());
        let mut child = bash.spawn().with_context(|| format!("failed to start `{command}`"))?;
        let stdout = child.stdout.take().context("no output to read")?;
        let dev = Self { child };
        let (sender, lines) = mpsc::channel();
        std::thread::spawn(move || {
            for line in BufReader::new(stdout).lines().map_while(Result::ok) {
                println!("{line}");
                // Once it is up, the receiver is gone.
                let _ = sender.send(line);
            }
        });
        let deadline = Instant::now() + UP_WITHIN;
        loop {
            let line = lines.recv_timeout(deadline.saturating_duration_since(Instant::now()));
            let line = line.with_context(|| format!("`{command}` did not come up"))?;
            if line.contains(UP) {
                return Ok(dev);
            }
        }
    }

    /// As Ctrl-C does.
    fn stop(&mut self) -> anyhow::Result<()> {
        self.interrupt()?;
        let deadline = Instant::now() + ENDS_WITHIN;
        loop {
            match self.child.try_wait().context("failed to wait for `cargo xtask dev`")? {
                Some(status) if status.success() => return Ok(()),
                Some(status) => bail!("`{DEV}` ended with {status}"),
                None if Instant::now() > deadline => bail!("`{DEV}` did not end within {ENDS_WITHIN:?}"),
                None => std::thread::park_timeout(Duration::from_millis(100)),
            }
        }
    }

    fn interrupt(&self) -> anyhow::Result<()> {
        let pid = i32::try_from(self.child.id()).context("a process id is a small number")?;
        kill(Pid::from_raw(pid), Signal::SIGINT).context("failed to interrupt `cargo xtask dev`")
    }
}

impl Drop for Dev {
    fn drop(&mut self) {
        if matches!(self.child.try_wait(), Ok(None)) {
            let _ = self.interrupt();
            let _ = self.child.wait();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::quickstart_commands;

    #[test]
    fn only_shell_blocks_between_the_marks_count() {
        let readme = "```sh\nbefore\n```\n<!-- quickstart -->\n```sh\none\n\ntwo # why\n```\n```\nshown\n```\n```sh\nthree\n```\n<!-- /quickstart -->\n```sh\nafter\n```\n";
        assert_eq!(quickstart_commands(readme).unwrap(), ["one", "two # why", "three"]);
    }
}
