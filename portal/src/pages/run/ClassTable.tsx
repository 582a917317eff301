import type { RunCostView } from "../../api/types";
import { formatGpuHours } from "../../format/number";
import { formatMoney, parseMicros } from "../../format/money";
import { CLASS_LABELS } from "./classes";

/** The content of the bar in numbers. */
export function ClassTable({ cost }: { cost: RunCostView }) {
  return (
    <table className="table class-table">
      <thead>
        <tr>
          <th>Class</th>
          <th className="number">Cost</th>
          <th className="number">GPU hours</th>
        </tr>
      </thead>
      <tbody>
        {cost.classes.map((part) => (
          <tr key={part.class}>
            <td>{CLASS_LABELS[part.class]}</td>
            <td className="number">{formatMoney(parseMicros(part.amount), cost.currency)}</td>
            <td className="number">{formatGpuHours(part.gpuSeconds)}</td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}
