//! The last look before an order: whether it stays within every cap, by the machines that are really there. The decision
//! has checked the same in its own way (`capacity::tally`); this one shares no code with it and trusts none of its sums.
//!
//! ```text
//!   claims that the watch shows ─┐
//!   orders sent, not seen yet   ─┴─► what counts for each bound + the launch ─► within its cap? ─► ordered, or refused
//! ```

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use api_types::BuyingPolicy;
use capacity::caps::Cap;
use capacity::catalogue::Catalogue;
use capacity::claim::{Claim, Launch};
use capacity::money::money;
use cluster_model::{ClusterState, QueueName};
use tokio::time::Instant;

/// After this long, an order that no claim shows did not get through: it is tried for some seconds.
const SENT_MAX: Duration = Duration::from_secs(30);

/// A cap, and the machines that count for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bound {
    whose: String,
    cap: Cap,
    counts: Counts,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Counts {
    All,
    Type(Arc<str>),
    Queues(BTreeSet<QueueName>),
}

/// A machine, as far as it counts.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Machine {
    kind: Arc<str>,
    queue: Option<QueueName>,
    price_micros: i64,
}

/// The bounds of a launch's queue and of those above it.
pub fn queue_bounds(state: &ClusterState, queue: Option<&QueueName>) -> Vec<Bound> {
    let above = |name: &QueueName| {
        let parent = |name: &QueueName| state.queue(name).and_then(|(queue, _)| queue.parent.clone());
        std::iter::successors(Some(name.clone()), parent)
            .take(cluster_model::QUEUE_DEPTH_MAX)
            .collect::<Vec<_>>()
    };
    let chain = queue.map(above).unwrap_or_default();
    let mut bounds = Vec::new();
    for (queue, _) in chain.iter().filter_map(|name| state.queue(name)) {
        let cap = Cap::of_queue(queue);
        if cap != Cap::default() {
            let below =
                state.queues().map(|(it, _)| &it.name).filter(|name| above(name).contains(&queue.name));
            let counts = Counts::Queues(below.cloned().collect());
            bounds.push(Bound { whose: format!("queue {}", queue.name), cap, counts });
        }
    }
    bounds
}

/// The bounds of the cluster and of the launch's machine types.
pub fn cluster_bounds(policy: &BuyingPolicy, launch: &Launch, catalogue: &Catalogue) -> Vec<Bound> {
    let cap = Cap::from(&policy.spec);
    let mut bounds = vec![Bound { whose: "the cluster".to_owned(), cap, counts: Counts::All }];
    let types: BTreeSet<&Arc<str>> = launch.machines.iter().map(|(offer, _)| &offer.machine).collect();
    for machine in types.into_iter().filter_map(|name| catalogue.get(name)) {
        let counts = Counts::Type(Arc::clone(&machine.name));
        bounds.push(Bound { whose: format!("type {}", machine.name), cap: machine.cap, counts });
    }
    bounds
}

/// Orders that were sent and that no claim shows yet.
#[derive(Debug, Default)]
pub struct Sent(BTreeMap<Arc<str>, (Machine, Instant)>);

impl Sent {
    /// Orders that claims show are counted by these from now on, also once they are gone again.
    pub fn see(&mut self, claims: &[Claim], now: Instant) {
        let seen: BTreeSet<&Arc<str>> = claims.iter().map(|claim| &claim.name).collect();
        self.0.retain(|name, (_, at)| !seen.contains(name) && now.duration_since(*at) < SENT_MAX);
    }

    /// Why a launch is not ordered. If it is, it counts from now on.
    pub fn admit(
        &mut self,
        launch: &Launch,
        bounds: &[Bound],
        claims: &[Claim],
        now: Instant,
    ) -> Result<(), String> {
        self.see(claims, now);
        let there = claims.iter().map(|claim| Machine {
            kind: Arc::clone(&claim.offer.machine),
            queue: claim.queue.clone(),
            price_micros: claim.price_micros,
        });
        let more = launch.machines.iter().map(|(offer, price_micros)| Machine {
            kind: Arc::clone(&offer.machine),
            queue: launch.queue.clone(),
            price_micros: *price_micros,
        });
        let more: Vec<Machine> = more.collect();
        let sent = self.0.values().map(|(machine, _)| machine.clone());
        let all: Vec<Machine> = there.chain(sent).chain(more.iter().cloned()).collect();
        for bound in bounds {
            bound.check(&all)?;
        }
        for (index, machine) in more.into_iter().enumerate() {
            self.0.insert(launch.claim_name(index), (machine, now));
        }
        Ok(())
    }
}

impl Bound {
    fn check(&self, machines: &[Machine]) -> Result<(), String> {
        let counted: Vec<&Machine> = machines.iter().filter(|machine| self.counts(machine)).collect();
        let micros: i64 = counted.iter().map(|machine| machine.price_micros).sum();
        if let Some(most) = self.cap.machines.filter(|most| counted.len() > *most as usize) {
            return Err(format!("{} may have {most} machines, and would have {}", self.whose, counted.len()));
        }
        if let Some(most) = self.cap.per_hour_micros.filter(|most| micros > *most) {
            let (most, micros) = (money(most), money(micros));
            return Err(format!("{} may spend {most} an hour, and would spend {micros}", self.whose));
        }
        Ok(())
    }

    fn counts(&self, machine: &Machine) -> bool {
        match &self.counts {
            Counts::All => true,
            Counts::Type(name) => machine.kind == *name,
            Counts::Queues(queues) => machine.queue.as_ref().is_some_and(|queue| queues.contains(queue)),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use api_types::machine_type::CapacityType;
    use api_types::{BuyingPolicy, BuyingPolicySpec};
    use capacity::caps::Cap;
    use capacity::catalogue::{Catalogue, CatalogueMachine, OfferKey, OfferPlace};
    use capacity::claim::{Claim, Launch, LaunchKey, Purpose};
    use cluster_model::{ClusterChange, ClusterState, GangKey, Queue};
    use jiff::Timestamp;
    use tokio::time::Instant;

    use super::{SENT_MAX, Sent, cluster_bounds, queue_bounds};
    use crate::machines::testing::machine;

    /// A launch for queue `team`, at 10 an hour for each machine.
    fn launch(name: &str, size: usize) -> Launch {
        let (zone, capacity_type) = ("a".into(), CapacityType::OnDemand);
        let place = OfferPlace { zone, block: None, rack: None, capacity_type };
        Launch {
            key: LaunchKey { purpose: Purpose::Gang(GangKey::new("nlp", name)), number: 100 },
            queue: Some("team".into()),
            machines: vec![(OfferKey { machine: "h100".into(), place }, 10_000_000); size],
            ready_by: Timestamp::UNIX_EPOCH,
            price_micros: 0,
            why: String::new(),
        }
    }

    fn claims(launch: &Launch) -> Vec<Claim> {
        let claim = |index| Claim {
            name: launch.claim_name(index),
            launch: launch.key.clone(),
            queue: launch.queue.clone(),
            of: 1,
            offer: launch.machines[index].0.clone(),
            price_micros: launch.machines[index].1,
            created: Timestamp::UNIX_EPOCH,
            node: None,
            ready: false,
            taken_up: true,
            leaving: true,
            trouble: None,
        };
        (0..launch.machines.len()).map(claim).collect()
    }

    fn policy(most_machines: u32, most_per_hour: &str) -> BuyingPolicy {
        let spec = BuyingPolicySpec { paused: false, most_machines, most_per_hour: most_per_hour.to_owned() };
        BuyingPolicy::new("cluster", spec)
    }

    fn catalogue(cap: Cap) -> Catalogue {
        let machine = CatalogueMachine { cap, ..machine() };
        [(Arc::clone(&machine.name), machine)].into()
    }

    #[test]
    fn the_cluster_and_each_type_have_caps_on_machines_and_on_money() {
        let free = Cap::default();
        for (machines, per_hour, of_type, refused) in [
            (5, "50", free, None),
            (4, "50", free, Some("the cluster may have 4 machines, and would have 5")),
            (5, "49.99", free, Some("the cluster may spend 49.99 an hour, and would spend 50.00")),
            (
                9,
                "90",
                Cap { machines: Some(4), ..free },
                Some("type h100 may have 4 machines, and would have 5"),
            ),
            (
                9,
                "90",
                Cap { per_hour_micros: Some(49_000_000), ..free },
                Some("type h100 may spend 49.00 an hour, and would spend 50.00"),
            ),
        ] {
            let (there, more) = (claims(&launch("there", 3)), launch("more", 2));
            let bounds = cluster_bounds(&policy(machines, per_hour), &more, &catalogue(of_type));
            let admitted = Sent::default().admit(&more, &bounds, &there, Instant::now());
            assert_eq!(admitted.err().as_deref(), refused);
        }
    }

    #[test]
    fn what_was_sent_counts_until_a_claim_shows_it_or_it_did_not_get_through() {
        let (mut sent, now, first, second) =
            (Sent::default(), Instant::now(), launch("a", 2), launch("b", 2));
        let bounds = cluster_bounds(&policy(3, "1000"), &first, &catalogue(Cap::default()));
        sent.admit(&first, &bounds, &[], now).unwrap();
        assert!(sent.admit(&second, &bounds, &[], now).is_err(), "the first is on its way");
        let seen = claims(&first);
        assert!(sent.admit(&second, &bounds, &seen, now).is_err(), "and counts once it is seen");
        assert!(sent.0.is_empty(), "once");
        assert!(sent.admit(&second, &bounds, &[], now).is_ok(), "it is gone");
        let mut sent = Sent::default();
        sent.admit(&first, &bounds, &[], now).unwrap();
        sent.see(&claims(&first), now);
        assert!(sent.admit(&second, &bounds, &[], now).is_ok(), "it came and went between two orders");
        let (mut sent, now) = (Sent::default(), now);
        sent.admit(&second, &bounds, &[], now).unwrap();
        assert!(sent.admit(&first, &bounds, &[], now + SENT_MAX - Duration::from_secs(1)).is_err());
        assert!(sent.admit(&first, &bounds, &[], now + SENT_MAX).is_ok(), "the second did not get through");
    }

    #[test]
    fn a_queue_has_caps_for_itself_and_those_below_it() {
        let mut state = ClusterState::default();
        let queue = |name: &str, parent: Option<&str>, machines_max| Queue {
            parent: parent.map(Into::into),
            machines_max,
            ..Queue::new(name)
        };
        for queue in
            [queue("all", None, Some(3)), queue("team", Some("all"), None), queue("other", Some("all"), None)]
        {
            state.apply(ClusterChange::Queue(queue));
        }
        let refused = |queue: &str| {
            let (mut there, more) = (launch("there", 2), launch("more", 2));
            there.queue = Some(queue.into());
            let bounds = queue_bounds(&state, more.queue.as_ref());
            Sent::default().admit(&more, &bounds, &claims(&there), Instant::now()).err()
        };
        assert_eq!(refused("other").as_deref(), Some("queue all may have 3 machines, and would have 4"));
        assert_eq!(refused("elsewhere"), None);
        assert!(queue_bounds(&state, None).is_empty(), "spares are nobody's");
    }
}
