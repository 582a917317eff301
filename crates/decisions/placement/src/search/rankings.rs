//! All rankings that were needed recently.

use std::collections::HashMap;
use std::fmt;

use cluster_model::{ClassId, ClusterState, DomainId, GpuType, NodeId};

use super::ranking::{Ask, ChosenNode, Local, Ranking};
use super::score::Scoring;

/// Entries of all rankings together, about 64 bytes each: 256 MB at the very most. Beyond it all are forgotten.
const ENTRIES_MAX: usize = 4_000_000;

/// What the planner remembers of one state. It changes what a plan costs, never what it says.
#[derive(Default)]
pub(super) struct Rankings {
    scoring: Option<Scoring>,
    all: Vec<(Ask, Ranking)>,
    /// Where to find the ranking for an ask.
    by_ask: HashMap<Ask, usize>,
    /// The one that was asked for last: mostly it is asked for again.
    last: usize,
    entries: usize,
}

impl fmt::Debug for Rankings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Rankings").field("entries", &self.entries).finish_non_exhaustive()
    }
}

impl Rankings {
    /// Forgets what was computed from what is no longer true.
    pub fn renew(&mut self, state: &ClusterState) {
        if !self.scoring.as_ref().is_some_and(|scoring| scoring.is_current(state)) {
            *self = Self { scoring: Some(Scoring::new(state)), ..Self::default() };
        }
        // Which labels classes know may have changed.
        let selects = |ask: &Ask| !ask.shape.node_selector.is_empty() || ask.shape.node_affinity.is_some();
        if self.all.iter().any(|(ask, _)| selects(ask)) {
            self.all.retain(|(ask, _)| !selects(ask));
            self.by_ask = self.all.iter().map(|(ask, _)| ask.clone()).zip(0..).collect();
        }
    }

    /// The best node in all for the next member, among those that are admitted.
    pub fn best(
        &mut self,
        state: &ClusterState,
        gpu_type: Option<&GpuType>,
        ask: &Ask,
        admits: impl Fn(NodeId) -> bool,
    ) -> Option<ChosenNode> {
        self.with(ask, |ranking, scoring| {
            ranking.update(state, scoring, ask);
            ranking.best(state, gpu_type, admits)
        })
    }

    /// See [`Ranking::within`].
    pub fn within(&mut self, state: &ClusterState, place: (DomainId, Option<&GpuType>), ask: &Ask) -> Local {
        self.with(ask, |ranking, scoring| ranking.within(state, place, scoring, ask))
    }

    /// See [`Ranking::insert_local`].
    pub fn insert_local(&mut self, state: &ClusterState, local: &mut Local, class: ClassId, ask: &Ask) {
        self.with(ask, |ranking, scoring| ranking.insert_local(state, local, class, scoring, ask));
    }

    /// See [`Ranking::room`].
    pub fn room(
        &mut self,
        state: &ClusterState,
        place: (DomainId, Option<&GpuType>),
        enough: i64,
        ask: &Ask,
    ) -> i64 {
        self.with(ask, |ranking, scoring| ranking.room(state, place, enough, scoring, ask))
    }

    fn with<T>(&mut self, ask: &Ask, work: impl FnOnce(&mut Ranking, &mut Scoring) -> T) -> T {
        if self.entries > ENTRIES_MAX {
            self.all.clear();
            self.by_ask.clear();
            self.entries = 0;
        }
        self.last = self.index(ask);
        let scoring = self.scoring.as_mut().expect("rankings are renewed before they are asked");
        let (_, ranking) = &mut self.all[self.last];
        let before = ranking.len();
        let result = work(ranking, scoring);
        self.entries = (self.entries + ranking.len()).saturating_sub(before);
        result
    }

    /// Where the ranking for an ask is, new if there is none.
    fn index(&mut self, ask: &Ask) -> usize {
        if self.all.get(self.last).is_some_and(|(last, _)| last == ask) {
            return self.last;
        }
        if let Some(index) = self.by_ask.get(ask) {
            return *index;
        }
        self.all.push((ask.clone(), Ranking::default()));
        self.by_ask.insert(ask.clone(), self.all.len() - 1);
        self.all.len() - 1
    }
}
