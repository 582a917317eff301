//! Arguments of `warpyard-api-server`.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::Parser;
use service_kit::args::CommonArgs;

/// Serves the REST API: reads come from one cache, filtered by the caller's rights; writes are made as the
/// caller.
#[derive(Parser, Debug)]
#[command(name = "warpyard-api-server", version)]
pub struct Args {
    /// Kubernetes, logs, health.
    #[command(flatten)]
    pub common: CommonArgs,
    /// Address of the API; port 0 picks a free port and logs it.
    #[arg(long, default_value = "127.0.0.1:8080", value_name = "ADDRESS")]
    pub listen: SocketAddr,
    /// A proxy in front terminates TLS, so tokens do not cross the network in plain text. Needed to listen on
    /// other addresses than loopback, because this server speaks plain HTTP.
    #[arg(long)]
    pub behind_tls: bool,
    /// Write the address that was picked to this file.
    #[arg(long, value_name = "FILE")]
    pub address_file: Option<PathBuf>,
    /// The image for job files that name none.
    #[arg(long, value_name = "IMAGE", default_value = "pytorch/pytorch:2.9.1-cuda12.8-cudnn9-runtime")]
    pub default_image: String,
    /// File with the URL of the ledger's database, for the role `warpyard_reader`. Without it nothing has a cost, and
    /// all else works.
    #[arg(long, value_name = "FILE")]
    pub database_url_file: Option<PathBuf>,
    /// The cluster's name in the ledger; the same as the controllers'.
    #[arg(long, value_name = "NAME", default_value = "default")]
    pub cluster: String,
}

/// Tokens would cross the network in plain text.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error(
    "refusing to listen on {0}: this server speaks plain HTTP, and tokens would cross the network unprotected\n\n\
     hint: listen on loopback, or put a TLS-terminating proxy in front and say so with --behind-tls"
)]
pub struct PlainTokens(SocketAddr);

impl Args {
    /// The address to listen on, if tokens are safe there.
    pub fn checked_listen(&self) -> Result<SocketAddr, PlainTokens> {
        if self.listen.ip().is_loopback() || self.behind_tls {
            Ok(self.listen)
        } else {
            Err(PlainTokens(self.listen))
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::Args;

    fn listens(arguments: &[&str]) -> bool {
        let arguments = std::iter::once("warpyard-api-server").chain(arguments.iter().copied());
        Args::try_parse_from(arguments).expect("the test's arguments are valid").checked_listen().is_ok()
    }

    #[test]
    fn plain_tokens_do_not_leave_the_machine_unless_a_proxy_is_said_to_be_in_front() {
        assert!(listens(&[]));
        assert!(listens(&["--listen", "[::1]:0"]));
        assert!(!listens(&["--listen", "0.0.0.0:8080"]));
        assert!(!listens(&["--listen", "10.0.0.1:8080"]));
        assert!(listens(&["--listen", "0.0.0.0:8080", "--behind-tls"]));
    }
}
