//! Arguments of the scheduler.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::ensure;
use clap::Parser;
use service_kit::args::{CommonArgs, LeaseArgs, parse_duration};

/// Places pods with `schedulerName: warpyard`. Any number of processes may run; one of them leads.
#[derive(Parser, Clone, Debug)]
#[command(name = "warpyard-scheduler", version)]
pub struct Args {
    #[command(flatten)]
    #[expect(missing_docs, reason = "flattened")]
    pub common: CommonArgs,
    #[command(flatten)]
    #[expect(missing_docs, reason = "flattened")]
    pub lease: LeaseArgs,
    /// How long a new leader waits until the former one's writes have ended. Must be longer than the write
    /// timeout plus the time in which every API server learns of a new leader.
    #[arg(long, default_value = "5s", value_parser = parse_duration)]
    pub settle: Duration,
    /// After this time the API server gives up a write.
    #[arg(long, default_value = "3s", value_parser = parse_duration)]
    pub write_timeout: Duration,
    /// A YAML file with settings of the policy, in the format of `warpyard simulate --policy`. `base` names the
    /// policy that it starts from; the default is `installed`. Read once, at the start.
    #[arg(long, value_name = "FILE")]
    pub policy: Option<PathBuf>,
    /// How long a gang may be bound in part without progress before it gives back its nodes.
    #[arg(long, default_value = "45s", value_parser = parse_duration)]
    pub unwind_after: Duration,
    /// Binds under way at the same time, at most.
    #[arg(long, default_value_t = 64, value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub binds_in_flight: u16,
    /// Buy machines of the cluster's `MachineType`s for waiting gangs, and give them back, through Karpenter.
    /// Needs the rights in `deploy/machines/`.
    #[arg(long)]
    pub buy_machines: bool,
    /// Send traces of decisions (plan, bind, bound) to this OpenTelemetry collector, such as `http://127.0.0.1:4318`.
    #[arg(long, value_name = "URL")]
    pub otlp_endpoint: Option<String>,
    /// While leading, write the cluster's history to this file, as a trace for `warpyard simulate`. At 256 MiB
    /// the file is renamed to FILE.1 and replaces an earlier FILE.1.
    #[arg(long, value_name = "FILE")]
    pub record: Option<PathBuf>,
    /// An independent judge looks at a plan now and then. The first three that it finds wrong are written here, with
    /// the state they were made from, up to 100 MB each. Without it, into a folder for temporary files.
    #[arg(long, value_name = "FOLDER")]
    pub wrong_plans: Option<PathBuf>,
    /// Address at which the leader answers the API server, over TLS; port 0 picks a free port.
    #[arg(long, default_value = "127.0.0.1:0", value_name = "ADDRESS")]
    pub leader_listen: SocketAddr,
    /// The same address as other processes reach it, as HOST:PORT; the default is the address itself. Needed if
    /// the process listens on every address.
    #[arg(long, value_name = "ADDRESS")]
    pub leader_address: Option<String>,
}

impl Args {
    /// Refuses times that contradict each other, and an address that other processes cannot reach.
    pub fn validate(&self) -> anyhow::Result<()> {
        ensure!(
            self.settle > self.write_timeout && !self.write_timeout.is_zero(),
            "--settle {:?} must be longer than --write-timeout {:?}\n\n\
             hint: a new leader must not plan while a write of the former one can still happen",
            self.settle,
            self.write_timeout
        );
        ensure!(
            !self.leader_listen.ip().is_unspecified() || self.leader_address.is_some(),
            "--leader-listen {} means every address of this machine, which others cannot call\n\n\
             hint: add --leader-address with the pod's own address, for example $(POD_IP):{}",
            self.leader_listen,
            self.leader_listen.port()
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

    #[test]
    fn a_leader_that_listens_everywhere_must_say_where_it_is() {
        let parse = |args: &[&str]| {
            Args::parse_from(["warpyard-scheduler"].iter().chain(args).copied()).validate().is_ok()
        };
        assert!(parse(&["--leader-listen", "10.0.0.1:8443"]));
        assert!(parse(&["--leader-listen", "0.0.0.0:8443", "--leader-address", "10.0.0.1:8443"]));
        assert!(!parse(&["--leader-listen", "0.0.0.0:8443"]));
        assert!(!parse(&["--leader-listen", "[::]:8443"]));
    }
}
