// A made-up cluster, the same on each start: 10,000 runs, 1,000 nodes in 125 racks, a tree of queues.
import type {
  Attempt,
  AttemptOutcome,
  CapacityView,
  MemberView,
  NodeView,
  Progress,
  QueueView,
  RunCostView,
  RunPhase,
  RunSummary,
  RunView,
  Why,
} from "../src/api/types.ts";

export const RUNS = 10_000;
export const NODES = 1_000;
const NODES_PER_RACK = 8;

const TEAMS = ["nlp", "vision", "speech", "robotics", "bio", "platform"] as const;
const USERS = ["ada", "grace", "alan", "edsger", "barbara", "donald", "radia"] as const;
const WORDS = [
  "llama-ft",
  "bert-xl",
  "vit-sweep",
  "diffusion",
  "whisper",
  "policy-grad",
  "fold",
  "reward",
  "eval",
  "tokenizer",
] as const;
const SHAPES = [
  [1, 1],
  [1, 8],
  [2, 8],
  [4, 8],
  [8, 8],
  [1, 2],
  [1, 4],
  [16, 8],
] as const;

const at = <T>(list: readonly T[], index: number): T => list[index % list.length]!;
/** A fixed stir of numbers: neighbours differ, and every start gives the same. */
const stir = (index: number, salt: number) => ((index + 1) * 2_654_435_761 + salt * 40_503) % 1_000_003;

export function makeRuns(now: number): RunSummary[] {
  return Array.from({ length: RUNS }, (_, index) => makeRun(index, now));
}

function makeRun(index: number, now: number): RunSummary {
  const phase = phaseOf(index);
  const [members, gpusPerMember] = at(SHAPES, stir(index, 1));
  const team = at(TEAMS, stir(index, 2));
  const created = now - (index * 97 + 40) * 1000;
  const started = created + (20 + (stir(index, 3) % 900)) * 1000;
  const finished = Math.min(started + (60 + (stir(index, 4) % 40_000)) * 1000, now - 1000);
  const hasStarted = phase !== "Pending" && phase !== "Starting";
  const isOver = phase === "Succeeded" || phase === "Failed" || phase === "Stopped";
  const waits = phase === "Pending";
  return {
    namespace: team,
    name: `${at(WORDS, stir(index, 5))}-${String(RUNS - index).padStart(5, "0")}`,
    queue: team,
    priority: at(["exploration", "research", "deadline", "production"] as const, stir(index, 6)),
    phase,
    ...(waits
      ? { reason: "QuotaExceeded", message: `queue ${team} holds 248 of 256 H100; requests ${members * gpusPerMember}` }
      : {}),
    stop: phase === "Stopped",
    pause: phase === "Paused",
    members,
    gpusPerMember,
    gpuType: at(["H100", "H100", "A100", "L4"], stir(index, 7)),
    memberCounts: {
      waiting: waits ? members : 0,
      starting: phase === "Starting" ? members : 0,
      running: phase === "Running" ? members : 0,
      succeeded: phase === "Succeeded" ? members : 0,
      failed: phase === "Failed" ? 1 : 0,
    },
    createdAt: time(created),
    ...(hasStarted ? { startedAt: time(Math.min(started, now - 2000)) } : {}),
    ...(isOver ? { finishedAt: time(Math.max(finished, started)) } : {}),
    submittedBy: at(USERS, stir(index, 8)),
  };
}

function phaseOf(index: number): RunPhase {
  if (index < 6) return at(["Pending", "Pending", "Starting", "Running", "Failed", "Paused"] as const, index);
  if (index < 140)
    return at(["Running", "Running", "Succeeded", "Running", "Pending", "Stopped", "Failed"] as const, stir(index, 9));
  return at(["Succeeded", "Succeeded", "Succeeded", "Succeeded", "Failed", "Stopped"] as const, stir(index, 10));
}

export function makeRunView(run: RunSummary): RunView {
  const asks = run.members * run.gpusPerMember;
  const reasons =
    run.phase === "Pending"
      ? [
          {
            code: "QuotaExceeded",
            message: run.message ?? "",
            never: false,
            queue: run.queue ?? "",
            resource: run.gpuType ?? "",
            nature: "Quota" as const,
            topic: "quota",
            numbers: [
              { label: "requests", value: asks, unit: run.gpuType ?? "" },
              { label: "queue holds", value: 248, unit: run.gpuType ?? "", ofQueue: true },
              { label: "queue may hold", value: 256, unit: run.gpuType ?? "", ofQueue: true },
            ],
          },
          {
            code: "NoRoom",
            message: `no nodes with ${run.gpusPerMember} free ${run.gpuType} for ${run.members} members`,
            never: false,
            resource: run.gpuType ?? "",
            nature: "Room" as const,
            topic: "gpus",
            numbers: [
              { label: "requests", value: asks, unit: run.gpuType ?? "" },
              { label: "free", value: 3, unit: run.gpuType ?? "" },
            ],
          },
          {
            code: "MachinesComing",
            message: `${run.members} machines were bought for it, ready at about ${time(Date.now() + 90_000)}`,
            never: false,
            nature: "Coming" as const,
            topic: "machines",
            numbers: [{ label: "bought", value: run.members, unit: "machines" }],
          },
        ]
      : [];
  return {
    ...run,
    timeLimitSeconds: 86_400,
    image: "registry.example/nlp/train:2026.11",
    command: [
      "/bin/sh",
      "-c",
      "torchrun train.py --model llama-8b --data /data/c4 --ckpt /ckpt/llama-ft --resume auto",
    ],
    checkpoint: { claim: "training" },
    graceSeconds: 120,
    retries: 3,
    failures: run.phase === "Pending" || run.phase === "Starting" ? 0 : 1,
    failOn: [64],
    ...(run.members > 1 ? { minMembers: Math.ceil(run.members / 2) } : {}),
    attempts: makeAttempts(run),
    ...(run.startedAt ? { progress: makeProgress(run) } : {}),
    reasons,
  };
}

/** A run that was taken off a spot machine, then failed by itself, and was tried again. */
function makeAttempts(run: RunSummary): Attempt[] {
  const named = (number: number) => ({ number, jobName: `${run.name}-${number}`, members: run.members });
  if (!run.startedAt) return [named(1)];
  const begin = Date.parse(run.startedAt);
  const end = run.finishedAt ? Date.parse(run.finishedAt) : Date.now();
  const moment = (share: number) => time(begin + Math.round((end - begin) * share));
  const lost = (steps: number, share: number) => ({ steps, seconds: Math.round(((end - begin) * share) / 1000) });
  const spot: Attempt = {
    ...named(1),
    startedAt: run.startedAt,
    toldAt: moment(0.3),
    endedAt: moment(0.31),
    outcome: "Interrupted",
    reason: "SpotNotice",
    message: "member 0 is on node-0007, which the cloud takes back by 2026-11-15T10:02:00Z",
    lost: { steps: 0, seconds: 0 },
  };
  const failed: Attempt = {
    ...named(2),
    members: Math.ceil(run.members / 2),
    startedAt: moment(0.36),
    endedAt: moment(0.55),
    outcome: "Failed",
    reason: "MemberFailed",
    message: "member 0 exited with 1",
    lost: lost(40, 0.06),
  };
  const over = run.phase === "Succeeded" || run.phase === "Failed" || run.phase === "Stopped";
  const last: Attempt = {
    ...named(3),
    startedAt: moment(0.6),
    ...(over ? { outcome: run.phase as AttemptOutcome, endedAt: moment(1) } : {}),
    ...(run.phase === "Paused"
      ? { outcome: "Interrupted", endedAt: moment(0.8), reason: "Paused", message: "paused on request" }
      : {}),
    ...(run.phase === "Failed" ? { reason: "MemberFailed", message: "member 0 exited with 137 (OOMKilled)" } : {}),
  };
  return [spot, failed, last];
}

function makeProgress(run: RunSummary): Progress {
  const end = run.finishedAt ? Date.parse(run.finishedAt) : Date.now();
  const saved = {
    step: 2300,
    attempt: 3,
    committedAt: time(end - 40_000),
    bytes: 16_000_000_000,
    milliseconds: 3140,
    stallMilliseconds: 80,
  };
  const loads = [0, 1200, 1900].map((step, index) => ({ attempt: index + 1, step, reached: step }));
  return { step: 2340, reportedAt: time(end - 5000), checkpoint: saved, loads };
}

export function makeWhy(run: RunSummary, now: number): Why {
  const { namespace, name, phase, createdAt, memberCounts } = run;
  const offer = { code: "FewerGpus", message: "with 4 GPUs per member" };
  const outlook = {
    jobsAhead: 2,
    gpusAhead: 96,
    jobsWaiting: 12,
    plannedAt: time(now),
    forecast: { p50Seconds: 720, p90Seconds: 2400, madeAt: time(now), wouldStartNow: [offer] },
  };
  const waits = phase === "Pending" ? { outlook } : {};
  return { namespace, name, phase, createdAt, memberCounts, reasons: makeRunView(run).reasons, ...waits };
}

export function makeMembers(run: RunSummary): MemberView[] {
  return Array.from({ length: run.members }, (_, index) => {
    const pod = `${run.name}-1-${index}`;
    if (run.phase === "Pending") return { index, pod, state: "Waiting" as const, gpus: run.gpusPerMember };
    const scheduledAt = time(Date.parse(run.startedAt ?? run.createdAt) - (run.startedAt ? 9000 : -12_000));
    const node = `node-${String((stir(Date.parse(run.createdAt) / 1000, 3) + index) % NODES).padStart(4, "0")}`;
    const placed = { index, pod, node, gpus: run.gpusPerMember, scheduledAt };
    if (run.phase === "Starting") return { ...placed, state: "Starting" as const };
    const begun = { ...placed, startedAt: run.startedAt ?? scheduledAt };
    if (run.phase === "Running") return { ...begun, state: "Running" as const };
    const failed = run.phase === "Failed" && index === 0;
    return {
      ...begun,
      finishedAt: run.finishedAt ?? begun.startedAt,
      state: failed || run.phase === "Stopped" ? ("Failed" as const) : ("Succeeded" as const),
      exitCode: failed ? 137 : run.phase === "Stopped" ? 143 : 0,
      ...(failed ? { reason: "OOMKilled" } : {}),
    };
  });
}

export function makeRunCost(run: RunSummary, now: number): RunCostView {
  const gpus = run.members * run.gpusPerMember;
  const end = run.finishedAt ? Date.parse(run.finishedAt) : now;
  const seconds = run.startedAt ? Math.max(0, Math.floor((end - Date.parse(run.startedAt)) / 1000)) : 0;
  // 2.5 of the currency for a GPU hour.
  const micros = (gpuSeconds: number) => (BigInt(Math.round(gpuSeconds)) * 2_500_000n) / 3600n;
  const runs = run.phase === "Running" ? decimal(BigInt(gpus) * 2_500_000n) : "0";
  const starting = run.startedAt ? gpus * 9 : 0;
  return {
    namespace: run.namespace,
    name: run.name,
    currency: "USD",
    asOf: time(now),
    total: { amount: decimal(micros(gpus * seconds + starting)), perHour: runs, gpuSeconds: gpus * seconds + starting },
    classes: [
      { class: "Productive", amount: decimal(micros(gpus * seconds)), perHour: runs, gpuSeconds: gpus * seconds },
      { class: "Starting", amount: decimal(micros(starting)), perHour: "0", gpuSeconds: starting },
    ],
    attempts: [
      {
        attempt: 1,
        amount: decimal(micros(gpus * seconds + starting)),
        perHour: runs,
        gpuSeconds: gpus * seconds + starting,
      },
    ],
  };
}

export function makeQueues(): QueueView[] {
  const spend = (amount: string, gpuHours: string) => ({ month: "2026-11", amount, currency: "USD", gpuHours });
  const queue = (
    name: string,
    parent: string | undefined,
    used: Record<string, number>,
    quota: Record<string, number> | undefined,
    more: Partial<QueueView>,
  ): QueueView => ({
    name,
    ...(parent ? { parent } : {}),
    weight: 1,
    ...(quota ? { quotaGpus: quota } : {}),
    usedGpus: used,
    borrowedGpus: {},
    gangsRunning: 12,
    gangsWaiting: 0,
    namespaces: [name],
    ...more,
  });
  return [
    queue(
      "applied",
      "research",
      { H100: 1264, L4: 96 },
      { H100: 1600, L4: 128 },
      { namespaces: [], gangsRunning: 71, gangsWaiting: 9, spend: spend("612480.125000", "244992.1") },
    ),
    queue("bio", "research", { H100: 96 }, { H100: 256 }, { gangsRunning: 9, spend: spend("41200.5", "16480.2") }),
    queue(
      "nlp",
      "applied",
      { H100: 1016 },
      { H100: 800 },
      {
        borrowedGpus: { H100: 216 },
        limitGpus: { H100: 1200 },
        gangsRunning: 44,
        gangsWaiting: 7,
        spend: spend("498310.250000", "199324.1"),
      },
    ),
    queue(
      "platform",
      undefined,
      { A100: 640, L4: 40 },
      { A100: 1024, L4: 64 },
      { gangsRunning: 21, gangsWaiting: 0, spend: spend("90210.750000", "60140.5") },
    ),
    queue(
      "research",
      undefined,
      { A100: 704, H100: 2640, L4: 96 },
      { A100: 1024, H100: 3200, L4: 128 },
      { namespaces: [], gangsRunning: 151, gangsWaiting: 14, spend: spend("1204981.500000", "512300.0") },
    ),
    queue(
      "robotics",
      "research",
      { A100: 704 },
      { A100: 512 },
      { borrowedGpus: { A100: 192 }, gangsRunning: 30, gangsWaiting: 2, spend: spend("120400", "80266.7") },
    ),
    queue(
      "speech",
      "applied",
      { L4: 96 },
      { L4: 128 },
      { gangsRunning: 15, gangsWaiting: 0, spend: spend("8040.250000", "16080.5") },
    ),
    queue(
      "vision",
      "applied",
      { H100: 248 },
      { H100: 800 },
      { gangsRunning: 12, gangsWaiting: 2, spend: spend("106129.625000", "42451.9") },
    ),
  ];
}

export function makeNodes(): NodeView[] {
  return Array.from({ length: NODES }, (_, index) => makeNode(index));
}

function makeNode(index: number): NodeView {
  const rack = Math.floor(index / NODES_PER_RACK);
  const gpuType = rack < 70 ? "H100" : rack < 110 ? "A100" : "L4";
  const gpus = gpuType === "L4" ? 4 : 8;
  const ready = stir(index, 11) % 71 !== 0;
  const schedulable = stir(index, 12) % 43 !== 0;
  // Neighbouring nodes are held by the same team, as packing by rack leaves them.
  const team = at(TEAMS, stir(Math.floor(rack / 3), 13));
  const other = at(TEAMS, stir(index, 14));
  const kind = ready ? stir(index, 15) % 10 : 9;
  const state = at(
    ["Running", "Running", "Running", "Running", "Running", "Starting", "Ending"] as const,
    stir(index, 16),
  );
  const occupant = (name: string, count: number) => ({
    namespace: name,
    run: `${at(WORDS, stir(index, 17))}-0${(9000 + rack) % 10_000}`,
    queue: name,
    gpus: count,
    state,
  });
  const occupants =
    kind < 5
      ? [occupant(team, gpus)]
      : kind < 7
        ? [occupant(team, gpus / 2), occupant(other, gpus / 4)]
        : kind < 8
          ? [{ gpus: gpus / 2, state: "Running" as const }]
          : [];
  return {
    name: `node-${String(index).padStart(4, "0")}`,
    rack: `rack-${String(rack).padStart(3, "0")}`,
    gpuType,
    gpus,
    ready,
    schedulable,
    occupants,
  };
}

export function time(milliseconds: number): string {
  return new Date(milliseconds).toISOString().replace(/\.\d+Z$/, "Z");
}

export function decimal(micros: bigint): string {
  return `${micros / 1_000_000n}.${String(micros % 1_000_000n).padStart(6, "0")}`;
}

/** Two launches, spares, two refusals, and machines of three kinds. */
export function makeCapacity(runs: readonly RunSummary[], now: number): CapacityView {
  const waiting = runs.filter((run) => run.phase === "Pending");
  const gang = (index: number) => {
    const { namespace, name } = at(waiting, index);
    return { namespace, name: `${name}-1`, run: name };
  };
  const h100 = { machineType: "h100", zone: "zone-a", block: "b1" };
  return {
    enabled: true,
    decidedAt: time(now - 1000),
    buying: [
      {
        gang: gang(0),
        machines: [{ count: 4, capacityType: "spot", rack: "r3", ...h100 }],
        ready: 1,
        of: 4,
        since: time(now - 30_000),
        readyBy: time(now + 90_000),
        perHour: "117.60",
        why: "spot in zone-a at 29.40 an hour each; on demand is 55.04; no deadline",
      },
      {
        gang: gang(1),
        machines: [
          { count: 1, capacityType: "spot", ...h100 },
          { count: 1, capacityType: "on-demand", machineType: "h100", zone: "zone-c" },
        ],
        ready: 1,
        of: 2,
        since: time(now - 200_000),
        readyBy: time(now - 20_000),
        perHour: "84.44",
        why: "for 2 members of 8 GPUs",
      },
      {
        machines: [{ count: 1, machineType: "l4", capacityType: "on-demand", zone: "zone-b" }],
        ready: 0,
        of: 1,
        since: time(now - 5_000),
        readyBy: time(now + 55_000),
        perHour: "0.81",
        why: "kept idle as spares, as the MachineType says",
      },
    ],
    buyingInAll: 4,
    refused: [
      { gang: gang(2), why: "there are machines for 12 of its 16 members only" },
      { gang: gang(3), why: "it may cost 20.00 an hour, and would cost 29.40 at the least" },
    ],
    refusedInAll: 2,
    fromPools: 3,
    machines: [
      {
        machineType: "h100",
        capacityType: "on-demand",
        count: 12,
        starting: 1,
        idle: 1,
        leaving: 0,
        perHour: "660.48",
      },
      { machineType: "h100", capacityType: "spot", count: 40, starting: 5, idle: 2, leaving: 3, perHour: "1176.00" },
      { machineType: "l4", capacityType: "on-demand", count: 3, starting: 1, idle: 2, leaving: 0, perHour: "2.43" },
    ],
  };
}
