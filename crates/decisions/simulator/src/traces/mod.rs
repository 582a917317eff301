//! Traces: text in, workload out. Whoever has a file unpacks and reads it.

pub mod json_lines;
pub mod openb;
pub mod philly;
pub mod spot;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use cluster_model::{GpuType, Terms};

/// A line that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {message}")]
pub struct Error {
    /// Which, from 1.
    pub line: usize,
    /// What is wrong with it.
    pub message: String,
}

/// What many jobs have in common is kept once.
#[derive(Default)]
struct Shared {
    texts: BTreeSet<Arc<str>>,
    gpu_types: BTreeMap<Vec<GpuType>, Arc<[GpuType]>>,
    terms: BTreeMap<Terms, Arc<Terms>>,
}

impl Shared {
    fn text(&mut self, text: &str) -> Arc<str> {
        if let Some(known) = self.texts.get(text) {
            return known.clone();
        }
        let text: Arc<str> = text.into();
        self.texts.insert(text.clone());
        text
    }

    fn gpu_types(&mut self, types: impl IntoIterator<Item = GpuType>) -> Arc<[GpuType]> {
        let mut types: Vec<_> = types.into_iter().collect();
        types.sort();
        types.dedup();
        self.gpu_types.entry(types).or_insert_with_key(|types| types.as_slice().into()).clone()
    }

    fn terms(&mut self, terms: Terms) -> Arc<Terms> {
        self.terms.entry(terms).or_insert_with_key(|terms| Arc::new(terms.clone())).clone()
    }
}

/// The lines of a table without quotes, after its header, with their numbers and as many fields as the header has.
fn rows<'a>(
    text: &'a str,
    header: &'a [&'a str],
) -> Result<impl Iterator<Item = Result<(usize, Vec<&'a str>), Error>>, Error> {
    let mut lines = text.lines();
    let first = lines.next().unwrap_or_default().trim_start_matches('\u{feff}');
    if !first.split(',').map(str::trim).eq(header.iter().copied()) {
        return Err(Error { line: 1, message: format!("the columns must be {}", header.join(",")) });
    }
    Ok(lines.enumerate().filter(|(_, line)| !line.trim().is_empty()).map(|(index, line)| {
        let fields: Vec<&str> = line.split(',').map(str::trim).collect();
        let line = index + 2;
        if fields.len() == header.len() {
            Ok((line, fields))
        } else {
            let message = format!("{} fields instead of {}", fields.len(), header.len());
            Err(Error { line, message })
        }
    }))
}

/// A field that is a number.
fn number<N: std::str::FromStr>(line: usize, column: &str, text: &str) -> Result<N, Error> {
    text.parse()
        .map_err(|_| Error { line, message: format!("{column} is `{text}`, which is not such a number") })
}
