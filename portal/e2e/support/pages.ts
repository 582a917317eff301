import { expect, type Page } from "@playwright/test";

import type { RunPhase } from "../../src/api/types.ts";
import { firstRun, runAddress } from "./runs.ts";

interface Place {
  /** What its screenshots are called. */
  name: string;
  /** Its address, or the phase of the run whose page it is. */
  at: string | { run: RunPhase };
  /** What shows that it is complete. */
  ready: string;
}

/** Every page, and every other way to look at one. */
export const PLACES: readonly Place[] = [
  { name: "runs", at: "/", ready: ".run-body .run-row" },
  { name: "run-running", at: { run: "Running" }, ready: ".cost-total" },
  { name: "run-pending", at: { run: "Pending" }, ready: ".outlook" },
  { name: "run-failed", at: { run: "Failed" }, ready: ".cost-total" },
  { name: "run-paused", at: { run: "Paused" }, ready: ".attempt-bar" },
  { name: "queues", at: "/queues", ready: ".queue-tree .queue-row" },
  { name: "queues-table", at: "/queues?view=table", ready: "table" },
  { name: "map", at: "/map", ready: ".map-canvas[data-drawn]" },
  { name: "map-state", at: "/map?colour=state", ready: ".map-canvas[data-drawn]" },
  { name: "map-table", at: "/map?view=table", ready: ".node-row" },
  { name: "capacity", at: "/capacity", ready: ".machine-row" },
  { name: "cost", at: "/cost", ready: ".cost-row" },
  { name: "cost-days", at: "/cost?by=day", ready: ".cost-row" },
];

/** Opens a place and waits until all of it is there. */
export async function visit(page: Page, place: Place): Promise<void> {
  await page.goto(typeof place.at === "string" ? place.at : runAddress(await firstRun(page, place.at.run)));
  await expect(page.locator(place.ready).first()).toBeVisible();
  await expect(page.locator(".skeleton")).toHaveCount(0);
  await page.evaluate(() => document.fonts.ready);
}
