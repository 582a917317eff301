// The portal on the real platform: nothing is made up. It wants a cluster whose nodes are free, and a queue that may
// hold all GPUs of one type.
import { expect, type Page, test } from "@playwright/test";

import { checkAxe } from "../support/axe.ts";
import { failOnConsoleErrors } from "../support/console.ts";
import { visit } from "../support/pages.ts";
import { jobThatFills, Platform } from "../support/platform.ts";

// What a test of the whole platform may take for one step: scheduling, pods, a status write.
const STEP = { timeout: 60_000 };
const platform = new Platform();
const id = Date.now().toString(36);

test.use({ baseURL: platform.url });

test("a run goes from Pending to Running to Succeeded on open pages", async ({ context }) => {
  const [list, own] = [await context.newPage(), await context.newPage()];
  const consoles = [list, own].map(failOnConsoleErrors);
  await logIn(list);
  await list.goto(`/?namespace=${platform.namespace}`);
  await expect(list.locator(".live")).toHaveText("Live", STEP);
  await markLoaded(list);

  // Something holds all GPUs, so that our run has to wait.
  const blocker = jobThatFills(await platform.nodes(), `portal-blocker-${id}`);
  await platform.submit(blocker);
  await expect(row(list, blocker.name).getByText("Running")).toBeVisible(STEP);

  const name = `portal-run-${id}`;
  await platform.submit({
    name,
    gpus: blocker.gpus,
    nodes: 1,
    run: "true",
    annotations: { "fake.warpyard.dev/run-time": "45s" },
  });
  await own.goto(`/runs/${platform.namespace}/${name}`);
  await markLoaded(own);
  const badge = own.locator(".run-title .state-badge");
  await expect(row(list, name).getByText("Pending")).toBeVisible(STEP);
  await expect(badge).toHaveText("Pending", STEP);
  await expect(own.locator(".reason").first()).toBeVisible(STEP);
  await checkAxe(own, "run, pending");

  await platform.stop(blocker.name);
  await expect(badge).toHaveText("Running", STEP);
  await expect(row(list, name).getByText("Running")).toBeVisible(STEP);
  await expect(own.getByRole("row").filter({ hasText: "Running" })).toHaveCount(1, STEP);
  const cost = own.locator(".cost-total");
  const before = (await cost.textContent()) ?? "";
  await expect(cost).not.toHaveText(before, STEP);
  await checkAxe(own, "run, running");

  await expect(badge).toHaveText("Succeeded", STEP);
  await expect(row(list, name).getByText("Succeeded")).toBeVisible(STEP);
  expect((await platform.run(name)).phase).toBe("Succeeded");
  for (const page of [list, own]) expect(await isStillLoaded(page)).toBe(true);
  for (const console of consoles) console.check();
});

test("every page opens, quiet and without a violation", async ({ page }) => {
  const console = failOnConsoleErrors(page);
  await page.goto("/login");
  await checkAxe(page, "login");
  await logIn(page);
  const places = [
    { name: "runs", at: "/", ready: ".run-body .run-row" },
    { name: "queues", at: "/queues", ready: ".queue-tree .queue-row" },
    { name: "queues-table", at: "/queues?view=table", ready: "table" },
    { name: "map", at: "/map", ready: ".map-canvas[data-drawn]" },
    { name: "map-state", at: "/map?colour=state", ready: ".map-canvas[data-drawn]" },
    { name: "map-table", at: "/map?view=table", ready: ".node-row" },
    // Nothing is bought here: the page says so.
    { name: "capacity", at: "/capacity", ready: ".note" },
    { name: "cost", at: "/cost", ready: ".cost-row" },
  ];
  for (const colorScheme of ["light", "dark"] as const) {
    await page.emulateMedia({ colorScheme });
    for (const place of places) {
      await visit(page, place);
      await checkAxe(page, `${place.name}, ${colorScheme}`);
      await page.screenshot({ path: `test-results/screenshots/real-${place.name}-${colorScheme}.png` });
    }
  }
  await page.getByRole("button", { name: /^Account/ }).click();
  await page.getByRole("button", { name: "Log out" }).click();
  await expect(page.getByLabel("Token")).toBeVisible();
  console.check();
});

async function logIn(page: Page): Promise<void> {
  await page.goto("/login");
  await page.getByLabel("Token").fill(platform.token);
  await page.getByRole("button", { name: "Log in" }).click();
  await expect(page.getByRole("heading", { name: "Runs", exact: true })).toBeVisible(STEP);
}

function row(page: Page, name: string) {
  return page.getByRole("row").filter({ has: page.getByRole("link", { name, exact: true }) });
}

/** A reload would lose the mark. */
async function markLoaded(page: Page): Promise<void> {
  await page.evaluate(() => (document.documentElement.dataset["loaded"] = "once"));
}

function isStillLoaded(page: Page): Promise<boolean> {
  return page.evaluate(() => document.documentElement.dataset["loaded"] === "once");
}
