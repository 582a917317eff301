import type { CapacityView, LaunchView, MemberView, NodeView, QueueView, RunSummary, RunView, Why } from "../api/types";

export function aRun(changes: Partial<RunSummary> = {}): RunSummary {
  return {
    namespace: "nlp",
    name: "llama",
    queue: "nlp",
    priority: "research",
    phase: "Pending",
    stop: false,
    members: 4,
    gpusPerMember: 8,
    memberCounts: { waiting: 4, starting: 0, running: 0, succeeded: 0, failed: 0 },
    createdAt: "2026-11-15T10:00:00Z",
    ...changes,
  };
}

export function aRunView(changes: Partial<RunView> = {}): RunView {
  return { ...aRun(), image: "train:1", command: ["python", "train.py"], attempts: [], reasons: [], ...changes };
}

export function aWhy(changes: Partial<Why> = {}): Why {
  const { namespace, name, phase, createdAt, memberCounts } = aRun();
  return { namespace, name, phase, createdAt, memberCounts, reasons: [], ...changes };
}

export function aMember(changes: Partial<MemberView> = {}): MemberView {
  return { index: 0, pod: "llama-1-0", state: "Waiting", gpus: 8, ...changes };
}

export function aQueue(changes: Partial<QueueView> = {}): QueueView {
  return {
    name: "nlp",
    weight: 1,
    usedGpus: {},
    borrowedGpus: {},
    gangsRunning: 0,
    gangsWaiting: 0,
    namespaces: [],
    ...changes,
  };
}

export function aNode(changes: Partial<NodeView> = {}): NodeView {
  return { name: "node-1", gpus: 8, ready: true, schedulable: true, occupants: [], ...changes };
}

export function aLaunch(changes: Partial<LaunchView> = {}): LaunchView {
  return {
    gang: { namespace: "nlp", name: "llama-1", run: "llama" },
    machines: [{ count: 4, machineType: "h100", capacityType: "spot", zone: "a", rack: "r1" }],
    ready: 1,
    of: 4,
    since: "2026-11-15T10:00:00Z",
    readyBy: "2026-11-15T10:02:00Z",
    perHour: "117.60",
    why: "for 4 members of 8 GPUs",
    ...changes,
  };
}

export function aCapacity(changes: Partial<CapacityView> = {}): CapacityView {
  return { enabled: true, buying: [], buyingInAll: 0, refused: [], refusedInAll: 0, fromPools: 0, ...changes };
}
