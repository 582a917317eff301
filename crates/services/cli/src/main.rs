//! `warpyard`: reads arguments, runs one command, prints, exits.

use std::io::Write;
use std::process::ExitCode;

use clap::Parser;
use cli::args::Cli;
use cli::exit::{Failure, Output};

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    // Wrong usage ends here with 2.
    let cli = Cli::parse();
    let Output { stdout, stderr, exit } = cli::commands::run(cli).await.unwrap_or_else(Failure::into_output);
    // The reader of stdout may have seen enough (`warpyard ls | head`); that is no failure.
    let _ = std::io::stdout().write_all(stdout.as_bytes());
    let _ = std::io::stderr().write_all(stderr.as_bytes());
    exit.into()
}
