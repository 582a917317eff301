//! Which gangs start where now, which give way, and why the others wait: one pure function from state to [`Plan`].
//!
//! ```text
//!   held gangs ──► land                                                          evict/held.rs
//!   waiting gangs, in order ──► read ──► quota ──► search ──► delays none ──► Place: kept in the plan's fork
//!        order/               gang.rs   quota/    search/      backfill/
//!                                │         │         │             │
//!                                └─────────┴─────────┴─────────────┴──► Wait, Never: every reason, with numbers
//!                                                                         ├► room is made for it        evict/
//!                                                                         └► it may count on something  backfill/
//! ```
//!
//! The rules, in the order in which they are applied:
//! 1. Gangs for which room was made start there as soon as those that gave way are gone (`evict/held.rs`).
//! 2. The order: gangs that finish their start, then priority, then the tree of queues by share, then within a queue
//!    deadlines, expected work and age (`order/`).
//! 3. A gang that is not all there, is gated, or asks for what we cannot honour is not placed (`gang.rs`).
//! 4. Its queue and every queue above must have room and budget for what it still needs (`quota/`). A gang that finishes
//!    its start was granted that before, and is not asked again ([`Gang::finishes_its_start`](cluster_model::Gang)).
//! 5. All of its members get nodes, of one GPU type and as near to each other as it requires, or none does (`search/`).
//!    As many of its optional members start as fit (`elastic.rs`).
//! 6. No gang that starts delays a reservation or makes another gang miss its deadline (`backfill/`, `order/deadline/`).
//! 7. For a blocked gang others are moved, or give way, if the policy has a rule for it (`evict/`).
//! 8. Else it may get a reservation, or gather nodes if it waited far too long (`backfill/`). The next one is considered.
//!
//! This crate never acts, and never reads a clock. The state is left as it was found.

mod backfill;
mod decide;
mod elastic;
mod evict;
mod gang;
mod order;
pub mod policies;
mod quota;
mod search;
#[cfg(feature = "testing")]
pub mod testing;

pub use cluster_model::plan::{GangPlacement, MemberPlacement, Plan, Refusals, WaitReason, WaitingGang};

pub use cluster_model::policy::{
    Backfill, ConsolidationPolicy, EnergyPolicy, EvictionPolicy, OrderPolicy, Outruns, Packing, Policy,
};

use cluster_model::{ClusterState, Fork, GangKey};
use jiff::Timestamp;

use crate::backfill::Reservations;
use crate::decide::{Deciding, Verdict};
use crate::evict::{Claimant, Evictions, Start, Stop};
use crate::gang::Request;
use crate::order::Order;
use crate::search::Searches;

/// Decides about every gang that waits. The same state gives the same plan.
pub fn plan(state: &mut ClusterState, policy: &Policy, now: Timestamp) -> Plan {
    let mut plan = Plan::empty(state.generation(), now);
    let searches = Searches::resume(policy, state);
    let mut planned = state.fork();
    let evictions = Evictions::new(&mut planned, &mut plan, policy);
    let order = Order::new(&planned, policy, now);
    let reservations = Reservations::new(policy, now);
    let planning = Planning { planned, searches, evictions, order, reservations, plan };
    let (plan, searches) = planning.run();
    searches.remember(state);
    plan
}

/// A plan in the making: what is decided so far, and the state as it will be then.
struct Planning<'a> {
    planned: Fork<'a>,
    searches: Searches,
    evictions: Evictions<'a>,
    order: Order,
    reservations: Reservations,
    plan: Plan,
}

impl Planning<'_> {
    fn run(mut self) -> (Plan, Searches) {
        while let Some(gang) = self.order.next(&self.planned) {
            self.decide_about(&gang);
        }
        let moments = [self.evictions.look_again_at(), self.order.look_again_at()];
        self.plan.look_again_at = moments.into_iter().flatten().min();
        (self.plan, self.searches)
    }

    fn decide_about(&mut self, gang: &GangKey) {
        let Self { planned, searches, evictions, order, reservations, .. } = self;
        let request = Request::read(planned, gang);
        match evictions.stopped(planned, gang).or_else(|| order.stopped(&request).map(Stop::Waits)) {
            Some(Stop::Waits(reason)) => return self.wait(request, vec![reason]),
            Some(Stop::Decided) => return,
            None => {}
        }
        match (Deciding { searches, reservations, order }).decide(planned, &request) {
            Verdict::Place(placement) => self.place(request, placement),
            Verdict::Wait(reasons) => self.help(request, reasons),
            Verdict::Never(reasons) => self.wait(request, reasons),
        }
    }

    fn place(&mut self, request: Request, placement: GangPlacement) {
        self.order.started(&self.planned, &request);
        match self.evictions.start(&mut self.planned, placement) {
            Start::Now(placement) => self.plan.placements.push(placement),
            Start::Held(hold, reason) => {
                self.plan.holds.push(hold);
                self.wait(request, vec![reason]);
            }
        }
    }

    /// Makes room for a blocked gang, or gives it something to count on.
    fn help(&mut self, request: Request, mut reasons: Vec<WaitReason>) {
        let Self { planned, searches, evictions, order, reservations, plan } = self;
        let mut claimant = Claimant { request: &request, reasons: &mut reasons, searches, reservations };
        if let Some(room) = evictions.make_room(planned, &mut claimant) {
            order.started(planned, &request);
            plan.evictions.extend(room.evictions);
            plan.holds.extend(room.holds);
        } else {
            let waiting_members =
                |state: &ClusterState| state.gang(&request.key).map(|it| it.pending().len());
            let before = waiting_members(planned);
            plan.reservations.extend(reservations.grant(planned, &request, &reasons, searches));
            if waiting_members(planned) < before {
                evictions.gathers(planned, &request.key);
            }
            order.blocked(&request);
        }
        self.wait(request, reasons);
    }

    fn wait(&mut self, request: Request, reasons: Vec<WaitReason>) {
        let Request { key: gang, run, first_pod, .. } = request;
        self.plan.waiting.push(WaitingGang { gang, run, first_pod, reasons });
    }
}
