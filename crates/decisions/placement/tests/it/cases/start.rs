//! How a case begins: nodes and queues, gangs that run where they happen to fit, pods of others, gangs that wait.

use cluster_model::{
    Budget, BudgetCounts, BudgetKey, ClusterChange, DeviceAsk, DevicePart, DeviceUse, GangKey, GpuType, Node,
    Pod, PodKey, Resources, Selector,
};

use super::gangs::{before, gang};
use super::random::Random;
use super::{Case, cluster};

impl Case {
    pub(super) fn start(&mut self) {
        let nodes = cluster::nodes(&mut self.random);
        let queues = cluster::queues(&mut self.random);
        self.queues = queues.iter().map(|queue| queue.name.clone()).collect();
        let mut room: Vec<NodeRoom> = nodes.iter().cloned().map(NodeRoom::of).collect();
        for queue in queues {
            self.tell(ClusterChange::Queue(queue));
        }
        for node in nodes {
            self.tell(ClusterChange::Node(node));
        }
        self.set_budgets();
        for number in 0..self.random.count(0, 4) {
            self.ran_before(number, &room);
        }
        for _ in 0..self.random.count(0, 10) {
            self.run_somewhere(&mut room);
        }
        if self.random.chance(15) {
            self.run_foreign_pod(&room);
        }
        for _ in 0..self.random.count(0, 6) {
            self.arrive();
        }
    }

    /// Sometimes no more than a few pods may give way at a time. By numbers of its own, so that all else stays as it was.
    fn set_budgets(&mut self) {
        let mut random = Random::new(self.seed ^ 0x0b0d_6e75);
        if random.chance(25) {
            let key = BudgetKey { namespace: "team".into(), name: "few".into() };
            let (selector, allowed) = (Some(Selector::default()), random.count(0, 6));
            let counts = BudgetCounts::default();
            self.tell(ClusterChange::Budget(Budget { key, selector, allowed, counts, told: 0 }));
        }
    }

    /// A gang more that waits.
    pub(super) fn arrive(&mut self) {
        let name = self.next_name();
        for pod in gang(&mut self.random, &name, &self.queues, self.now) {
            self.tell(ClusterChange::Pod(pod));
        }
    }

    /// A gang that ran and ended, from which the state learns how long gangs like it run.
    fn ran_before(&mut self, number: u32, room: &[NodeRoom]) {
        let gpus = self.random.pick(&[1, 1, 2, 4]);
        let started = before(self.now, self.random.pick(&[5, 100, 2_000, 40_000]));
        let key = PodKey::new("team", format!("before-{number}"), format!("before-{number}"));
        let pod = Pod {
            node: room.first().map(|room| room.node.name.clone()),
            queue: self.queues.first().cloned(),
            requests: Resources { gpus, cpu_millis: 0, memory_bytes: 0, pods: 1 },
            created: started,
            started: Some(started),
            ..Pod::new(key.clone(), GangKey::new("team", format!("before-{number}")))
        };
        self.tell(ClusterChange::Pod(pod));
        self.tell(ClusterChange::PodGone(key));
    }

    fn next_name(&mut self) -> String {
        self.gangs_so_far += 1;
        format!("g{}", self.gangs_so_far)
    }

    /// A gang that runs already, if all of its members find room. Its terms are not looked at: it may have started under
    /// others.
    fn run_somewhere(&mut self, room: &mut [NodeRoom]) {
        let name = self.next_name();
        let mut members = gang(&mut self.random, &name, &self.queues, self.now);
        let started = before(self.now, self.random.pick(&[0, 50, 500, 5_000]));
        let mut rooms = room.to_vec();
        let asked: Vec<&str> = members[0].gpu_types.iter().map(GpuType::as_str).collect();
        let types = if asked.is_empty() { &cluster::GPU_TYPES[..] } else { &asked };
        let one_type = self.random.pick(types).to_owned();
        for pod in &mut members {
            let candidates: Vec<usize> =
                (0..rooms.len()).filter(|index| rooms[*index].fits(pod, &one_type)).collect();
            if candidates.is_empty() || pod.queue.as_ref().is_some_and(|queue| queue.as_str() == "nowhere") {
                // Some of it runs, the rest waits.
                break;
            }
            let chosen = &mut rooms[self.random.pick(&candidates)];
            pod.devices = chosen.take(pod);
            pod.node = Some(chosen.node.name.clone());
            pod.created = pod.created.min(started);
            pod.started = Some(started);
            pod.gated = false;
            pod.checkpointed = self.random.some(30, |random| before(self.now, random.pick(&[0, 20, 400])));
            pod.checkpointed = pod.checkpointed.filter(|saved| *saved >= started);
            pod.terminating = self.random.chance(4);
        }
        room.clone_from_slice(&rooms);
        for pod in members {
            self.tell(ClusterChange::Pod(pod));
        }
    }

    /// A pod of another scheduler, perhaps on a node that has no room for it.
    fn run_foreign_pod(&mut self, room: &[NodeRoom]) {
        let last = u32::try_from(room.len()).expect("a few nodes") - 1;
        let node = &room[self.random.count(0, last) as usize].node;
        let gpus = if node.exact { 0 } else { self.random.between(0, 1) };
        let pod = Pod {
            node: Some(node.name.clone()),
            ours: false,
            requests: Resources { gpus, cpu_millis: 1000, memory_bytes: 1 << 30, pods: 1 },
            ..Pod::new(PodKey::new("other", "foreign", "foreign"), GangKey::new("other", "foreign"))
        };
        self.tell(ClusterChange::Pod(pod));
    }
}

/// What is free of a node, counted in the plainest way.
#[derive(Clone)]
struct NodeRoom {
    node: Node,
    free: Resources,
    uses: Vec<DeviceUse>,
}

impl NodeRoom {
    fn of(node: Node) -> Self {
        Self { free: node.allocatable, node, uses: Vec::new() }
    }

    fn fits(&self, pod: &Pod, gpu_type: &str) -> bool {
        let wants_gpu = pod.requests.gpus > 0 || pod.device != DeviceAsk::Whole;
        let type_would_do =
            !wants_gpu || self.node.gpu_type.as_ref().is_some_and(|it| it.as_str() == gpu_type);
        type_would_do
            && pod.requests.fits(&self.free)
            && if self.node.exact { self.devices(pod).is_some() } else { pod.device == DeviceAsk::Whole }
    }

    fn take(&mut self, pod: &Pod) -> Vec<DeviceUse> {
        self.free -= pod.requests;
        let devices = if self.node.exact { self.devices(pod).expect("it fits") } else { vec![] };
        self.uses.extend(&devices);
        devices
    }

    /// The first devices that suit.
    fn devices(&self, pod: &Pod) -> Option<Vec<DeviceUse>> {
        let devices = 0..u8::try_from(self.node.allocatable.gpus).expect("a few devices");
        let used = |device: u8| self.uses.iter().filter(move |it| it.device == device).map(|it| it.part);
        match pod.device {
            DeviceAsk::Whole => {
                let gpus = usize::try_from(pod.requests.gpus).expect("not negative");
                let free = devices.filter(|device| used(*device).next().is_none());
                let whole: Vec<_> =
                    free.take(gpus).map(|device| DeviceUse { device, part: DevicePart::Whole }).collect();
                (whole.len() == gpus).then_some(whole)
            }
            DeviceAsk::Share { millis } => devices
                .into_iter()
                .find(|device| {
                    let taken: Option<u16> = used(*device)
                        .map(|part| if let DevicePart::Millis(taken) = part { Some(taken) } else { None })
                        .sum();
                    taken.is_some_and(|taken| taken + millis <= 1000)
                })
                .map(|device| vec![DeviceUse { device, part: DevicePart::Millis(millis) }]),
            DeviceAsk::Mig { profile } => devices
                .into_iter()
                .filter(|device| used(*device).next().is_none())
                .map(|device| vec![DeviceUse { device, part: DevicePart::Mig { profile, start: 0 } }])
                .next(),
        }
    }
}
