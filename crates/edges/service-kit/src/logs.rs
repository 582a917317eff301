//! Logs: to stderr, unbuffered, so that the last line before a crash is there.

use std::io::IsTerminal;

use tracing_subscriber::EnvFilter;

use crate::args::LogFormat;

/// The filter without `RUST_LOG`. The client logs, as errors, failures that its callers handle and log
/// themselves.
const DEFAULT_FILTER: &str = "info,kube_client=off,tower=warn,hyper=warn";

/// Starts logging for this process; call it once, first.
pub fn init(format: LogFormat) {
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new(DEFAULT_FILTER));
    let colours = std::io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none();
    let builder =
        tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).with_ansi(colours);
    match format {
        LogFormat::Text => builder.with_target(false).init(),
        LogFormat::Json => {
            builder.json().flatten_event(true).with_current_span(false).with_span_list(false).init();
        }
    }
}
