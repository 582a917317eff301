//! The effects of a plan, each given to the writer that carries it out.
//!
//! ```text
//!   WriteHold, DeleteHold ─► HoldWriter          Evict, CallOff ─► Evictor (after the Holds)
//!   Bind ─► Binder (after the pod's own status)  events ─► EventWriter
//! ```

use cluster_model::PodKey;
use cluster_model::plan::{Effect, EvictCause, EvictRequest, EvictionRule, HoldEnd};
use tokio::sync::mpsc;
use tracing::{info, warn};

use crate::binder::{BindReport, BindRequest, Binder};
use crate::events::{EventRequest, EventWriter};
use crate::evictor::{EvictReport, Evictor};
use crate::holds::HoldWriter;
use crate::status::{StatusWriter, Target};
use crate::writes::{Fenced, Writes};

/// Takes effects, and writes them in the background.
pub struct EffectWriter {
    binder: Binder,
    evictor: Evictor,
    holds: HoldWriter,
    events: EventWriter,
    status: StatusWriter,
}

/// The process that writes, and how much it writes at a time.
#[derive(Clone, Debug)]
pub struct WriterSettings {
    /// The epoch in which it leads.
    pub epoch: i64,
    /// Its instance's name, for people.
    pub instance: String,
    /// Binds at a time.
    pub binds_in_flight_max: usize,
}

/// Channels that report how effects ended.
#[derive(Clone, Debug)]
pub struct Reports {
    /// How binds ended: one report for each pod.
    pub binds: mpsc::UnboundedSender<BindReport>,
    /// How evictions ended: one report for each request.
    pub evictions: mpsc::UnboundedSender<EvictReport>,
}

impl EffectWriter {
    /// Starts writing. `status` writes the conditions of pods that wait.
    pub fn start(
        writes: &Writes,
        leader: WriterSettings,
        status: StatusWriter,
        fenced: &Fenced,
        reports: Reports,
    ) -> Self {
        let WriterSettings { epoch, instance, binds_in_flight_max } = leader;
        let holds = HoldWriter::start(writes.clone(), epoch, fenced.clone());
        let binder =
            Binder::start(writes.clone(), binds_in_flight_max, status.clone(), fenced.clone(), reports.binds);
        let evictor = Evictor::start(writes.clone(), holds.clone(), fenced.clone(), reports.evictions);
        let events = EventWriter::start(writes.clone(), fenced.clone(), instance);
        Self { binder, evictor, holds, events, status }
    }

    /// Carries effects out, in their order as far as one depends on another.
    pub fn write(&self, effects: Vec<Effect>) {
        let mut binds = Vec::new();
        for effect in effects {
            match effect {
                Effect::Bind(placement) => {
                    info!(
                        gang = %placement.gang, queue = %placement.queue, members = placement.members.len(),
                        "Placed gang."
                    );
                    for member in placement.members {
                        // Once the pod may have a node, its condition must not be written any more.
                        self.status.forget(&Target::Pod(member.pod.clone()));
                        binds.push(BindRequest { pod: member.pod, node: member.node });
                    }
                }
                Effect::WriteHold(hold) => {
                    info!(gang = %hold.gang, victims = hold.victims.len(), rule = ?hold.rule, "Holds room.");
                    self.holds.write(hold);
                }
                Effect::DeleteHold { gang, end } => {
                    match end {
                        HoldEnd::Served => {}
                        HoldEnd::Expired { member } => {
                            warn!(%gang, "Gave up the nodes held for a gang: its victims did not leave in time.");
                            self.events.submit(hold_expired(member));
                        }
                        HoldEnd::GivenUp => {
                            info!(%gang, "Gave up the nodes held for a gang: others have them.");
                        }
                        HoldEnd::Dropped => info!(%gang, "Dropped a hold of the former leader."),
                    }
                    self.holds.delete(&gang);
                }
                Effect::Evict(request) => {
                    let (gang, cause) = (&request.gang, &request.cause);
                    let pods = request.pods.len();
                    match cause {
                        // Something went wrong before; the other causes are the platform's daily work.
                        EvictCause::Unwind { .. } => warn!(%gang, pods, %cause, "Unwinding gang."),
                        EvictCause::Claim { .. } | EvictCause::Move { .. } => {
                            info!(%gang, pods, %cause, "Evicting gang.");
                        }
                    }
                    if let Some(event) = evicted(&request) {
                        self.events.submit(event);
                    }
                    self.evictor.evict(request);
                }
                Effect::CallOff(gang) => self.evictor.call_off(gang),
            }
        }
        if !binds.is_empty() {
            self.binder.bind(binds);
        }
    }

    /// Begins nothing more, and waits for the requests under way until the server would give them
    /// up.
    pub async fn stop(self) {
        let Self { binder, evictor, holds, events, status } = self;
        tokio::join!(binder.stop(), evictor.stop(), holds.stop(), events.stop(), status.stop());
    }
}

fn hold_expired(pod: PodKey) -> EventRequest {
    let note = "gave up the nodes held for its gang: the victims did not leave in time".to_owned();
    EventRequest { pod, reason: "HoldExpired", action: "Release", note }
}

/// One event, about its first pod, for a gang that makes room or moves.
fn evicted(request: &EvictRequest) -> Option<EventRequest> {
    let reason = match request.cause {
        EvictCause::Claim { rule: EvictionRule::Priority | EvictionRule::ExpectedWork, .. } => "Preempted",
        EvictCause::Claim { rule: EvictionRule::Reclaim, .. } => "Reclaimed",
        EvictCause::Claim { rule: EvictionRule::Consolidation, .. } | EvictCause::Move { .. } => "Moved",
        // The condition of each pod says it.
        EvictCause::Unwind { .. } => return None,
    };
    let note = format!("gang {}: {}", request.gang, request.told());
    Some(EventRequest { pod: request.pods.first()?.clone(), reason, action: "Evict", note })
}
