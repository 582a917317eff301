import { formatCount } from "../../format/number";
import { gpuUses, type QueueNode } from "./queueTree";
import { SpendText } from "./SpendText";

/** The content of the tree in numbers: one row for each queue and GPU type. */
export function QueueTable({ nodes }: { nodes: readonly QueueNode[] }) {
  return (
    <div className="scroll-x" tabIndex={0} role="group" aria-label="Queues">
      <table className="table queue-table">
        <thead>
          <tr>
            <th>Queue</th>
            <th>Below</th>
            <th>GPU type</th>
            <th className="number">Used</th>
            <th className="number">Quota</th>
            <th className="number">Borrowed</th>
            <th className="number">Limit</th>
            <th className="number">Running</th>
            <th className="number">Waiting</th>
            <th className="number">This month</th>
          </tr>
        </thead>
        <tbody>{nodes.map(rows)}</tbody>
      </table>
    </div>
  );
}

function rows({ queue }: QueueNode) {
  const uses = gpuUses(queue);
  // A queue that has no GPUs at all still has its row.
  const types = uses.length > 0 ? uses : [undefined];
  return types.map((use, index) => (
    <tr key={`${queue.name} ${use?.type ?? ""}`}>
      {index === 0 && (
        <>
          <th scope="rowgroup" rowSpan={types.length}>
            {queue.name}
          </th>
          <td rowSpan={types.length}>{queue.parent ?? "–"}</td>
        </>
      )}
      <td>{use?.type ?? "–"}</td>
      <Count value={use?.used} />
      <Count value={use?.quota} />
      <Count value={use?.borrowed} />
      <Count value={use?.limit} />
      {/* These are of the whole queue, so they stand once. */}
      {index === 0 && (
        <>
          <Count value={queue.gangsRunning} rows={types.length} />
          <Count value={queue.gangsWaiting} rows={types.length} />
          <td className="number" rowSpan={types.length}>
            <SpendText spend={queue.spend} />
          </td>
        </>
      )}
    </tr>
  ));
}

function Count({ value, rows = 1 }: { value: number | undefined; rows?: number }) {
  return (
    <td className="number" rowSpan={rows}>
      {value === undefined ? "–" : formatCount(value)}
    </td>
  );
}
