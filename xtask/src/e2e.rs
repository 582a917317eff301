//! `cargo xtask e2e`: the end-to-end tests, one binary, on the real servers.

use std::process::Command;

use clap::Args;

use crate::commands::{self, cargo};
use crate::{builds, packages, portal, python};

/// Tests that together go through every process. None needs failpoints, which no release build has.
const WHAT_SHIPS: &[&str] = &[
    "api::every_route_asks_who_you_are",
    "attempts::a_notice_tells_all_members",
    "cleanup::",
    "cost::",
    "fence::of_binds_those_of_the_leader_pass",
    "gangs::",
    "logs::",
    "machines::a_gang_gets_all_of_its_machines",
    "node_agent::an_xid_taints",
    "outlook::",
    "portal::",
    "preempt::a_gang_that_borrows_gives_way",
    "thread::",
];

/// Arguments of `cargo xtask e2e`.
#[derive(Args, Default)]
pub struct E2eArgs {
    /// Test the release build, as it ships: without names, the tests that together go through every process.
    #[arg(long)]
    release: bool,
    /// Run only tests whose name contains one of these.
    filters: Vec<String>,
}

impl E2eArgs {
    /// Only tests whose name contains this.
    pub fn only(filter: &str) -> Self {
        Self { filters: vec![filter.to_owned()], release: false }
    }

    /// Every process, as it ships.
    pub fn release() -> Self {
        Self { filters: Vec::new(), release: true }
    }

    /// Only tests whose name contains one of these.
    pub fn any_of(filters: &[&str]) -> Self {
        Self { filters: filters.iter().map(ToString::to_string).collect(), release: false }
    }

    /// Whether the filters may select tests of a module.
    fn wants(&self, module: &str) -> bool {
        let names_it = |filter: &String| module.contains(filter.as_str()) || filter.starts_with(module);
        (self.filters.is_empty() && !self.release) || self.filters.iter().any(names_it)
    }
}

/// Builds our binaries with their failpoints, then runs the tests against them.
pub fn run(args: &E2eArgs) -> anyhow::Result<()> {
    build(args)?;
    commands::run(&mut test(args))
}

/// Builds and installs everything that the tests need.
pub fn build(args: &E2eArgs) -> anyhow::Result<()> {
    packages::install()?;
    portal::build_if_stale()?;
    if args.wants("training::") {
        python::install()?;
    }
    if args.release { commands::run(&mut builds::measured()) } else { builds::build_platform() }
}

/// The command that builds and runs the tests.
pub fn test(args: &E2eArgs) -> Command {
    let mut test = cargo(&["test", "--test", "e2e"]);
    // Three at a time: a test mostly waits for leases to run out and pods to end. Two leave two cores idle for more than half
    // of the time.
    test.args(builds::WHOLE_WORKSPACE).args(["--", "--nocapture", "--test-threads=3"]);
    if args.release {
        test.env("WARPYARD_BUILD", "release");
        if args.filters.is_empty() {
            test.args(WHAT_SHIPS);
        }
    }
    test.args(&args.filters);
    test
}
