//! `cargo xtask e2e`: the end-to-end tests, one binary, on the real servers.

use clap::Args;

use crate::commands::{self, cargo};
use crate::{packages, portal, python};

/// Arguments of `cargo xtask e2e`.
#[derive(Args, Default)]
pub struct E2eArgs {
    /// Run only tests whose name contains one of these.
    filters: Vec<String>,
}

impl E2eArgs {
    /// Only tests whose name contains this.
    pub fn only(filter: &str) -> Self {
        Self { filters: vec![filter.to_owned()] }
    }

    /// Whether tests of a module may be among those asked for.
    fn wants(&self, module: &str) -> bool {
        let names_it = |filter: &String| module.contains(filter.as_str()) || filter.starts_with(module);
        self.filters.is_empty() || self.filters.iter().any(names_it)
    }
}

/// Builds our binaries with their failpoints, then runs the tests against them.
pub fn run(args: &E2eArgs) -> anyhow::Result<()> {
    packages::install()?;
    portal::build_if_stale()?;
    if args.wants("training::") {
        python::install()?;
    }
    // The whole workspace each time: with a part of it, dependencies get other features and are all built again.
    commands::run(&mut cargo(&["build", "--workspace", "--bins", "--features", "scheduler/failpoints"]))?;
    // Two at a time: most of a test is waiting, for leases to run out and pods to end.
    let mut test = cargo(&["test", "--workspace", "--test", "e2e", "--", "--nocapture", "--test-threads=2"]);
    commands::run(test.args(&args.filters))
}
