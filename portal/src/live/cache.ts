// Writes changes into the query cache, and fetches data that events do not carry.
import type { InfiniteData, Query, QueryClient, QueryKey } from "@tanstack/react-query";

import { keys } from "../api/queries";
import type { RunFilters } from "../api/runFilters";
import type { NodeView, Page, QueueView, RunSummary, RunView } from "../api/types";
import { type Changes, runKey } from "./changes";
import { patchNamed, patchRunPages } from "./patch";

/** Patches every cached list and run that `changes` touch. */
export function applyChanges(client: QueryClient, changes: Changes): void {
  if (changes.runs.size > 0) {
    for (const query of client.getQueryCache().findAll({ queryKey: keys.runLists }))
      patchRunList(client, query, changes);
    for (const run of changes.runs.values()) if (run) patchRun(client, run);
  }
  if (changes.queues.size > 0) {
    patch<QueueView[]>(client, keys.queues, (queues) => patchNamed(queues, changes.queues));
  }
  if (changes.nodes.size > 0) {
    patch<NodeView[]>(client, keys.nodes, (nodes) => patchNamed(nodes, changes.nodes));
  }
}

/** Fetches data that an event only hints at: a run's reasons, attempts and members; a run that is gone. */
export function refetchDetails(client: QueryClient, changes: Changes): void {
  for (const [key, run] of changes.runs) {
    const [namespace = "", name = ""] = run ? [run.namespace, run.name] : key.split("/");
    void client.invalidateQueries({ queryKey: keys.run(namespace, name) });
    void client.invalidateQueries({ queryKey: keys.members(namespace, name) });
  }
}

function patchRunList(client: QueryClient, query: Query, changes: Changes): void {
  const filters = query.queryKey[2] as RunFilters;
  patch<InfiniteData<Page<RunSummary>, string>>(client, query.queryKey, (data) =>
    patchRunPages(data, changes.runs, filters),
  );
}

function patchRun(client: QueryClient, run: RunSummary): void {
  patch<RunView>(client, keys.run(run.namespace, run.name), (view) => {
    if (runKey(view) !== runKey(run)) return view;
    // A field that the new summary lacks, such as a message, must not stay.
    const { image, command, attempts, reasons, timeLimitSeconds } = view;
    return { ...run, image, command, attempts, reasons, ...(timeLimitSeconds == null ? {} : { timeLimitSeconds }) };
  });
}

/** Changes cached data without changing its age: a patch does not refresh the rest of a list. */
function patch<T>(client: QueryClient, queryKey: QueryKey, change: (data: T) => T): void {
  const data = client.getQueryData<T>(queryKey);
  if (data === undefined) return;
  const changed = change(data);
  if (changed !== data) client.setQueryData<T>(queryKey, changed);
}
