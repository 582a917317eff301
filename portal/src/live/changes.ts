import type { NodeView, QueueView, RunSummary } from "../api/types";

/** The latest state of each object in events; `null` means gone. The newest event of an object wins. */
export interface Changes {
  runs: Map<string, RunSummary | null>;
  queues: Map<string, QueueView | null>;
  nodes: Map<string, NodeView | null>;
}

export function noChanges(): Changes {
  return { runs: new Map(), queues: new Map(), nodes: new Map() };
}

export function runKey(run: { namespace: string; name: string }): string {
  return `${run.namespace}/${run.name}`;
}

/** The events of the stream that carry a change, and how each is applied. */
export const readers: Record<string, (changes: Changes, data: string) => void> = {
  run: (changes, data) => {
    const run = JSON.parse(data) as RunSummary;
    changes.runs.set(runKey(run), run);
  },
  "run-gone": (changes, data) => {
    changes.runs.set(runKey(JSON.parse(data) as RunSummary), null);
  },
  queue: (changes, data) => {
    const queue = JSON.parse(data) as QueueView;
    changes.queues.set(queue.name, queue);
  },
  "queue-gone": (changes, data) => {
    changes.queues.set((JSON.parse(data) as QueueView).name, null);
  },
  node: (changes, data) => {
    const node = JSON.parse(data) as NodeView;
    changes.nodes.set(node.name, node);
  },
  "node-gone": (changes, data) => {
    changes.nodes.set((JSON.parse(data) as NodeView).name, null);
  },
};

export function countChanges(changes: Changes): number {
  return changes.runs.size + changes.queues.size + changes.nodes.size;
}

/** Applies `later` over `earlier`, in place. */
export function mergeChanges(earlier: Changes, later: Changes): void {
  for (const [key, run] of later.runs) earlier.runs.set(key, run);
  for (const [key, queue] of later.queues) earlier.queues.set(key, queue);
  for (const [key, node] of later.nodes) earlier.nodes.set(key, node);
}
