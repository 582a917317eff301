import { Link } from "@tanstack/react-router";

import { counted } from "../../format/number";
import { GpuBar } from "./GpuBar";
import { gpuUses, type QueueNode } from "./queueTree";
import { SpendText } from "./SpendText";

/** The queues as a tree with bars. */
export function QueueTree({ nodes }: { nodes: readonly QueueNode[] }) {
  return (
    <>
      <div className="queue-row queue-head" aria-hidden="true">
        <span>Queue</span>
        <span>GPUs</span>
        <span>Runs</span>
        <span className="number">This month</span>
      </div>
      <ul className="queue-tree">
        {nodes.map(({ queue, depth }) => (
          <li key={queue.name} className="queue-row">
            <div className="queue-name" style={{ paddingLeft: depth * 22 }}>
              {depth > 0 && <span className="queue-branch" style={{ left: depth * 22 - 14 }} aria-hidden="true" />}
              <Link to="/" search={{ queue: queue.name }}>
                {queue.name}
              </Link>
              <span className="visually-hidden">{queue.parent ? `, below ${queue.parent}` : ", at the top"}</span>
              {queue.namespaces.length > 0 && queue.namespaces.join() !== queue.name && (
                <span className="soft truncate queue-namespaces">{queue.namespaces.join(", ")}</span>
              )}
            </div>
            <div className="queue-bars">
              {gpuUses(queue).map((use) => (
                <GpuBar key={use.type} use={use} />
              ))}
            </div>
            <div className="queue-gangs tabular">
              {counted(queue.gangsRunning, "running", "running")}
              <span className={queue.gangsWaiting > 0 ? "queue-waiting" : "soft"}>{queue.gangsWaiting} waiting</span>
            </div>
            <div className="queue-spend">
              <span className="visually-hidden">Spent this month: </span>
              <SpendText spend={queue.spend} />
            </div>
          </li>
        ))}
      </ul>
    </>
  );
}
