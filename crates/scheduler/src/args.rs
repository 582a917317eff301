//! Arguments of the scheduler.

use std::time::Duration;

use anyhow::ensure;
use clap::Parser;
use service_kit::args::{CommonArgs, LeaseArgs, parse_duration};

/// Places pods with `schedulerName: warpyard`. Runs in any number of processes, of which one leads.
#[derive(Parser, Clone, Debug)]
#[command(name = "warpyard-scheduler", version)]
pub struct Args {
    #[command(flatten)]
    #[expect(missing_docs, reason = "flattened")]
    pub common: CommonArgs,
    #[command(flatten)]
    #[expect(missing_docs, reason = "flattened")]
    pub lease: LeaseArgs,
    /// How long a new leader waits for the writes of the former one to end; longer than the write timeout.
    #[arg(long, default_value = "5s", value_parser = parse_duration)]
    pub settle: Duration,
    /// The time after which the API server gives up a write of ours.
    #[arg(long, default_value = "4s", value_parser = parse_duration)]
    pub write_timeout: Duration,
    /// Binds that may be under way at the same time.
    #[arg(long, default_value_t = 64, value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub binds_in_flight: u16,
}

impl Args {
    /// Refuses times that contradict each other.
    pub fn validate(&self) -> anyhow::Result<()> {
        ensure!(
            self.settle > self.write_timeout && !self.write_timeout.is_zero(),
            "--settle {:?} must be longer than --write-timeout {:?}\n\n\
             hint: a new leader must not plan while a write of the former one can still happen",
            self.settle,
            self.write_timeout
        );
        self.lease.times()?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use clap::{CommandFactory, Parser};

    use super::Args;

    #[test]
    fn arguments_are_consistent() {
        Args::command().debug_assert();
    }

    #[test]
    fn a_leader_may_not_plan_while_writes_of_the_former_one_can_happen() {
        let parse = |settle: &str| {
            Args::parse_from(["warpyard-scheduler", "--settle", settle, "--write-timeout", "4s"]).validate()
        };
        assert!(parse("5s").is_ok());
        assert!(parse("4s").is_err());
        assert!(parse("1s").is_err());
    }
}
