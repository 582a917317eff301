//! Names that several binaries must spell alike.

/// `spec.schedulerName` of the pods we place.
pub const SCHEDULER_NAME: &str = "warpyard";
/// The namespace our own processes live in.
pub const SYSTEM_NAMESPACE: &str = "warpyard-system";
/// Service accounts, in [`SYSTEM_NAMESPACE`]; each binary has its own identity and rights.
pub const SCHEDULER_SERVICE_ACCOUNT: &str = "warpyard-scheduler";
/// See [`SCHEDULER_SERVICE_ACCOUNT`].
pub const CONTROLLERS_SERVICE_ACCOUNT: &str = "warpyard-controllers";
/// See [`SCHEDULER_SERVICE_ACCOUNT`].
pub const API_SERVER_SERVICE_ACCOUNT: &str = "warpyard-api-server";
/// The namespace of pods that run on every machine with rights there. Nothing in [`SYSTEM_NAMESPACE`] has such
/// rights.
pub const NODES_NAMESPACE: &str = "warpyard-nodes";
/// The node agent's service account, in [`NODES_NAMESPACE`].
pub const NODE_AGENT_SERVICE_ACCOUNT: &str = "warpyard-node-agent";

/// Server-side apply field managers, one per binary.
pub const SCHEDULER_FIELD_MANAGER: &str = "warpyard-scheduler";
/// See [`SCHEDULER_FIELD_MANAGER`].
pub const CONTROLLERS_FIELD_MANAGER: &str = "warpyard-controllers";
/// See [`SCHEDULER_FIELD_MANAGER`].
pub const API_SERVER_FIELD_MANAGER: &str = "warpyard-api-server";
/// See [`SCHEDULER_FIELD_MANAGER`].
pub const NODE_AGENT_FIELD_MANAGER: &str = "warpyard-node-agent";

/// The scheduler's Lease, and the one [`crate::SchedulerEpoch`] the fence reads.
pub const SCHEDULER_LEASE: &str = "warpyard-scheduler";
/// See [`SCHEDULER_LEASE`].
pub const SCHEDULER_EPOCH: &str = "warpyard-scheduler";
/// The part of the fence that guards binds: a `ValidatingAdmissionPolicyBinding`.
pub const FENCE_OF_BINDS: &str = "warpyard-fence-binds";
/// Label on Bindings, and through them on the pods: the epoch of the leader that placed the pod.
pub const EPOCH_LABEL: &str = "warpyard.dev/epoch";
/// The Run controller's Lease.
pub const CONTROLLERS_LEASE: &str = "warpyard-controllers";

/// Annotation on the [`crate::SchedulerEpoch`]: where the leader answers questions, as `host:port`.
pub const LEADER_ADDRESS_ANNOTATION: &str = "warpyard.dev/leader-address";
/// Annotation on the [`crate::SchedulerEpoch`]: the certificate, PEM, that the leader answers with. Each leader makes
/// a new one, for the name [`LEADER_TLS_NAME`].
pub const LEADER_CERTIFICATE_ANNOTATION: &str = "warpyard.dev/leader-certificate";
/// See [`LEADER_CERTIFICATE_ANNOTATION`].
pub const LEADER_TLS_NAME: &str = "leader.scheduler.warpyard.dev";
/// The audience of tokens for questions to the leader: they are valid for nothing else.
pub const LEADER_AUDIENCE: &str = "warpyard-scheduler";

/// The audience of tokens with which members report: they are valid for nothing else, and no other token is valid for
/// reports.
pub const REPORT_AUDIENCE: &str = "warpyard-reports";
/// Annotation on pods: the authority, PEM, that signed the certificate of the server that members report to.
pub const REPORT_CA_ANNOTATION: &str = "warpyard.dev/report-ca";

/// Label on pods and Jobs: the Run they belong to.
pub const RUN_LABEL: &str = "warpyard.dev/run";
/// Label on pods and Jobs: the attempt's number, from 1.
pub const ATTEMPT_LABEL: &str = "warpyard.dev/attempt";
/// Label on pods: the queue that is charged. On a pod without it, the one Queue that lists the pod's namespace.
pub const QUEUE_LABEL: &str = "warpyard.dev/queue";
/// Label on pods: the gang, unique within a namespace. A pod without it is a gang of one.
pub const GANG_LABEL: &str = "warpyard.dev/gang";
/// Annotation on pods: how many members must start together. Without it, a gang is its pods seen so far.
pub const GANG_SIZE_ANNOTATION: &str = "warpyard.dev/gang-size";
/// Annotation on pods: the GPU type that must be used, for example `H100`. Without it, any type.
pub const GPU_TYPE_ANNOTATION: &str = "warpyard.dev/gpu-type";

/// Annotation on pods: with `true`, the gang never gives way.
pub const NEVER_EVICT_ANNOTATION: &str = "warpyard.dev/never-evict";
/// Annotation on pods: with `true`, the gang saves its state when it is told to end, so it may be moved.
pub const CHECKPOINTS_ANNOTATION: &str = "warpyard.dev/checkpoints";
/// The volume of a member that holds the Run's checkpoints. All members share it, so the scheduler assumes that every
/// node reaches it.
pub const CHECKPOINT_VOLUME: &str = "warpyard-checkpoints";
/// Annotation on pods: when the member last saved its state, as RFC 3339.
pub const CHECKPOINTED_AT_ANNOTATION: &str = "warpyard.dev/checkpointed-at";
/// Annotation on pods: all members must be in one domain of this level: `zone`, `block` or `rack`.
pub const TOPOLOGY_REQUIRED_ANNOTATION: &str = "warpyard.dev/topology-required";
/// Annotation on pods: all members should be in one domain of this level, or else in one of the next level further
/// out.
pub const TOPOLOGY_PREFERRED_ANNOTATION: &str = "warpyard.dev/topology-preferred";

/// Annotation on Runs: who submitted it through our API. An admission policy (`deploy/submitted-by.yaml`) admits only
/// the caller's own name, and no later change.
pub const SUBMITTED_BY_ANNOTATION: &str = "warpyard.dev/submitted-by";

/// Finalizer on the pods of Runs, when there is a ledger: a pod's end is recorded before the pod may vanish.
pub const METERING_FINALIZER: &str = "warpyard.dev/metering";

/// Node label: the machine's type, as the cloud names it.
pub const INSTANCE_TYPE_NODE_LABEL: &str = "node.kubernetes.io/instance-type";
/// Node label: how the machine was bought: `on-demand`, `spot`, `reserved`.
pub const CAPACITY_TYPE_NODE_LABEL: &str = "karpenter.sh/capacity-type";
/// A value of [`CAPACITY_TYPE_NODE_LABEL`]: the cloud may take the machine back at short notice.
pub const SPOT: &str = "spot";
/// Karpenter's label on Nodes and claims: their `NodePool`.
pub const NODE_POOL_LABEL: &str = "karpenter.sh/nodepool";
/// How a machine without [`CAPACITY_TYPE_NODE_LABEL`] was bought.
pub const ON_PREMISES: &str = "on-premises";

/// Node label that names the GPU type outright; it overrides [`GPU_PRODUCT_LABEL`].
pub const GPU_TYPE_NODE_LABEL: &str = "warpyard.dev/gpu-type";
/// Node label set by NVIDIA's GPU feature discovery, for example `NVIDIA-H100-80GB-HBM3`.
pub const GPU_PRODUCT_LABEL: &str = "nvidia.com/gpu.product";
/// Node label: the zone, the outermost level of the topology.
pub const ZONE_LABEL: &str = "topology.kubernetes.io/zone";
/// Node label: the block of racks, within a zone.
pub const BLOCK_LABEL: &str = "topology.warpyard.dev/block";
/// Node label: the rack, within a block.
pub const RACK_LABEL: &str = "topology.warpyard.dev/rack";
/// Taint on GPU nodes that keeps other schedulers' pods away; our pods tolerate it.
pub const GPU_NODE_TAINT: &str = "warpyard.dev/gpu";
/// Taint on machines that were bought for a gang, until it has started: its value is [`crate::launch::gang_mark`].
pub const FOR_GANG_TAINT: &str = "warpyard.dev/for-gang";
/// Label on `NodeClaim`s of ours, and through them on nodes: the launch, named by its gang's mark and the second in
/// which it was decided.
pub const LAUNCH_LABEL: &str = "warpyard.dev/launch";
/// The queue of the gang that a machine was bought for: its caps count the machine.
pub const FOR_QUEUE_ANNOTATION: &str = "warpyard.dev/for-queue";
/// Annotation on `NodeClaim`s of ours: the gang that they were bought for, as `namespace/name`.
pub const FOR_GANG_ANNOTATION: &str = "warpyard.dev/for-gang";
/// Annotation on `NodeClaim`s of ours: how many the launch has.
pub const LAUNCH_SIZE_ANNOTATION: &str = "warpyard.dev/launch-size";
/// Annotation on `NodeClaim`s of ours: their [`crate::MachineType`].
pub const MACHINE_TYPE_ANNOTATION: &str = "warpyard.dev/machine-type";
/// Annotation on `NodeClaim`s of ours, and through them on nodes: the price that is paid, in millionths of the
/// currency per hour.
pub const PRICE_ANNOTATION: &str = "warpyard.dev/price-per-hour-micros";
/// Annotation on `NodeClaim`s of ours for spot machines, and through them on nodes: what the same machine costs on
/// demand, likewise.
pub const ON_DEMAND_PRICE_ANNOTATION: &str = "warpyard.dev/on-demand-price-per-hour-micros";
/// Annotation on pods: with `true`, spot machines are bought for the gang; with `false`, it is not placed on any.
/// Without it, none are bought, and existing ones are as good as others.
pub const SPOT_ANNOTATION: &str = "warpyard.dev/spot";
/// Annotation on pods: the most that the machines bought for the gang may cost, all together, for an hour: a decimal.
pub const MAX_PRICE_ANNOTATION: &str = "warpyard.dev/max-price";
/// Annotation on pods: when the gang must have ended, RFC 3339.
pub const DEADLINE_ANNOTATION: &str = "warpyard.dev/deadline";
/// Taint by the node agent: the machine leaves soon. Its value is [`LEAVING_SPOT`] or [`LEAVING_MAINTENANCE`].
pub const LEAVING_TAINT: &str = "warpyard.dev/leaving";
/// See [`LEAVING_TAINT`]: the cloud takes the machine back.
pub const LEAVING_SPOT: &str = "spot";
/// See [`LEAVING_TAINT`]: the machine is restarted, moved or retired.
pub const LEAVING_MAINTENANCE: &str = "maintenance";
/// Annotation on a Node with [`LEAVING_TAINT`]: when the machine is gone at the latest, as RFC 3339.
pub const LEAVING_AT_ANNOTATION: &str = "warpyard.dev/leaving-at";
/// Taint by the node agent: a GPU is sick. Its value is the remedy: `reset-gpu`, `restart-node` or `inspect`.
pub const GPU_SICK_TAINT: &str = "warpyard.dev/gpu-sick";
/// Annotation by the node agent: the faults of GPUs that it has reported since boot, as JSON.
pub const GPU_FAULTS_ANNOTATION: &str = "warpyard.dev/gpu-faults";
/// Node condition by the node agent: whether the cloud has announced that the machine leaves.
pub const NODE_NOTICE_CONDITION: &str = "WarpyardNodeNotice";
/// Node condition by the node agent: whether no GPU is sick.
pub const GPU_HEALTHY_CONDITION: &str = "WarpyardGpuHealthy";
/// The resource name that NVIDIA's device plugin offers.
pub const GPU_RESOURCE: &str = "nvidia.com/gpu";

/// Annotations with this prefix steer the scheduler: a Run's own annotations must not have it.
pub const RESERVED_ANNOTATION_PREFIX: &str = "warpyard.dev/";
/// Variables with this prefix say which run and attempt a member belongs to: a Run's own variables must not have it.
pub const RESERVED_VARIABLE_PREFIX: &str = "WARPYARD_";

/// Annotation on Jobs: when its members were told to save and leave. A Job that has it never starts anything again.
pub const TOLD_ANNOTATION: &str = "warpyard.dev/told-at";
/// "Saved, requeue me": the exit code of a member that left before it was done and wants to continue (`EX_TEMPFAIL`).
pub const REQUEUE_EXIT_CODE: i32 = 75;

/// Finalizer on a Run and on its Jobs: an attempt's end is recorded in the Run before the Job may vanish,
/// so that an outside deletion is always seen and never mistaken for "not created yet".
pub const RUN_FINALIZER: &str = "warpyard.dev/run";

/// What the last words of a process begin with, in its termination message, if its framework ran out of memory.
pub const OUT_OF_MEMORY_WORDS: &str = "OutOfMemory: ";

/// Annotation on pods that run on fake (KWOK) nodes: for how long to run, as a Go duration such as `90s`.
pub const FAKE_RUN_TIME_ANNOTATION: &str = "fake.warpyard.dev/run-time";
/// Annotation on pods that run on fake (KWOK) nodes: the exit code to end with. Without it, 0.
pub const FAKE_EXIT_CODE_ANNOTATION: &str = "fake.warpyard.dev/exit-code";
/// Annotation on pods that do not start on fake (KWOK) nodes as long as they have it.
pub const FAKE_HELD_ANNOTATION: &str = "fake.warpyard.dev/held";
