import type { CostReport } from "../../api/types";
import { formatGpuHours } from "../../format/number";
import { formatMoney, parseMicros } from "../../format/money";

export function CostTotal({ report }: { report: CostReport }) {
  const { total, currency } = report;
  const perHour = parseMicros(total.perHour);
  return (
    <div className="cost-sum">
      <div>
        <p className="soft">Total</p>
        <p className="cost-sum-amount tabular">{formatMoney(parseMicros(total.amount), currency)}</p>
      </div>
      <div>
        <p className="soft">GPU hours</p>
        <p className="cost-sum-amount tabular">{formatGpuHours(total.gpuSeconds)}</p>
      </div>
      {perHour > 0n && (
        <div>
          <p className="soft">Now, an hour</p>
          <p className="cost-sum-amount tabular">{formatMoney(perHour, currency)}</p>
        </div>
      )}
      {(total.unpricedGpuSeconds ?? 0) > 0 && (
        <div>
          <p className="soft">Without a price, GPU hours</p>
          <p className="cost-sum-amount tabular">{formatGpuHours(total.unpricedGpuSeconds ?? 0)}</p>
        </div>
      )}
    </div>
  );
}
