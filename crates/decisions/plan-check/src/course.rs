//! What went wrong over time: holds that vanish, gangs that give way to the same claimant again and again, use that
//! is not forgotten, and savings that were not earned.
//!
//! ```text
//!   time passes  ──► advancing: what was held until now goes into the accounts, in floating point
//!   a plan       ──► planned: accounts, holds and evictions are compared with what was before
//! ```

use std::collections::{BTreeMap, BTreeSet};

use cluster_model::plan::Plan;
use cluster_model::{ClusterState, GangKey, GpuType, Queue, QueueName, ResourceName};
use jiff::Timestamp;

use crate::facts::{Facts, amounts, share_millis};
use crate::tidying::is_for_itself;
use crate::violation::Violation;

/// Everything that was planned so far, as far as it matters later.
#[derive(Clone, Debug, Default)]
pub struct Course {
    accounts: BTreeMap<QueueName, Account>,
    /// Which gangs have given way for which.
    gave_way: BTreeSet<(GangKey, GangKey)>,
    /// Holds by gang, and until when.
    holds: BTreeMap<GangKey, Timestamp>,
    use_gpu_milliseconds: i64,
}

/// What a queue used and saved, in GPU seconds.
#[derive(Clone, Copy, Debug, Default)]
struct Account {
    decayed: f64,
    bank: f64,
}

impl Course {
    /// To be called before time advances in the state: what is held there was held until `now`.
    pub fn advancing(&mut self, state: &ClusterState, now: Timestamp) {
        let facts = Facts::read(state);
        let milliseconds = (now.as_millisecond() - state.now().as_millisecond()).max(0);
        let seconds = float(milliseconds) / 1000.0;
        let held = held_millis(&facts);
        for (name, queue) in &facts.queues {
            let account = self.accounts.entry((*name).clone()).or_default();
            account.go_on(queue, held.get(name).unwrap_or(&BTreeMap::new()), seconds);
        }
        for member in facts.pods.values() {
            if member.runs_on().is_some() {
                self.use_gpu_milliseconds += member.pod.requests.gpus * milliseconds;
            }
        }
    }

    /// Records that a hold expired and was given up.
    pub fn hold_ran_out(&mut self, gang: &GangKey) {
        self.holds.remove(gang);
    }

    /// Judges a plan by what was before. The state is the one that the plan was made from.
    pub fn planned(&mut self, state: &ClusterState, plan: &Plan) -> Vec<Violation> {
        let facts = Facts::read(state);
        let mut found = Vec::new();
        self.accounts_agree(state, &mut found);
        self.holds_are_kept(&facts, plan, &mut found);
        // A gang that is moved for its own sake may be moved again later.
        for eviction in plan.evictions.iter().filter(|it| !is_for_itself(it)) {
            if !self.gave_way.insert((eviction.gang.clone(), eviction.claimant.clone())) {
                let (gang, claimant) = (eviction.gang.clone(), eviction.claimant.clone());
                found.push(Violation::EvictedAgain { gang, claimant });
            }
        }
        for gang in &plan.released {
            self.hold_ran_out(gang);
        }
        for hold in &plan.holds {
            self.holds.insert(hold.gang.clone(), hold.expires);
        }
        found
    }

    /// GPUs in use times time, in whole milliseconds, over all pods.
    pub fn use_gpu_milliseconds(&self) -> i64 {
        self.use_gpu_milliseconds
    }

    fn accounts_agree(&self, state: &ClusterState, found: &mut Vec<Violation>) {
        for (name, account) in &self.accounts {
            let said =
                float(i64::try_from(state.decayed_gpu_milliseconds(name)).unwrap_or(i64::MAX)) / 1000.0;
            if !close(said, account.decayed) {
                found.push(miscounted(format!("the fading use of queue {name}"), said, account.decayed));
            }
            let said = float(state.bank_gpu_seconds(name));
            // The state says whole GPU seconds.
            if (said - account.bank).abs() > 1.01 {
                found.push(miscounted(format!("the savings of queue {name}"), said, account.bank));
            }
        }
    }

    /// A hold lasts until its gang starts or goes, or until it expires.
    fn holds_are_kept(&mut self, facts: &Facts<'_>, plan: &Plan, found: &mut Vec<Violation>) {
        let mut ended = Vec::new();
        for (gang, expires) in &self.holds {
            let waits = facts.members(gang).any(|member| facts.waits(&member.pod.key));
            if facts.held.contains_key(gang) {
                if *expires <= plan.made_at {
                    found.push(Violation::HoldOutlived(gang.clone()));
                }
            } else {
                ended.push(gang.clone());
                if waits && facts.running(gang).next().is_none() && !facts.is_new(gang, plan.made_at) {
                    found.push(Violation::HoldLost(gang.clone()));
                }
            }
        }
        ended.extend(plan.placements.iter().map(|placement| placement.gang.clone()));
        for gang in ended {
            self.hold_ran_out(&gang);
        }
    }
}

impl Account {
    fn go_on(&mut self, queue: &Queue, held_millis: &BTreeMap<Option<GpuType>, i64>, seconds: f64) {
        let gpus = float(held_millis.values().sum()) / 1000.0;
        let half_life = f64::from(queue.half_life_seconds);
        if half_life > 0.0 {
            let left = (-seconds / half_life).exp2();
            self.decayed = self.decayed * left + gpus * (1.0 - left) * half_life / std::f64::consts::LN_2;
        } else {
            self.decayed = 0.0;
        }
        let Some(bank) = queue.bank else {
            self.bank = 0.0;
            return;
        };
        let quota = |gpu_type: &GpuType| {
            queue.quota.as_ref().and_then(|quota| quota.gpus.get(gpu_type)).map_or(0.0, |gpus| float(*gpus))
        };
        let held = |gpu_type: &GpuType| {
            float(held_millis.get(&Some(gpu_type.clone())).copied().unwrap_or(0)) / 1000.0
        };
        let owned = queue.quota.iter().flat_map(|quota| quota.gpus.keys());
        let unused: f64 = owned.map(|gpu_type| (quota(gpu_type) - held(gpu_type)).max(0.0)).sum();
        let beyond: f64 =
            held_millis.keys().flatten().map(|gpu_type| (held(gpu_type) - quota(gpu_type)).max(0.0)).sum();
        let rate = unused * f64::from(bank.earn_millis) / 1000.0 - beyond;
        let cap = float(i64::try_from(bank.cap_gpu_seconds).unwrap_or(i64::MAX));
        self.bank = (self.bank + rate * seconds).clamp(0.0, cap);
    }
}

/// What each queue holds, its children included, in thousandths of GPUs by type; parts of devices under no type.
fn held_millis<'a>(facts: &Facts<'a>) -> BTreeMap<&'a QueueName, BTreeMap<Option<GpuType>, i64>> {
    let mut held: BTreeMap<&QueueName, BTreeMap<Option<GpuType>, i64>> = BTreeMap::new();
    for member in facts.charged() {
        let Some(node) = member.at else { continue };
        for queue in facts.chain_of(member.pod) {
            let of = held.entry(&queue.name).or_default();
            *of.entry(None).or_default() += share_millis(member.pod);
            for (resource, amount) in amounts(facts, member.pod, node) {
                if let ResourceName::Gpu(gpu_type) = resource {
                    *of.entry(Some(gpu_type)).or_default() += amount * 1000;
                }
            }
        }
    }
    held
}

fn miscounted(what: String, said: f64, is: f64) -> Violation {
    Violation::Miscounted { what, said: format!("{said:.3}"), is: format!("{is:.3}") }
}

fn close(one: f64, other: f64) -> bool {
    (one - other).abs() <= 0.05 + 1e-6 * one.abs().max(other.abs())
}

/// Exact up to 2^53, far beyond what a cluster uses in a life.
#[allow(clippy::cast_precision_loss)]
fn float(number: i64) -> f64 {
    number as f64
}
