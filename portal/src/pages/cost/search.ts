import type { CostGrouping } from "../../api/types";
import { utcDay, utcMonthStart } from "../../format/time";

export const GROUPINGS: readonly CostGrouping[] = ["run", "user", "queue", "namespace", "day", "class"];

/** Which report; in the page's address. Without days it is this month. */
export interface CostSearch {
  by?: CostGrouping;
  since?: string;
  until?: string;
}

export function parseCostSearch(search: Record<string, unknown>): CostSearch {
  const parsed: CostSearch = {};
  const by = GROUPINGS.find((grouping) => grouping === search["by"]);
  if (by) parsed.by = by;
  for (const key of ["since", "until"] as const) {
    const day = search[key];
    if (isDay(day)) parsed[key] = day;
  }
  return parsed;
}

/** What is asked of the API. */
export function reportQuery(search: CostSearch, now: number): Required<CostSearch> {
  return {
    by: search.by ?? "queue",
    since: search.since ?? utcMonthStart(now),
    until: search.until ?? utcDay(now),
  };
}

function isDay(value: unknown): value is string {
  return typeof value === "string" && /^\d{4}-\d{2}-\d{2}$/.test(value) && !Number.isNaN(Date.parse(value));
}
