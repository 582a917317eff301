import { useMemo } from "react";

import type { NodeView } from "../../api/types";
import { formatCount } from "../../format/number";
import { type CellState, nodeCells, STATE_LABELS, usedGpus } from "./cells";
import type { OwnerLook } from "./owners";

interface Props {
  nodes: readonly NodeView[];
  looks: ReadonlyMap<string, OwnerLook>;
  colourBy: "owner" | "state";
}

const STATES = Object.keys(STATE_LABELS) as CellState[];
// Two lines of them; the rest are on the map and in the table.
const OWNERS_MAX = 16;

/** The meaning of squares, with the number of GPUs in each state. */
export function MapLegend({ nodes, looks, colourBy }: Props) {
  const gpus = useMemo(() => nodes.reduce((sum, node) => sum + node.gpus, 0), [nodes]);
  const used = useMemo(() => nodes.reduce((sum, node) => sum + usedGpus(node), 0), [nodes]);
  return (
    <div className="map-legend">
      <p className="tabular">
        <strong>{formatCount(used)}</strong> of {formatCount(gpus)} GPUs held on {formatCount(nodes.length)} nodes
        <span className="soft"> · squares are counts: they show how many GPUs of a node are held, not which</span>
      </p>
      <ul className="map-keys" aria-label="Legend">
        {colourBy === "owner" ? <OwnerKeys looks={looks} /> : <StateKeys nodes={nodes} />}
      </ul>
    </div>
  );
}

function OwnerKeys({ looks }: { looks: ReadonlyMap<string, OwnerLook> }) {
  const owners = [...looks].sort(([, a], [, b]) => b.gpus - a.gpus);
  return (
    <>
      {owners.slice(0, OWNERS_MAX).map(([owner, look]) => (
        <li key={owner}>
          <span className="map-swatch" data-owner={look.colour} data-pattern={look.pattern} />
          {owner} <span className="soft tabular">{formatCount(look.gpus)}</span>
        </li>
      ))}
      {owners.length > OWNERS_MAX && <li className="soft">and {owners.length - OWNERS_MAX} more</li>}
      {(["Free", "Unschedulable", "NotReady"] as const).map((state) => (
        <li key={state}>
          <span className="map-swatch" data-cell={state} />
          {STATE_LABELS[state]}
        </li>
      ))}
    </>
  );
}

function StateKeys({ nodes }: { nodes: readonly NodeView[] }) {
  const counts = useMemo(() => countStates(nodes), [nodes]);
  return STATES.map((state) => (
    <li key={state}>
      <span className="map-swatch" data-cell={state} />
      {STATE_LABELS[state]} <span className="soft tabular">{formatCount(counts.get(state) ?? 0)}</span>
    </li>
  ));
}

function countStates(nodes: readonly NodeView[]): Map<CellState, number> {
  const counts = new Map<CellState, number>();
  for (const node of nodes) for (const { state } of nodeCells(node)) counts.set(state, (counts.get(state) ?? 0) + 1);
  return counts;
}
