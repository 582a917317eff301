//! What happens between two plans: pods come to their nodes, victims go, gangs end and arrive, nodes and queues change.

use cluster_model::plan::Plan;
use cluster_model::{ClusterChange, GangKey, Node, Pod, PodKey, Queue};

use super::gangs::before;
use super::{Case, cluster};

impl Case {
    pub(super) fn happen(&mut self, plan: &Plan) {
        self.come_to_their_nodes(plan);
        self.now = before(self.now, -self.random.pick(&[1, 30, 100, 700, 3_000]));
        self.course.advancing(&self.state, self.now);
        self.state.advance(self.now);
        self.holds_run_out();
        self.victims_go();
        self.gangs_end();
        self.states_are_saved(20);
        for _ in 0..self.random.count(0, 2) {
            self.arrive();
        }
        if self.random.chance(15) {
            self.a_node_changes();
        }
        if self.random.chance(15) {
            self.a_queue_changes();
        }
    }

    /// Most pods are seen where they were assumed; some only later.
    fn come_to_their_nodes(&mut self, _plan: &Plan) {
        let assumed: Vec<(Pod, _, _)> = self
            .state
            .pods()
            .filter(|(_, pod)| pod.is_assumed())
            .filter_map(|(_, pod)| {
                let node = self.state.node(pod.at()?).name().clone();
                Some((pod.pod().clone(), node, pod.devices().to_vec()))
            })
            .collect();
        let mut assumed = assumed;
        assumed.sort_by(|(one, ..), (other, ..)| one.key.cmp(&other.key));
        for (pod, node, devices) in assumed {
            if self.random.chance(85) {
                let seen = Pod { node: Some(node), devices, started: Some(self.now), ..pod };
                self.tell(ClusterChange::Pod(seen));
            }
        }
    }

    /// The owner of the state gives up holds that have expired.
    fn holds_run_out(&mut self) {
        let over: Vec<GangKey> = self
            .state
            .held_gangs()
            .filter(|(_, expires)| *expires <= self.now)
            .map(|(gang, _)| gang.clone())
            .collect();
        for gang in over {
            self.told.push(format!("hold of {gang} runs out"));
            self.course.hold_ran_out(&gang);
            self.state.release(&gang);
        }
    }

    /// Victims are deleted, first some of them, then all; mostly they are recreated.
    fn victims_go(&mut self) {
        let victims: Vec<GangKey> =
            self.state.gangs().filter(|(_, gang)| gang.is_leaving()).map(|(key, _)| key.clone()).collect();
        for victim in victims {
            let comes_back = self.random.chance(80);
            let all_at_once = self.random.chance(60);
            for pod in self.pods_of(&victim) {
                if pod.node.is_none() {
                    continue;
                }
                if all_at_once || self.random.chance(50) {
                    self.tell(ClusterChange::PodGone(pod.key.clone()));
                    if comes_back {
                        self.come_again(pod);
                    }
                } else if !pod.terminating {
                    self.tell(ClusterChange::Pod(Pod { terminating: true, ..pod }));
                }
            }
        }
    }

    /// A new pod of the same name.
    fn come_again(&mut self, pod: Pod) {
        self.gangs_so_far += 1;
        let uid = format!("again-{}", self.gangs_so_far);
        let key = PodKey::new(&*pod.key.namespace, &*pod.key.name, uid);
        let anew = Pod {
            key,
            node: None,
            devices: vec![],
            started: None,
            checkpointed: None,
            terminating: false,
            created: self.now,
            ..pod
        };
        self.tell(ClusterChange::Pod(anew));
    }

    fn pods_of(&self, gang: &GangKey) -> Vec<Pod> {
        let mut pods: Vec<Pod> = self
            .state
            .pods()
            .map(|(_, pod)| pod.pod())
            .filter(|pod| pod.ours && pod.gang == *gang)
            .cloned()
            .collect();
        pods.sort_by(|one, other| one.key.cmp(&other.key));
        pods
    }

    fn gangs_end(&mut self) {
        let running: Vec<GangKey> =
            self.state.gangs().filter(|(_, gang)| gang.bound() > 0).map(|(key, _)| key.clone()).collect();
        for gang in running {
            let (ends, loses_one) = (self.random.chance(20), self.random.chance(4));
            for pod in self.pods_of(&gang).into_iter().filter(|pod| pod.node.is_some()) {
                if ends {
                    self.tell(ClusterChange::PodGone(pod.key));
                } else if loses_one {
                    self.tell(ClusterChange::PodGone(pod.key.clone()));
                    self.come_again(pod);
                    break;
                }
            }
        }
        // What waits may be withdrawn.
        if self.random.chance(10) {
            let waiting = self.state.gangs().find(|(_, gang)| gang.pending().len() > 0);
            if let Some(gang) = waiting.map(|(key, _)| key.clone()) {
                for pod in self.pods_of(&gang) {
                    self.tell(ClusterChange::PodGone(pod.key));
                }
            }
        }
    }

    /// No gang waits any more, and every gang that can has just saved its state: only then is there something to tidy
    /// up.
    pub(super) fn a_quiet_hour(&mut self) {
        let waiting: Vec<GangKey> = self.state.waiting_gangs().cloned().collect();
        for gang in waiting {
            for pod in self.pods_of(&gang).into_iter().filter(|pod| pod.node.is_none()) {
                self.tell(ClusterChange::PodGone(pod.key));
            }
        }
        self.states_are_saved(100);
    }

    fn states_are_saved(&mut self, percent: i64) {
        let saving: Vec<Pod> = self
            .state
            .pods()
            .map(|(_, pod)| pod.pod())
            .filter(|pod| pod.node.is_some() && pod.terms.eviction.checkpoints)
            .cloned()
            .collect();
        let mut saving = saving;
        saving.sort_by(|one, other| one.key.cmp(&other.key));
        for pod in saving {
            if self.random.chance(percent) {
                let checkpointed = Some(self.now).max(pod.started);
                self.tell(ClusterChange::Pod(Pod { checkpointed, ..pod }));
            }
        }
    }

    fn a_node_changes(&mut self) {
        let mut nodes: Vec<Node> =
            self.state.nodes().filter_map(|(_, node)| node.object().cloned()).collect();
        nodes.sort_by(|one, other| one.name.cmp(&other.name));
        let Some(last) = u32::try_from(nodes.len()).expect("a few nodes").checked_sub(1) else { return };
        let node = nodes[self.random.count(0, last) as usize].clone();
        if self.random.chance(25) {
            self.tell(ClusterChange::NodeGone(node.name));
        } else {
            self.tell(ClusterChange::Node(Node { schedulable: !node.schedulable, ..node }));
        }
    }

    fn a_queue_changes(&mut self) {
        let anew = cluster::queues(&mut self.random);
        let last = u32::try_from(self.queues.len()).expect("a few queues") - 1;
        let name = self.queues[self.random.count(0, last) as usize].clone();
        let Some(old) = self.state.queue(&name).map(|(queue, _)| queue.clone()) else { return };
        if let Some(new) = anew.into_iter().next() {
            let changed = Queue { name, parent: old.parent, bank: old.bank, quota: new.quota, ..new };
            self.tell(ClusterChange::Queue(changed));
        }
    }
}
