//! The loop that decides about machines, from pictures of the planner's state.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use api_types::capacity::CapacityView;
use api_types::{BuyingPolicy, MachineType};
use capacity::View;
use capacity::caps::Buying;
use capacity::catalogue::{Catalogue, machine};
use capacity::memory::Memory;
use forecast::Coming;
use jiff::Timestamp;
use kube::api::Api;
use kube::runtime::reflector::Store;
use kube::runtime::watcher;
use kube::{Client, ResourceExt};
use tokio::sync::{Notify, mpsc};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tracing::{debug, info, warn};

use super::backend::{CapacityBackend, Decided, decide};
use super::karpenter_backend::policy;
use super::kept::{keep, listed};
use super::{coming, seen};
use crate::metrics::machines::{LaunchOutcome, MachineMetrics};
use crate::tell::desk::Desk;
use crate::tell::picture::Picture;

/// Time between two decisions: each needs a picture, for which the planning thread copies its state.
const PACE: Duration = Duration::from_millis(500);
/// Time between two decisions while nothing is bought and no gang waits.
const PACE_IDLE: Duration = Duration::from_secs(5);
/// A picture is there within a plan or two.
const PICTURE_MAX: Duration = Duration::from_secs(5);

/// The reason shown before the first decision.
const NOT_YET: &str = "no decision yet";
const NO_KARPENTER: &str =
    "the machines that were bought cannot be listed: is Karpenter installed, and deploy/machines/ applied?";
const NO_TYPES: &str = "the MachineTypes cannot be listed: are deploy/crds/ and deploy/machines/ applied?";
const NO_CATALOGUE: &str = "there is no MachineType to buy";

/// The loop that decides about machines.
pub struct Buyer {
    /// The backend that buys.
    pub backend: Arc<dyn CapacityBackend>,
    /// The machine types of the cluster.
    pub machine_types: Store<MachineType>,
    /// Whether machines are bought, and how many at most.
    pub policies: Store<BuyingPolicy>,
    /// Why this process buys nothing, if it does not. What was bought is given back all the same.
    pub stopped: Option<&'static str>,
    /// What people watch.
    pub metrics: MachineMetrics,
    /// The desk with the pictures.
    pub desk: Arc<Desk>,
    /// Notified when claims or machine types change.
    pub changed: Arc<Notify>,
    /// Where decisions go.
    pub decided: mpsc::Sender<Decided>,
}

/// Memory from one decision to the next.
struct Course {
    memory: Memory,
    began: Instant,
    /// Whether waiting gangs have a reason that stays until the next decision.
    has_told: bool,
}

impl Buyer {
    /// Watches the catalogue.
    pub fn watch_catalogue(client: Client, changed: Arc<Notify>) -> Store<MachineType> {
        keep(Api::all(client), (), watcher::Config::default(), changed)
    }

    /// Watches the policy.
    pub fn watch_policy(client: Client, changed: Arc<Notify>) -> Store<BuyingPolicy> {
        keep(Api::all(client), (), watcher::Config::default(), changed)
    }

    /// Makes decisions until it is told to stop.
    pub async fn run(self, stop: CancellationToken) {
        let mut course = Course { memory: Memory::default(), began: Instant::now(), has_told: false };
        let mut wait = Duration::ZERO;
        if self.stopped.is_none() {
            self.desk.show_capacity(CapacityView::nothing(true, NOT_YET), Vec::new());
        }
        loop {
            tokio::select! {
                () = stop.cancelled() => return,
                () = tokio::time::sleep(wait) => {}
                () = async {
                    // One decision covers changes that come together.
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

    /// Makes one decision and sends it. Returns the time until the next one, or `None` if nothing is known or
    /// can be bought.
    async fn decide(&self, course: &mut Course) -> Option<Duration> {
        let claims = self.backend.claims();
        if let Some(why) = self.stopped
            && claims.as_ref().is_none_or(Vec::is_empty)
        {
            if std::mem::take(&mut course.has_told) {
                self.desk.show_capacity(CapacityView::nothing(false, why), Vec::new());
                self.hand_over(capacity::Decision::default(), Arc::default()).await;
            }
            return None;
        }
        // What is not listed yet is not gone: decided without its type, a machine would be given back.
        let Some(types) = listed(&self.machine_types) else {
            if course.began.elapsed() > PACE_IDLE {
                self.desk.show_capacity(CapacityView::nothing(false, NO_TYPES), Vec::new());
            }
            return None;
        };
        let (catalogue, buying) = (Arc::new(catalogue(&types)), self.buying()?);
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
            // At first, the list has not arrived yet.
            if course.began.elapsed() > PACE_IDLE {
                course.has_told = true;
                self.refuse(catalogue).await;
            }
            return None;
        };
        self.metrics.show(&claims, &buying);
        let picture = self.desk.new_picture(Instant::now() + PICTURE_MAX).await?;
        let started = Instant::now();
        let taken = std::mem::take(&mut course.memory);
        let with = Arc::clone(&catalogue);
        let made = tokio::task::spawn_blocking(move || make(&picture, &with, &claims, &buying, taken)).await;
        let Ok(Made { decision, memory: kept, view, coming }) = made else {
            // It panicked, which is logged there; its memory is lost, as for a new leader.
            return Some(PACE_IDLE);
        };
        (course.memory, course.has_told) = (kept, true);
        for (outcome, launches) in [
            (LaunchOutcome::Decided, decision.launches.len()),
            (LaunchOutcome::Failed, decision.failed),
            (LaunchOutcome::InVain, decision.in_vain),
        ] {
            self.metrics.count_launches(outcome, launches);
        }
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

    /// Whether machines are bought, once that is known.
    fn buying(&self) -> Option<Buying> {
        if let Some(why) = self.stopped {
            return Some(Buying::stopped(why));
        }
        Some(Buying::of(policy(&listed(&self.policies)?)))
    }

    /// Tells waiting gangs that nothing can be bought.
    async fn refuse(&self, catalogue: Arc<Catalogue>) {
        let Some(picture) = self.desk.new_picture(Instant::now() + PICTURE_MAX).await else { return };
        let with = Arc::clone(&catalogue);
        let made = tokio::task::spawn_blocking(move || {
            let now = Timestamp::now().max(picture.state.now());
            let (state, policy) = (&picture.state, &picture.policy);
            let buying = &Buying::default();
            let view = View { state, policy, catalogue: &with, claims: &[], buying, now };
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

/// A decision, with the view of it for people.
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
    buying: &Buying,
    mut memory: Memory,
) -> Made {
    let now = Timestamp::now().max(picture.state.now());
    let view = View { state: &picture.state, policy: &picture.policy, catalogue, claims, buying, now };
    let decision = decide(&view, &mut memory);
    let view = seen::view(&decision, claims, &memory, (&picture.state, &picture.plan), (buying, now));
    let coming = coming::coming(&decision, &memory, catalogue, &picture.state, now);
    Made { decision, memory, view, coming }
}

/// The catalogue; a machine type that cannot be read is left out and logged.
fn catalogue(machine_types: &[Arc<MachineType>]) -> Catalogue {
    let mut catalogue = BTreeMap::new();
    for object in machine_types {
        match machine(object) {
            Ok(machine) => drop(catalogue.insert(Arc::clone(&machine.name), machine)),
            Err(error) => warn!(machine_type = object.name_any(), %error, "The machine type cannot be used."),
        }
    }
    catalogue
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use api_types::{BuyingPolicy, MachineType};
    use capacity::claim::Claim;
    use capacity::memory::Memory;
    use cluster_model::NodeName;
    use kube::runtime::reflector::Store;
    use kube::runtime::{reflector, watcher};
    use serde_json::Value as Json;
    use tokio::sync::mpsc;
    use tokio::time::Instant;

    use super::{Buyer, Course};
    use crate::machines::{CapacityBackend, Decided, Order};
    use crate::metrics::machines::MachineMetrics;

    /// A backend without machines, or that cannot list them.
    struct Without(Option<Vec<Claim>>);

    impl CapacityBackend for Without {
        fn claims(&self) -> Option<Vec<Claim>> {
            self.0.clone()
        }
        fn more_wait(&self) {}
        fn order(&self, _: &Order) {}
        fn give_back(&self, _: &Arc<str>) {}
        fn patch_node(&self, _: &NodeName, _: Json) {}
    }

    /// One that knows the policy.
    fn buyer(
        backend: Arc<Without>,
        machine_types: Store<MachineType>,
        decided: mpsc::Sender<Decided>,
    ) -> Buyer {
        let (policies, mut writer) = reflector::store();
        writer.apply_watcher_event(&watcher::Event::<BuyingPolicy>::InitDone);
        let (desk, changed) = (Arc::default(), Arc::default());
        Buyer {
            backend,
            machine_types,
            policies,
            stopped: None,
            metrics: MachineMetrics::default(),
            desk,
            changed,
            decided,
        }
    }

    #[tokio::test]
    async fn what_was_told_is_taken_back_once_when_nothing_can_be_bought_any_more() {
        for claims in [None, Some(Vec::new())] {
            let (decided, mut told) = mpsc::channel(8);
            let (machine_types, mut writer) = reflector::store();
            writer.apply_watcher_event(&watcher::Event::InitDone);
            let buyer = buyer(Arc::new(Without(claims)), machine_types, decided);
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

    #[tokio::test]
    async fn nothing_is_decided_before_the_catalogue_is_read() {
        let (decided, mut told) = mpsc::channel(8);
        let (machine_types, _writer) = reflector::store();
        let buyer = buyer(Arc::new(Without(Some(Vec::new()))), machine_types, decided);
        let mut course = Course { memory: Memory::default(), began: Instant::now(), has_told: true };
        assert_eq!(buyer.decide(&mut course).await, None);
        assert!(told.try_recv().is_err() && course.has_told, "an empty catalogue would be told");
    }
}
