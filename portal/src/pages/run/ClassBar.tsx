import type { RunCostView } from "../../api/types";
import { formatMoney, parseMicros, perMille } from "../../format/money";
import { CLASS_LABELS } from "./classes";

/** The cost by class, as one stacked bar with a legend that says the same in words. */
export function ClassBar({ cost }: { cost: RunCostView }) {
  const total = parseMicros(cost.total.amount);
  const parts = cost.classes
    .map((part) => ({ class: part.class, micros: parseMicros(part.amount) }))
    .filter((part) => part.micros > 0n);
  if (parts.length === 0) return <p className="soft">Nothing was spent yet.</p>;
  return (
    <div>
      <div className="class-bar" aria-hidden="true">
        {parts.map((part) => (
          <span key={part.class} data-class={part.class} style={{ width: `${perMille(part.micros, total) / 10}%` }} />
        ))}
      </div>
      <ul className="class-legend">
        {parts.map((part) => (
          <li key={part.class}>
            <span className="swatch" data-class={part.class} />
            {CLASS_LABELS[part.class]}
            <span className="soft tabular">
              {formatMoney(part.micros, cost.currency)} · {Math.round(perMille(part.micros, total) / 10)} %
            </span>
          </li>
        ))}
      </ul>
    </div>
  );
}
