import { Link } from "@tanstack/react-router";

import type { NodeView, Occupant } from "../../api/types";
import { StateLabel } from "../../components/StateLabel";
import { ownerOf, usedGpus } from "./cells";

/** A node in a few lines: its type, its state, and the occupants of its GPUs. */
export function NodeFacts({ node, withLinks = false }: { node: NodeView; withLinks?: boolean }) {
  const trouble = !node.ready ? "not ready" : node.schedulable ? undefined : "takes no new pods";
  return (
    <>
      <p className="soft">
        {[node.rack, `${usedGpus(node)} of ${node.gpus} ${node.gpuType ?? "GPUs"} held`].filter(Boolean).join(" · ")}
        {trouble && <strong className="node-trouble"> · {trouble}</strong>}
      </p>
      <ul className="node-holders">
        {node.occupants.map((occupant, index) => (
          <li key={index}>
            <span className="number">{occupant.gpus}</span>
            <span className="truncate">
              {withLinks ? <RunLink occupant={occupant} /> : (occupant.run ?? ownerOf(occupant))}
              {occupant.run && <span className="soft"> {ownerOf(occupant)}</span>}
            </span>
            <StateLabel state={occupant.state} />
          </li>
        ))}
      </ul>
    </>
  );
}

function RunLink({ occupant }: { occupant: Occupant }) {
  const { namespace, run } = occupant;
  if (!namespace || !run) return <>{ownerOf(occupant)}</>;
  return (
    <Link to="/runs/$namespace/$name" params={{ namespace, name: run }}>
      {run}
    </Link>
  );
}
