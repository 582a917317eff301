// Applies changes to cached lists. Pure; unchanged objects keep their identity, so that only changed rows render.
import type { InfiniteData } from "@tanstack/react-query";

import { matchesRunFilters, type RunFilters } from "../api/runFilters";
import type { Page, RunSummary } from "../api/types";
import { runKey } from "./changes";

type RunPages = InfiniteData<Page<RunSummary>, string>;

/** The loaded part of a list of runs after `changes`: changed in place, gone ones out, new ones where they belong. */
export function patchRunPages(
  data: RunPages,
  changes: ReadonlyMap<string, RunSummary | null>,
  filters: RunFilters,
): RunPages {
  const unseen = new Map(changes);
  const pages = data.pages.map((page) => {
    if (!page.items.some((run) => changes.has(runKey(run)))) return page;
    const items = page.items.flatMap((run) => {
      const change = changes.get(runKey(run));
      if (change === undefined) return [run];
      unseen.delete(runKey(run));
      return change && matchesRunFilters(change, filters) ? [change] : [];
    });
    return { ...page, items };
  });
  for (const run of unseen.values()) {
    if (run && matchesRunFilters(run, filters)) insertRun(pages, run);
  }
  return pages.every((page, index) => page === data.pages[index]) ? data : { ...data, pages };
}

/** Inserts a new run where the server would list it, unless that is after the loaded part. */
function insertRun(pages: Page<RunSummary>[], run: RunSummary): void {
  const isBehind = (other: RunSummary) => compareRuns(run, other) < 0;
  let pageIndex = pages.findIndex((page) => page.items.some(isBehind));
  if (pageIndex < 0) {
    pageIndex = pages.length - 1;
    // A later page, not loaded yet, will bring it.
    if (pageIndex < 0 || pages[pageIndex]?.continue) return;
  }
  const page = pages[pageIndex];
  if (!page) return;
  const at = page.items.findIndex(isBehind);
  pages[pageIndex] = { ...page, items: page.items.toSpliced(at < 0 ? page.items.length : at, 0, run) };
}

/** The server's order: newest first by the second, then by namespace and name. */
export function compareRuns(a: RunSummary, b: RunSummary): number {
  const created = Math.floor(Date.parse(b.createdAt) / 1000) - Math.floor(Date.parse(a.createdAt) / 1000);
  return created || compareText(a.namespace, b.namespace) || compareText(a.name, b.name);
}

/** A whole list in the order of names, after `changes`. */
export function patchNamed<T extends { name: string }>(items: T[], changes: ReadonlyMap<string, T | null>): T[] {
  if (changes.size === 0) return items;
  const unseen = new Map(changes);
  const patched = items.flatMap((item) => {
    const change = changes.get(item.name);
    unseen.delete(item.name);
    return change === undefined ? [item] : change ? [change] : [];
  });
  const added = [...unseen.values()].filter((item) => item !== null);
  return added.length === 0 ? patched : [...patched, ...added].sort((a, b) => compareText(a.name, b.name));
}

/** By code units, like the server's ordered maps; a locale would order differently. */
function compareText(a: string, b: string): number {
  return a < b ? -1 : a > b ? 1 : 0;
}
