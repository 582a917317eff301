//! One round of a case: plans, commits, sends the effects, and compares the objects with the state.

use std::collections::BTreeSet;

use anyhow::Context;
use cluster_convert::{pod_change, pod_key};
use cluster_model::plan::{Effect, EvictCause, HoldEnd};
use cluster_model::{ClusterChange, Gang, GangKey, PodKey};
use jiff::ToSpan;
use slim_objects::SlimPod;
use tokio::time::{Instant, sleep, timeout_at};

use crate::case::{Case, Judged};
use crate::objects::{self, pick};
use crate::view::{self, View};

impl Case {
    /// Plans, carries out, and compares.
    pub(crate) async fn round(&mut self) -> anyhow::Result<Judged> {
        let mut effects: Vec<Effect> = self.begin_move().into_iter().collect();
        let plan = placement::plan(&mut self.state, &self.policy, self.now);
        self.asked.note(&plan, &self.state);
        effects.extend(self.state.commit(&plan).whole().context("the plan does not fit its state")?);
        self.tally.plans += 1;
        self.count(&effects);
        let mut found = view::wrong_waits(&plan, &effects);
        let sent = self.tampering.apply(effects.clone(), &self.before, &self.asked, &mut self.random);
        self.before.extend(effects);
        let committed = View::of_committed(&self.state, &self.asked);
        self.log.push(format!("round at {}: {:#?}", self.now, sent.effects));
        let deadline = Instant::now() + self.server.patience;
        self.carry_out(sent.effects, deadline).await;
        found.extend(self.until_equal(&committed, deadline).await?);
        Ok(Judged { found, wrong: sent.wrong })
    }

    fn count(&mut self, effects: &[Effect]) {
        for effect in effects {
            let count = match effect {
                Effect::Bind(_) => &mut self.tally.binds,
                Effect::WriteHold(_) => &mut self.tally.holds_written,
                Effect::DeleteHold { .. } => &mut self.tally.holds_deleted,
                Effect::Evict(request) if matches!(request.cause, EvictCause::Move { .. }) => {
                    &mut self.tally.moves
                }
                Effect::Evict(_) | Effect::CallOff(_) => &mut self.tally.evictions,
            };
            *count += 1;
        }
    }

    /// Now and then tells a running gang to move.
    fn begin_move(&mut self) -> Option<Effect> {
        if self.random.below(4) > 0 {
            return None;
        }
        let may_move = |gang: &Gang| gang.departure().is_none() && gang.held() == 0;
        let running: Vec<GangKey> = self
            .state
            .running_gangs()
            .filter(|gang| self.state.gang(gang).is_some_and(may_move))
            .filter(|gang| !self.state.pods_to_leave(gang).is_empty())
            .cloned()
            .collect();
        let gang = running.get(pick(&mut self.random, u64::try_from(running.len()).ok()?))?;
        self.asked.note_move(gang, &self.state);
        Some(self.state.begin_move(gang, "it costs less elsewhere"))
    }

    /// Sends effects, and waits for their reports. Like the dispatcher, deletes Holds that have served once
    /// their gangs are bound.
    async fn carry_out(&mut self, effects: Vec<Effect>, deadline: Instant) {
        let members = |effect: &Effect| match effect {
            Effect::Bind(placement) => placement.members.len(),
            _ => 0,
        };
        let binds: usize = effects.iter().map(members).sum();
        let evictions = effects.iter().filter(|effect| matches!(effect, Effect::Evict(_))).count();
        self.out.write(effects);
        for _ in 0..binds {
            // If a report is missing, the objects show it.
            let _ = timeout_at(deadline, self.binds.recv()).await;
        }
        for _ in 0..evictions {
            let _ = timeout_at(deadline, self.evictions.recv()).await;
        }
        let is_served = |gang: &&GangKey| self.state.held_members(gang).next().is_none();
        let served: Vec<GangKey> = self.asked.holds.keys().filter(is_served).cloned().collect();
        let delete = |gang| Effect::DeleteHold { gang, end: HoldEnd::Served };
        self.asked.holds.retain(|gang, _| !served.contains(gang));
        let served: Vec<Effect> = served.into_iter().map(delete).collect();
        self.count(&served);
        self.out.write(served);
    }

    /// Compares until the objects match the committed state, or the time is up; returns the last differences.
    async fn until_equal(&self, committed: &View, deadline: Instant) -> anyhow::Result<Vec<String>> {
        let mut pause = self.server.pause;
        loop {
            sleep(pause).await;
            let found = committed.differences(&self.read_back().await?);
            if found.is_empty() || Instant::now() >= deadline {
                return Ok(found);
            }
            pause *= 2;
        }
    }

    /// The view of a new leader.
    async fn read_back(&self) -> anyhow::Result<View> {
        let mut state = self.empty_state();
        let pods = self.server.pods().await?;
        for pod in &pods {
            state.apply(pod_change(pod));
        }
        let holds = self.server.holds().await?;
        drop(state.take_up_holds(holds.clone(), &self.policy, self.now));
        Ok(View::of_objects(&state, &pods, &holds))
    }

    /// Updates the state from the objects.
    pub(crate) async fn watch(&mut self) -> anyhow::Result<()> {
        let pods = self.server.pods().await?;
        let there: BTreeSet<PodKey> = pods.iter().map(pod_key).collect();
        let known: Vec<PodKey> = self.state.pods().map(|(_, pod)| pod.pod().key.clone()).collect();
        for gone in known.into_iter().filter(|pod| !there.contains(pod)) {
            self.state.apply(ClusterChange::PodGone(gone));
        }
        for pod in &pods {
            self.state.apply(pod_change(pod));
        }
        Ok(())
    }

    /// Time goes on: leaving pods are gone, others end, some come back under their names, and a gang arrives.
    pub(crate) async fn happen(&mut self) -> anyhow::Result<()> {
        let later = [1, 30, 700][pick(&mut self.random, 3)];
        self.now += later.seconds();
        for pod in self.server.pods().await? {
            let is_leaving = pod.metadata.deletion_timestamp.is_some();
            let ends = self.random.below(if is_leaving { 2 } else { 8 }) == 0;
            if !ends || !(is_leaving || self.may_end(&pod)) {
                continue;
            }
            self.server.delete_pod(&pod).await?;
            if self.random.below(2) == 0 {
                self.create_again(&pod).await?;
            }
        }
        if self.random.below(2) == 0 {
            let gang = self.new_gang(100 + self.tally.plans);
            self.create(&gang).await?;
        }
        self.state.advance(self.now);
        self.watch().await
    }

    /// Whether a pod may end by itself. If a gang has lost a member, the leader keeps holding nodes for the
    /// others, but a new leader does not, and plans anew.
    fn may_end(&self, pod: &SlimPod) -> bool {
        let known = self.state.pod_id(&pod_key(pod)).map(|id| self.state.pod(id).pod());
        let is_held = |gang| self.state.held_members(gang).next().is_some();
        pod.spec.node_name.is_some() && known.is_some_and(|known| !is_held(&known.gang))
    }

    async fn create_again(&self, pod: &SlimPod) -> anyhow::Result<()> {
        let name = pod.metadata.name.as_deref().unwrap_or_default();
        let gang = name.rsplit_once('-').and_then(|(gang, _)| self.gangs.get(gang));
        let pods = gang.into_iter().flat_map(objects::Gang::pods);
        for again in pods.filter(|again| again["metadata"]["name"] == name) {
            self.server.create_pod(&again).await?;
        }
        Ok(())
    }
}
