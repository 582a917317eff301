//! Arguments of the node agent.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::ensure;
use clap::{Parser, ValueEnum};
use reqwest::Url;
use service_kit::args::{CommonArgs, parse_duration};

/// Watches one machine for notices of its cloud and for sick GPUs, and marks its Node.
#[derive(Parser, Clone, Debug)]
#[command(name = "warpyard-node-agent", version)]
pub struct Args {
    #[command(flatten)]
    #[expect(missing_docs, reason = "flattened")]
    pub common: CommonArgs,
    /// The Node of this machine.
    #[arg(long, env = "NODE_NAME", value_name = "NAME")]
    pub node_name: String,
    /// The cloud whose notices to watch for.
    #[arg(long, value_enum, default_value_t = Cloud::None)]
    pub cloud: Cloud,
    /// The address of the cloud's metadata, over plain HTTP.
    #[arg(long, value_name = "URL", default_value = "http://169.254.169.254")]
    pub metadata_url: Url,
    /// Time between two requests to the cloud's metadata.
    #[arg(long, default_value = "1s", value_parser = parse_duration)]
    pub poll: Duration,
    /// How long an answer may take.
    #[arg(long, default_value = "2s", value_parser = parse_duration)]
    pub poll_timeout: Duration,
    /// The kernel log to watch for errors of the NVIDIA driver: /dev/kmsg.
    #[arg(long, value_name = "FILE")]
    pub kmsg: Option<PathBuf>,
    /// The metrics of DCGM exporter on this machine, over plain HTTP, such as `http://127.0.0.1:9400/metrics`.
    #[arg(long, value_name = "URL")]
    pub dcgm_url: Option<Url>,
    /// Time between two requests to DCGM exporter, which itself updates every 30 s.
    #[arg(long, default_value = "10s", value_parser = parse_duration)]
    pub dcgm_poll: Duration,
    /// The file whose content differs after each boot.
    #[arg(long, value_name = "FILE", default_value = "/proc/sys/kernel/random/boot_id")]
    pub boot_id_file: PathBuf,
    /// How long before scheduled maintenance the machine takes no new pods.
    #[arg(long, default_value = "1h", value_parser = parse_duration)]
    pub maintenance_lead: Duration,
    /// Time between two checks of the Node, while nothing happens.
    #[arg(long, default_value = "5m", value_parser = parse_duration)]
    pub resync: Duration,
}

/// The supported clouds.
#[derive(ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cloud {
    /// Amazon EC2.
    Aws,
    /// Google Compute Engine.
    Gcp,
    /// Microsoft Azure.
    Azure,
    /// A machine of your own: there is no cloud to ask.
    None,
}

impl Args {
    /// Refuses arguments without anything to watch, without a pause, or with unusable endpoints.
    pub fn validate(&self) -> anyhow::Result<()> {
        ensure!(
            self.cloud != Cloud::None || self.kmsg.is_some() || self.dcgm_url.is_some(),
            "there is nothing to watch\n\nhint: give --cloud, --kmsg or --dcgm-url"
        );
        let times = [self.poll, self.poll_timeout, self.dcgm_poll, self.resync];
        ensure!(
            times.iter().all(|time| *time >= Duration::from_millis(10)),
            "--poll, --poll-timeout, --dcgm-poll and --resync must be 10ms or longer"
        );
        for url in [Some(&self.metadata_url), self.dcgm_url.as_ref()].into_iter().flatten() {
            ensure!(
                url.scheme() == "http",
                "{url} is not plain HTTP: the agent uses no TLS on its own machine"
            );
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use clap::{CommandFactory, Parser};

    use super::Args;

    fn is_valid(more: &[&str]) -> bool {
        let words = ["warpyard-node-agent", "--node-name", "node-0"];
        Args::parse_from(words.iter().chain(more).copied()).validate().is_ok()
    }

    #[test]
    fn arguments_are_consistent() {
        Args::command().debug_assert();
    }

    #[test]
    fn there_must_be_something_to_watch() {
        assert!(!is_valid(&[]));
        assert!(is_valid(&["--cloud", "aws"]));
        assert!(is_valid(&["--kmsg", "/dev/kmsg"]));
        assert!(is_valid(&["--dcgm-url", "http://127.0.0.1:9400/metrics"]));
    }

    #[test]
    fn it_must_be_watched_with_pauses_and_in_plain_text() {
        assert!(!is_valid(&["--cloud", "aws", "--poll", "0s"]));
        assert!(!is_valid(&["--cloud", "aws", "--resync", "0s"]));
        assert!(!is_valid(&["--cloud", "aws", "--metadata-url", "https://169.254.169.254"]));
        assert!(!is_valid(&["--dcgm-url", "https://127.0.0.1:9400/metrics"]));
    }
}
