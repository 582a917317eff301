import type { QueueView } from "../../api/types";

export interface QueueNode {
  queue: QueueView;
  /** 0 for a queue without a parent, or with a parent that the caller may not see. */
  depth: number;
}

/** The queues as a tree from the top, each followed by its children; siblings by name. */
export function queueTree(queues: readonly QueueView[]): QueueNode[] {
  const names = new Set(queues.map((queue) => queue.name));
  const below = new Map<string, QueueView[]>();
  for (const queue of queues) {
    const parent = queue.parent && names.has(queue.parent) ? queue.parent : "";
    below.set(parent, [...(below.get(parent) ?? []), queue]);
  }
  const ordered: QueueNode[] = [];
  const seen = new Set<string>();
  const visit = (parent: string, depth: number) => {
    for (const queue of below.get(parent) ?? []) {
      // Two queues that name each other as parent are a mistake that the API server reports; here they come
      // last.
      if (seen.has(queue.name)) continue;
      seen.add(queue.name);
      ordered.push({ queue, depth });
      visit(queue.name, depth + 1);
    }
  };
  visit("", 0);
  for (const queue of queues) if (!seen.has(queue.name)) ordered.push({ queue, depth: 0 });
  return ordered;
}

/** The GPUs of one type that a queue holds. */
export interface GpuUse {
  type: string;
  used: number;
  borrowed: number;
  quota: number | undefined;
  limit: number | undefined;
}

/** Every GPU type that the queue has, owns or may have, by name. */
export function gpuUses(queue: QueueView): GpuUse[] {
  const maps = [queue.usedGpus, queue.quotaGpus ?? {}, queue.limitGpus ?? {}];
  const types = [...new Set(maps.flatMap(Object.keys))].sort();
  return types.map((type) => ({
    type,
    used: queue.usedGpus[type] ?? 0,
    borrowed: queue.borrowedGpus[type] ?? 0,
    quota: queue.quotaGpus?.[type],
    limit: queue.limitGpus?.[type],
  }));
}

/** The bar's end: the largest of use, quota and limit. */
export function barEnd(use: GpuUse): number {
  return Math.max(use.used, use.quota ?? 0, use.limit ?? 0, 1);
}

/** `1,016 of 800 H100, 216 borrowed, at most 1,200`. */
export function describeUse(use: GpuUse): string {
  const number = (count: number) => count.toLocaleString("en");
  const owned =
    use.quota === undefined
      ? `${number(use.used)} ${use.type}`
      : `${number(use.used)} of ${number(use.quota)} ${use.type}`;
  const borrowed = use.borrowed > 0 ? `, ${number(use.borrowed)} borrowed` : "";
  const limit = use.limit === undefined ? "" : `, at most ${number(use.limit)}`;
  return owned + borrowed + limit;
}
