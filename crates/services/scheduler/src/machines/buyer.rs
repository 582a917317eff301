//! The loop that decides about machines, from pictures of the planner's state.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use api_types::MachineType;
use api_types::capacity::CapacityView;
use capacity::View;
use capacity::catalogue::{Catalogue, machine};
use capacity::memory::Memory;
use forecast::Coming;
use futures::StreamExt;
use jiff::Timestamp;
use kube::api::Api;
use kube::runtime::reflector::{self, Store};
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Client, ResourceExt};
use tokio::sync::{Notify, mpsc};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tracing::{debug, info, warn};

use super::{CapacityBackend, Decided, coming, seen};
use crate::tell::desk::Desk;
use crate::tell::picture::Picture;

/// Between two decisions: the picture they are made from costs the planning thread a copy of its state.
const PACE: Duration = Duration::from_millis(500);
/// While nothing was bought and nobody waits, decisions are made so often anyway.
const PACE_IDLE: Duration = Duration::from_secs(5);
/// A picture is there within a plan or two.
const PICTURE_MAX: Duration = Duration::from_secs(5);

/// What people are told while nothing is decided.
const NOT_YET: &str = "nothing was decided yet";
const NO_KARPENTER: &str =
    "the machines that were bought cannot be listed: is Karpenter installed, and deploy/machines/ applied?";
const NO_CATALOGUE: &str = "there is no MachineType to buy";

/// See the module.
pub struct Buyer {
    /// Who buys.
    pub backend: Arc<dyn CapacityBackend>,
    /// What can be bought.
    pub machine_types: Store<MachineType>,
    /// Where pictures are.
    pub desk: Arc<Desk>,
    /// Told when claims or machine types are different.
    pub changed: Arc<Notify>,
    /// Where decisions go.
    pub decided: mpsc::Sender<Decided>,
}

/// What is kept from one decision to the next.
struct Course {
    memory: Memory,
    began: Instant,
    /// Whether those who wait were told something that holds until they are told something else.
    has_told: bool,
}

impl Buyer {
    /// Watches the catalogue.
    pub fn watch_catalogue(client: Client, changed: Arc<Notify>) -> Store<MachineType> {
        let (store, writer) = reflector::store();
        tokio::spawn(async move {
            let api: Api<MachineType> = Api::all(client);
            let events = watcher(api, watcher::Config::default()).default_backoff().reflect(writer);
            let mut events = std::pin::pin!(events);
            while let Some(event) = events.next().await {
                if let Err(error) = event {
                    debug!(%error, "The watch of machine types failed; it begins anew.");
                }
                changed.notify_one();
            }
        });
        store
    }

    /// Decides until it is told to stop.
    pub async fn run(self, stop: CancellationToken) {
        let mut course = Course { memory: Memory::default(), began: Instant::now(), has_told: false };
        let mut wait = Duration::ZERO;
        self.desk.show_capacity(CapacityView::nothing(true, NOT_YET), Vec::new());
        loop {
            tokio::select! {
                () = stop.cancelled() => return,
                () = tokio::time::sleep(wait) => {}
                () = async {
                    // Changes that come together are decided about together.
                    self.changed.notified().await;
                    tokio::time::sleep(PACE.min(wait)).await;
                } => {}
            }
            wait = match self.decide(&mut course).await {
                Some(wait) => wait.clamp(PACE, PACE_IDLE),
                None => PACE_IDLE,
            };
        }
    }

    /// Makes one decision and hands it over; how long until the next, or `None` if nothing is known or can be bought.
    async fn decide(&self, course: &mut Course) -> Option<Duration> {
        let catalogue = Arc::new(catalogue(&self.machine_types));
        let claims = self.backend.claims();
        if catalogue.is_empty() && claims.as_ref().is_none_or(Vec::is_empty) {
            let why = if claims.is_none() { NO_KARPENTER } else { NO_CATALOGUE };
            self.desk.show_capacity(CapacityView::nothing(false, why), Vec::new());
            if std::mem::take(&mut course.has_told) {
                self.hand_over(capacity::Decision::default(), catalogue).await;
            }
            return None;
        }
        let Some(claims) = claims else {
            self.desk.show_capacity(CapacityView::nothing(false, NO_KARPENTER), Vec::new());
            // At first the list is only on its way.
            if course.began.elapsed() > PACE_IDLE {
                course.has_told = true;
                self.refuse(catalogue).await;
            }
            return None;
        };
        let picture = self.desk.new_picture(Instant::now() + PICTURE_MAX).await?;
        let started = Instant::now();
        let taken = std::mem::take(&mut course.memory);
        let with = Arc::clone(&catalogue);
        let made = tokio::task::spawn_blocking(move || make(&picture, &with, &claims, taken)).await;
        let Ok(Made { decision, memory: kept, view, coming }) = made else {
            // It panicked, and was logged where it did; what was remembered is lost, as for a new leader.
            return Some(PACE_IDLE);
        };
        (course.memory, course.has_told) = (kept, true);
        self.desk.show_capacity(view, coming);
        for launch in &decision.launches {
            info!(launch = %launch.key.purpose, machines = launch.machines.len(), why = launch.why, "Buying machines.");
        }
        for release in &decision.releases {
            info!(claim = %release.claim, why = release.why, "Giving back a machine.");
        }
        for it in &decision.moves {
            let (gangs, machines) = (it.gangs.len(), it.leaves.len());
            info!(gang = %it.gangs[0], gangs, machines, why = it.why, "Moving to cheaper machines.");
        }
        debug!(
            took_seconds = started.elapsed().as_secs_f64(),
            under_way = decision.under_way.len(),
            refused = decision.refused.len(),
            "Decided about machines."
        );
        let is_busy = !decision.under_way.is_empty() || !decision.refused.is_empty();
        let now = Timestamp::now();
        let until = decision.look_again_at.map(|at| at.duration_since(now).unsigned_abs());
        self.hand_over(decision, catalogue).await;
        Some(until.unwrap_or(PACE_IDLE).min(if is_busy { PACE } else { PACE_IDLE }))
    }

    /// Tells those who would be bought for that nothing can be bought.
    async fn refuse(&self, catalogue: Arc<Catalogue>) {
        let Some(picture) = self.desk.new_picture(Instant::now() + PICTURE_MAX).await else { return };
        let with = Arc::clone(&catalogue);
        let made = tokio::task::spawn_blocking(move || {
            let now = Timestamp::now().max(picture.state.now());
            let (state, policy) = (&picture.state, &picture.policy);
            let view = View { state, policy, catalogue: &with, claims: &[], now };
            capacity::Decision {
                refused: capacity::buy::nothing(&view, NO_KARPENTER),
                ..capacity::Decision::default()
            }
        });
        if let Ok(decision) = made.await {
            self.hand_over(decision, catalogue).await;
        }
    }

    async fn hand_over(&self, decision: capacity::Decision, catalogue: Arc<Catalogue>) {
        // Without a receiver the process is ending.
        let _ = self.decided.send(Decided { decision, catalogue }).await;
    }
}

/// A decision, with what is told of it.
struct Made {
    decision: capacity::Decision,
    memory: Memory,
    view: CapacityView,
    coming: Vec<Coming>,
}

fn make(
    picture: &Picture,
    catalogue: &Catalogue,
    claims: &[capacity::claim::Claim],
    mut memory: Memory,
) -> Made {
    let now = Timestamp::now().max(picture.state.now());
    let view = View { state: &picture.state, policy: &picture.policy, catalogue, claims, now };
    let decision = super::decide(&view, &mut memory);
    let view = seen::view(&decision, claims, &memory, (&picture.state, &picture.plan), now);
    let coming = coming::coming(&decision, &memory, catalogue, &picture.state, now);
    Made { decision, memory, view, coming }
}

/// What can be bought; a machine type that cannot be read is left out, and said so.
fn catalogue(machine_types: &Store<MachineType>) -> Catalogue {
    let mut catalogue = BTreeMap::new();
    for object in machine_types.state() {
        match machine(&object) {
            Ok(machine) => drop(catalogue.insert(Arc::clone(&machine.name), machine)),
            Err(error) => warn!(machine_type = object.name_any(), %error, "The machine type cannot be used."),
        }
    }
    catalogue
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use capacity::catalogue::Catalogue;
    use capacity::claim::{Claim, Launch};
    use capacity::memory::Memory;
    use cluster_model::NodeName;
    use kube::runtime::reflector;
    use serde_json::Value as Json;
    use tokio::sync::mpsc;
    use tokio::time::Instant;

    use super::{Buyer, Course};
    use crate::machines::CapacityBackend;

    /// Has no machines, or cannot list them.
    struct Without(Option<Vec<Claim>>);

    impl CapacityBackend for Without {
        fn claims(&self) -> Option<Vec<Claim>> {
            self.0.clone()
        }
        fn more_wait(&self) {}
        fn order(&self, _: &Launch, _: &Catalogue) {}
        fn give_back(&self, _: &Arc<str>) {}
        fn patch_node(&self, _: &NodeName, _: Json) {}
    }

    #[tokio::test]
    async fn what_was_told_is_taken_back_once_when_nothing_can_be_bought_any_more() {
        for claims in [None, Some(Vec::new())] {
            let (decided, mut told) = mpsc::channel(8);
            let (machine_types, _writer) = reflector::store();
            let (desk, changed) = (Arc::default(), Arc::default());
            let buyer = Buyer { backend: Arc::new(Without(claims)), machine_types, desk, changed, decided };
            let mut course = Course { memory: Memory::default(), began: Instant::now(), has_told: false };
            buyer.decide(&mut course).await;
            assert!(told.try_recv().is_err(), "there is nothing to take back");
            course.has_told = true;
            buyer.decide(&mut course).await;
            let decision = told.try_recv().expect("a decision").decision;
            assert!(decision.refused.is_empty() && decision.under_way.is_empty());
            buyer.decide(&mut course).await;
            assert!(told.try_recv().is_err(), "once is enough");
        }
    }
}
