//! The forms in which commands print answers and names.

use api_types::rest::{RunSummary, RunView};
use serde::Serialize;

use crate::args::OutputFormat;
use crate::exit::{Exit, Failure};
use crate::render;

/// After a write, people and scripts want the name.
pub(crate) fn submitted(format: OutputFormat, run: &RunView) -> Result<String, Failure> {
    let format = if format == OutputFormat::Table { OutputFormat::Name } else { format };
    print(format, run, || full_name(&run.summary))
}

pub(crate) fn print(
    format: OutputFormat,
    data: &impl Serialize,
    name: impl FnOnce() -> String,
) -> Result<String, Failure> {
    let unprintable = |error: String| Failure::new(Exit::Failed, format!("cannot print the answer: {error}"));
    let text = match format {
        OutputFormat::Json => {
            serde_json::to_string_pretty(data).map_err(|error| unprintable(error.to_string()))?
        }
        OutputFormat::Yaml => {
            serde_norway::to_string(data).map_err(|error| unprintable(error.to_string()))?
        }
        OutputFormat::Name | OutputFormat::Table | OutputFormat::Csv => render::clean_lines(&name()),
    };
    Ok(if text.is_empty() || text.ends_with('\n') { text } else { text + "\n" })
}

pub(crate) fn names(names: impl Iterator<Item = String>) -> String {
    names.map(|name| name + "\n").collect()
}

pub(crate) fn full_name(run: &RunSummary) -> String {
    format!("{}/{}", run.namespace, run.name)
}
