import type { RunPhase, RunSummary } from "./types";

export const RUN_PHASES: readonly RunPhase[] = [
  "Pending",
  "Starting",
  "Running",
  "Paused",
  "Succeeded",
  "Failed",
  "Stopped",
];

// The server refuses texts longer than any name.
const LENGTH_MAX = { namespace: 63, queue: 253, user: 253, search: 63 } as const;

/** Which runs a list shows. The same names as in the page's address and in the API. */
export interface RunFilters {
  namespace?: string;
  queue?: string;
  phase?: RunPhase;
  user?: string;
  search?: string;
}

/** The filters in an address; unknown keys and values are dropped. */
export function parseRunFilters(search: Record<string, unknown>): RunFilters {
  const filters: RunFilters = {};
  for (const key of ["namespace", "queue", "user", "search"] as const) {
    const text = textOf(search[key], LENGTH_MAX[key]);
    if (text) filters[key] = text;
  }
  const phase = RUN_PHASES.find((phase) => phase === search["phase"]);
  if (phase) filters.phase = phase;
  return filters;
}

export function isFiltered(filters: RunFilters): boolean {
  return Object.keys(filters).length > 0;
}

/** Whether the server would list this run: for runs that events bring. */
export function matchesRunFilters(run: RunSummary, filters: RunFilters): boolean {
  return (
    (!filters.namespace || run.namespace === filters.namespace) &&
    (!filters.queue || run.queue === filters.queue) &&
    (!filters.phase || run.phase === filters.phase) &&
    (!filters.user || run.submittedBy === filters.user) &&
    (!filters.search || run.name.toLowerCase().includes(filters.search.toLowerCase()))
  );
}

function textOf(value: unknown, lengthMax: number): string | undefined {
  return typeof value === "string" ? value.trim().slice(0, lengthMax) || undefined : undefined;
}
