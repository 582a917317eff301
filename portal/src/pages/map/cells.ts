import type { NodeView, Occupant } from "../../api/types";

/** One square of the map: the state of a GPU. */
export type CellState = "Free" | "Starting" | "Running" | "Ending" | "NotReady" | "Unschedulable";

export interface Cell {
  state: CellState;
  /** Its occupant; absent for a free GPU. */
  owner?: string;
}

export const STATE_LABELS: Record<CellState, string> = {
  Free: "free",
  Starting: "starting",
  Running: "running",
  Ending: "ending",
  NotReady: "node not ready",
  Unschedulable: "free, but takes no pods",
};

/** The label of occupants whose names the caller may not see. */
export const OTHERS = "others";

// A square is counted, not identified; a node with more GPUs than these would be a mistake in its labels.
const CELLS_MAX = 64;

/** The node's squares: the held ones in the order of their occupants, then the rest. */
export function nodeCells(node: NodeView): Cell[] {
  const cells = node.occupants.flatMap((occupant) =>
    Array.from({ length: Math.min(occupant.gpus, CELLS_MAX) }, () => ({
      state: stateOf(node, occupant),
      owner: ownerOf(occupant),
    })),
  );
  const rest: CellState = !node.ready ? "NotReady" : node.schedulable ? "Free" : "Unschedulable";
  while (cells.length < Math.min(node.gpus, CELLS_MAX)) cells.push({ state: rest } as (typeof cells)[number]);
  return cells.slice(0, Math.min(node.gpus, CELLS_MAX));
}

/** The queue that is charged, else the tenant. */
export function ownerOf(occupant: Occupant): string {
  return occupant.queue ?? occupant.namespace ?? OTHERS;
}

export function usedGpus(node: NodeView): number {
  return node.occupants.reduce((sum, occupant) => sum + occupant.gpus, 0);
}

/** In words, for people who cannot see the map, and for its cards. */
export function describeNode(node: NodeView): string {
  const holders = node.occupants.map(
    (occupant) => `${occupant.gpus} ${occupant.state.toLowerCase()} for ${ownerOf(occupant)}`,
  );
  const state = !node.ready ? ", not ready" : node.schedulable ? "" : ", takes no new pods";
  const used = `${usedGpus(node)} of ${node.gpus} ${node.gpuType ?? "GPUs"} held`;
  return [`${node.name}${node.rack ? ` in ${node.rack}` : ""}${state}: ${used}`, ...holders].join("; ");
}

function stateOf(node: NodeView, occupant: Occupant): CellState {
  if (!node.ready) return "NotReady";
  switch (occupant.state) {
    case "Waiting":
    case "Starting":
      return "Starting";
    case "Running":
      return "Running";
    default:
      return "Ending";
  }
}
