import { Link } from "@tanstack/react-router";

import type { CostGrouping, CostReport } from "../../api/types";
import { formatGpuHours } from "../../format/number";
import { formatMoney, parseMicros, perMille } from "../../format/money";

const HEADINGS: Record<CostGrouping, string> = {
  run: "Run",
  user: "User",
  queue: "Queue",
  namespace: "Namespace",
  day: "Day",
  class: "Class",
};

interface Props {
  report: CostReport;
  rows: CostReport["items"];
}

/** Each row has its bar: the longest is the largest sum. Days stay in order, the rest is by size. */
export function CostTable({ report, rows }: Props) {
  const sums = rows.map((row) => ({ ...row, micros: parseMicros(row.amount) }));
  if (report.by !== "day") sums.sort((a, b) => (a.micros === b.micros ? 0 : a.micros < b.micros ? 1 : -1));
  const largest = sums.reduce((most, row) => (row.micros > most ? row.micros : most), 0n);
  const total = parseMicros(report.total.amount);
  return (
    <div className="scroll-x" tabIndex={0} role="group" aria-label="Cost">
      <table className="table cost-table">
        <thead>
          <tr>
            <th>{HEADINGS[report.by]}</th>
            <td className="cost-bar-head" />
            <th className="number">Cost</th>
            <th className="number">Share</th>
            <th className="number">GPU hours</th>
          </tr>
        </thead>
        <tbody>
          {sums.map((row) => (
            <tr key={row.key ?? ""} className="cost-row">
              <th scope="row">
                <Key by={report.by} value={row.key} />
              </th>
              <td className="cost-bar-cell">
                <span className="cost-bar" style={{ width: `${perMille(row.micros, largest) / 10}%` }} />
              </td>
              <td className="number">{formatMoney(row.micros, report.currency)}</td>
              <td className="number soft">{(perMille(row.micros, total) / 10).toFixed(1)} %</td>
              <td className="number">{formatGpuHours(row.gpuSeconds)}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

function Key({ by, value }: { by: CostGrouping; value: string | null | undefined }) {
  if (!value) return <span className="soft">no {by}: idle, or not a run</span>;
  const [namespace, name] = value.split("/");
  if (by !== "run" || !namespace || !name) return value;
  return (
    <Link to="/runs/$namespace/$name" params={{ namespace, name }}>
      {value}
    </Link>
  );
}
