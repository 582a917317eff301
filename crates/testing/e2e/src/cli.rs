//! Runs the command line like a user.

use std::path::PathBuf;
use std::process::{Command, Output};

use anyhow::{Context, ensure};

/// `warpyard` for one user in one namespace.
#[derive(Clone, Debug)]
pub struct Cli {
    /// Where it was built.
    pub binary: PathBuf,
    /// The user's home; an empty folder will do.
    pub home: PathBuf,
    /// The server.
    pub url: String,
    /// The user's token.
    pub token: String,
    /// The namespace.
    pub namespace: String,
}

impl Cli {
    /// The command, ready to run.
    pub fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(&self.binary);
        command
            .args(arguments)
            .env("HOME", &self.home)
            .env("WARPYARD_SERVER", &self.url)
            .env("WARPYARD_TOKEN", &self.token)
            .env("WARPYARD_NAMESPACE", &self.namespace)
            .env_remove("XDG_CONFIG_HOME");
        command
    }

    /// Runs it; any other exit code than `expect` is an error that shows the output.
    pub fn run(&self, arguments: &[&str], expect: i32) -> anyhow::Result<Output> {
        let output = self.command(arguments).output();
        let output = output.with_context(|| format!("failed to start {}", self.binary.display()))?;
        ensure!(
            output.status.code() == Some(expect),
            "warpyard {arguments:?}: expected exit code {expect}: {output:?}"
        );
        Ok(output)
    }

    /// Its output on success.
    pub fn stdout(&self, arguments: &[&str]) -> anyhow::Result<String> {
        let output = self.run(arguments, 0)?;
        String::from_utf8(output.stdout).context("the command line prints text")
    }
}
