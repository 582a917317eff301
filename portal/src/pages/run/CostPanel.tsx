import { useQuery } from "@tanstack/react-query";
import { useState } from "react";

import { runCostQuery } from "../../api/queries";
import type { RunCostView, RunView } from "../../api/types";
import { ProblemNote } from "../../components/ProblemNote";
import { SkeletonRows } from "../../components/SkeletonRows";
import { ViewToggle } from "../../components/ViewToggle";
import { formatGpuHours } from "../../format/number";
import { formatMoney, growMicros, parseMicros } from "../../format/money";
import { useNow } from "../../live/useNow";
import { ClassBar } from "./ClassBar";
import { ClassTable } from "./ClassTable";

const REFETCH_MILLISECONDS = 5000;

/** The run's cost so far; it grows by the second while the run holds GPUs. */
export function CostPanel({ run }: { run: RunView }) {
  const [view, setView] = useState<"table">();
  const cost = useQuery({
    ...runCostQuery(run.namespace, run.name),
    // The ledger closes a run a little after its end, so polling goes on as long as the sum changes.
    refetchInterval: ({ state }) =>
      run.finishedAt && state.data && !isGrowing(state.data) ? false : REFETCH_MILLISECONDS,
  });
  return (
    <section className="panel" aria-labelledby="cost">
      <h2 id="cost" className="panel-title">
        Cost so far
        {cost.data && <ViewToggle picture="Bar" view={view} onChange={setView} />}
      </h2>
      {cost.data ? (
        <div className="cost-body">
          <Total cost={cost.data} receivedAt={cost.dataUpdatedAt} />
          {view === "table" ? <ClassTable cost={cost.data} /> : <ClassBar cost={cost.data} />}
        </div>
      ) : cost.isError ? (
        <ProblemNote error={cost.error} onRetry={() => void cost.refetch()} />
      ) : (
        <SkeletonRows count={3} />
      )}
    </section>
  );
}

function isGrowing(cost: RunCostView): boolean {
  return parseMicros(cost.total.perHour) > 0n;
}

function Total({ cost, receivedAt }: { cost: RunCostView; receivedAt: number }) {
  const { total, currency } = cost;
  const perHour = parseMicros(total.perHour);
  const micros = growMicros(parseMicros(total.amount), perHour, useNow() - receivedAt);
  return (
    <div>
      {/* Four places, so that one sees it move. */}
      <p className="cost-total tabular">{formatMoney(micros, currency, perHour > 0n ? 4 : undefined)}</p>
      <p className="soft tabular">
        {perHour > 0n && `${formatMoney(perHour, currency)} an hour · `}
        {formatGpuHours(total.gpuSeconds)} GPU hours
      </p>
      {(total.unpricedGpuSeconds ?? 0) > 0 && (
        <p className="cost-unpriced">
          {formatGpuHours(total.unpricedGpuSeconds ?? 0)} of these have no price, and are not in the sum.
        </p>
      )}
    </div>
  );
}
