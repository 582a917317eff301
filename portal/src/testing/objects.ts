import type { MemberView, NodeView, QueueView, RunSummary, RunView, Why } from "../api/types";

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
