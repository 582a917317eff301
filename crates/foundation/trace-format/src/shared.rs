//! Values that many jobs of a trace have in common are kept once.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use cluster_model::{GpuType, Terms};

/// The values seen so far. Equal values share one allocation.
#[derive(Default)]
pub struct Shared {
    texts: BTreeSet<Arc<str>>,
    gpu_types: BTreeMap<Vec<GpuType>, Arc<[GpuType]>>,
    terms: BTreeMap<Terms, Arc<Terms>>,
}

impl Shared {
    /// The text, shared with all that are equal to it.
    pub fn text(&mut self, text: &str) -> Arc<str> {
        if let Some(known) = self.texts.get(text) {
            return known.clone();
        }
        let text: Arc<str> = text.into();
        self.texts.insert(text.clone());
        text
    }

    /// GPU types, sorted and without repetition.
    pub fn gpu_types(&mut self, types: impl IntoIterator<Item = GpuType>) -> Arc<[GpuType]> {
        let mut types: Vec<_> = types.into_iter().collect();
        types.sort();
        types.dedup();
        self.gpu_types.entry(types).or_insert_with_key(|types| types.as_slice().into()).clone()
    }

    /// The terms, shared with all that are equal to them.
    pub fn terms(&mut self, terms: Terms) -> Arc<Terms> {
        self.terms.entry(terms).or_insert_with_key(|terms| Arc::new(terms.clone())).clone()
    }
}
