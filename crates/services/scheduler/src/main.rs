//! The binary `warpyard-scheduler`; see the library for what it does.

use std::process::ExitCode;

use clap::Parser;
use mimalloc::MiMalloc;
use scheduler::args::Args;
use tracing::error;

/// Binds and watch events make many small allocations on many threads. With glibc's allocator they take a
/// quarter of the process's time.
#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

// The dispatcher has a thread of its own. One more is enough for all requests, and waking a second for each
// answer costs more than it saves.
#[tokio::main(worker_threads = 1)]
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
