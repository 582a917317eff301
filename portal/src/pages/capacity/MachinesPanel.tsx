import type { BoughtMachines } from "../../api/types";
import { formatCount } from "../../format/number";
import { formatMoney, parseMicros } from "../../format/money";
import { type Part, PARTS, partsOf } from "./machines";

const LABELS: Record<Part, string> = { starting: "Starting", busy: "Busy", idle: "Idle", leaving: "Leaving" };

/** Bought machines by type: the strip is the picture, and the numbers next to it say the same. */
export function MachinesPanel({ machines }: { machines: readonly BoughtMachines[] }) {
  const most = Math.max(...machines.map((machine) => machine.count));
  const perHour = machines.reduce((sum, machine) => sum + parseMicros(machine.perHour), 0n);
  return (
    <section className="panel" aria-labelledby="machines">
      <h2 id="machines" className="panel-title">
        Machines
        <span className="soft tabular">{formatMoney(perHour, undefined)} an hour</span>
      </h2>
      <div className="scroll-x" tabIndex={0} role="group" aria-label="Machines">
        <table className="table machine-table">
          <thead>
            <tr>
              <th>Type</th>
              <th>Bought</th>
              <td className="machine-strip-cell" />
              <th className="number">Count</th>
              {PARTS.map((part) => (
                <th key={part} className="number">
                  <span className="machine-part">
                    <span className="swatch-wide" data-part={part} aria-hidden="true" />
                    {LABELS[part]}
                  </span>
                </th>
              ))}
              <th className="number">Per hour</th>
            </tr>
          </thead>
          <tbody>
            {machines.map((machine) => (
              <MachineRow key={`${machine.machineType} ${machine.capacityType}`} machine={machine} most={most} />
            ))}
          </tbody>
        </table>
      </div>
    </section>
  );
}

function MachineRow({ machine, most }: { machine: BoughtMachines; most: number }) {
  const parts = partsOf(machine);
  return (
    <tr className="machine-row">
      <th scope="row">{machine.machineType}</th>
      <td>{machine.capacityType}</td>
      <td className="machine-strip-cell">
        {/* The longest strip is that of the type of which there are most. */}
        <div className="machine-strip" style={{ width: `${(100 * machine.count) / most}%` }} aria-hidden="true">
          {PARTS.filter((part) => parts[part] > 0).map((part) => (
            <span key={part} data-part={part} style={{ flexGrow: parts[part] }} />
          ))}
        </div>
      </td>
      <td className="number">{formatCount(machine.count)}</td>
      {PARTS.map((part) => (
        <td key={part} className={parts[part] > 0 ? "number" : "number soft"}>
          {formatCount(parts[part])}
        </td>
      ))}
      <td className="number">{formatMoney(parseMicros(machine.perHour), undefined)}</td>
    </tr>
  );
}
