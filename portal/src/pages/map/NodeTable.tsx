import type { NodeView } from "../../api/types";
import { LongTable } from "../../components/LongTable";
import { ownerOf, usedGpus } from "./cells";

const COLUMNS = [
  { label: "Node" },
  { label: "Rack" },
  { label: "Type" },
  { label: "GPUs", isNumber: true },
  { label: "Held", isNumber: true },
  { label: "State" },
  { label: "Held by" },
];

/** The content of the map, in words. */
export function NodeTable({ nodes }: { nodes: readonly NodeView[] }) {
  return (
    <div className="panel node-table">
      <LongTable label="Nodes" columns={COLUMNS} items={nodes} rowKey={(node) => node.name}>
        {(node) => (
          <>
            <th scope="row" className="node-row">
              {node.name}
            </th>
            <td>{node.rack ?? "–"}</td>
            <td>{node.gpuType ?? "–"}</td>
            <td className="number">{node.gpus}</td>
            <td className="number">{usedGpus(node)}</td>
            <td>{!node.ready ? "not ready" : node.schedulable ? "ready" : "takes no new pods"}</td>
            <td>{holders(node)}</td>
          </>
        )}
      </LongTable>
    </div>
  );
}

function holders(node: NodeView): string {
  const parts = node.occupants.map(
    (occupant) => `${occupant.run ?? ownerOf(occupant)} · ${occupant.gpus} ${occupant.state.toLowerCase()}`,
  );
  return parts.join(", ") || "–";
}
