//! The binary `warpyard-scheduler`; see the library for what it does.

use std::process::ExitCode;

use clap::Parser;
use mimalloc::MiMalloc;
use scheduler::args::Args;
use tracing::error;

/// Binds and watch events are many small allocations by many threads; glibc spends a quarter of the process's time on them.
#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

#[tokio::main]
async fn main() -> ExitCode {
    let args = Args::parse();
    service_kit::logs::init(args.common.log_format);
    #[cfg(feature = "failpoints")]
    let _failpoints = fail::FailScenario::setup();
    match scheduler::lead::run(args).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            error!(error = format!("{error:#}"), "Stopped.");
            ExitCode::FAILURE
        }
    }
}
