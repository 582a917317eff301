import type { Page } from "@playwright/test";

import type { RunPhase, RunSummary } from "../../src/api/types.ts";

/** The first run in a phase that has several members, as the API lists it. */
export async function firstRun(page: Page, phase: RunPhase): Promise<RunSummary> {
  const { items } = await page.evaluate(
    async (phase) => (await (await fetch(`/v1/runs?phase=${phase}`)).json()) as { items: RunSummary[] },
    phase,
  );
  const run = items.find((run) => run.members > 1);
  if (!run) throw new Error(`no run is ${phase}`);
  return run;
}

export const runAddress = (run: RunSummary) => `/runs/${run.namespace}/${run.name}`;
