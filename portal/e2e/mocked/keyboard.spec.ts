import { expect, test } from "../support/mocked.ts";
import { firstRun, runAddress } from "../support/runs.ts";
import type { Page } from "@playwright/test";
import { TOKEN } from "../mock-server.ts";

/** Presses Tab until something with this name has the focus; says if it never has. */
async function tabTo(page: Page, name: string | RegExp, role?: Parameters<Page["getByRole"]>[0]): Promise<void> {
  const target = role ? page.getByRole(role, { name }) : page.getByLabel(name);
  for (let presses = 0; presses < 40; presses += 1) {
    await page.keyboard.press("Tab");
    if (await target.first().evaluate((element) => element === document.activeElement)) return;
  }
  throw new Error(`Tab never reaches ${name}`);
}

test("login, by keys alone", async ({ page }) => {
  await page.goto("/cost?by=day");
  await expect(page.getByLabel("Token")).toBeVisible();
  await tabTo(page, "Token");
  await page.keyboard.type(TOKEN);
  await tabTo(page, "Log in", "button");
  await page.keyboard.press("Enter");
  await expect(page).toHaveURL(/\/cost\?by=day$/);
  await expect(page.getByRole("heading", { name: "Cost" })).toBeFocused();
});

test("runs: search, filter, move, open, go back", async ({ loggedIn: page }) => {
  await page.goto("/");
  await expect(page.locator(".run-body .run-row").first()).toBeVisible();
  await page.keyboard.press("Tab");
  await expect(page.getByRole("link", { name: "Skip to content" })).toBeFocused();
  await page.keyboard.press("Enter");
  await expect(page.locator("#main")).toBeFocused();

  await page.keyboard.press("/");
  await expect(page.getByLabel("Search")).toBeFocused();
  await page.keyboard.type("llama");
  await page.keyboard.press("Enter");
  await expect(page).toHaveURL(/search=llama/);
  await tabTo(page, "State");
  await page.keyboard.type("Run");
  await expect(page).toHaveURL(/phase=Running/);
  await tabTo(page, "Clear", "button");
  await page.keyboard.press("Enter");
  await expect(page).toHaveURL(/\/$/);

  await page.keyboard.press("j");
  const first = page.locator(".run-body .run-row a").first();
  await expect(first).toBeFocused();
  await page.keyboard.press("ArrowDown");
  await page.keyboard.press("j");
  await page.keyboard.press("k");
  await expect(page.locator('[data-index="1"] a')).toBeFocused();
  const name = await page.locator('[data-index="1"] a').textContent();
  await page.keyboard.press("Enter");
  await expect(page.getByRole("heading", { level: 1, name: name ?? "" })).toBeFocused();
  await page.goBack();
  await expect(page.getByRole("heading", { name: "Runs" })).toBeFocused();
});

test("runs: End goes to the last row that is loaded, and brings more", async ({ loggedIn: page }) => {
  await page.goto("/");
  await expect(page.locator(".run-body .run-row").first()).toBeVisible();
  await page.keyboard.press("j");
  await page.keyboard.press("End");
  await expect(page.locator('[data-index="99"] a')).toBeFocused();
  await expect(page.locator('[data-index="100"] a')).toBeAttached();
  await page.keyboard.press("ArrowDown");
  await expect(page.locator('[data-index="100"] a')).toBeFocused();
});

test("a run is stopped, and not when Escape is pressed", async ({ loggedIn: page }) => {
  await page.goto(runAddress(await firstRun(page, "Running")));
  await expect(page.locator(".cost-total")).toBeVisible();
  await tabTo(page, "Stop", "button");
  await page.keyboard.press("Enter");
  await expect(page.getByRole("dialog")).toBeVisible();
  await page.keyboard.press("Escape");
  await expect(page.getByRole("dialog")).toHaveCount(0);
  await expect(page.getByRole("button", { name: "Stop" })).toBeFocused();
  await page.keyboard.press("Enter");
  await tabTo(page, "Stop the run", "button");
  await page.keyboard.press("Enter");
  await expect(page.locator(".run-title .state-badge")).toHaveText("Stopped");
});

test("a run is paused after a question, goes on without one, and what failed is tried again", async ({
  loggedIn: page,
}) => {
  const badge = page.locator(".run-title .state-badge");
  await page.goto(runAddress(await firstRun(page, "Running")));
  await expect(page.locator(".cost-total")).toBeVisible();
  await tabTo(page, "Pause", "button");
  await page.keyboard.press("Enter");
  await tabTo(page, "Pause the run", "button");
  await page.keyboard.press("Enter");
  await expect(badge).toHaveText("Paused");
  await tabTo(page, "Resume", "button");
  await page.keyboard.press("Enter");
  await expect(badge).toHaveText("Pending");

  await page.goto(runAddress(await firstRun(page, "Failed")));
  await expect(page.locator(".cost-total")).toBeVisible();
  await tabTo(page, "Retry", "button");
  await page.keyboard.press("Enter");
  await expect(badge).toHaveText("Pending");
});

test("the other pages: every switch, the map's nodes, the account", async ({ loggedIn: page }) => {
  await page.goto("/queues");
  await expect(page.locator(".queue-tree .queue-row").first()).toBeVisible();
  await tabTo(page, "Tree", "radio");
  await page.keyboard.press("ArrowRight");
  await expect(page).toHaveURL(/view=table/);

  await page.goto("/map");
  await expect(page.locator(".map-canvas[data-drawn]")).toBeVisible();
  await tabTo(page, "By owner", "radio");
  await page.keyboard.press("ArrowRight");
  await expect(page).toHaveURL(/colour=state/);
  await tabTo(page, "Rack");
  await page.keyboard.type("rack-003");
  await expect(page).toHaveURL(/rack=rack-003/);
  await tabTo(page, /Cluster map/, "application");
  await expect(page.getByRole("status").filter({ hasText: "node-0024" })).toBeAttached();
  await page.keyboard.press("ArrowDown");
  await expect(page.getByRole("status").filter({ hasText: "node-0025" })).toBeAttached();
  await page.keyboard.press("Enter");
  await expect(page.getByRole("dialog", { name: "node-0025" })).toBeVisible();
  await page.keyboard.press("Escape");
  await expect(page.getByRole("dialog")).toHaveCount(0);

  await page.goto("/cost");
  await expect(page.locator(".cost-row").first()).toBeVisible();
  await tabTo(page, "CSV", "button");
  const download = page.waitForEvent("download");
  await page.keyboard.press("Enter");
  expect((await download).suggestedFilename()).toMatch(/^warpyard-cost-by-queue-.*\.csv$/);
  await tabTo(page, "Queue", "radio");
  await page.keyboard.press("ArrowLeft");
  await expect(page).toHaveURL(/by=user/);

  await tabTo(page, "Account of ada", "button");
  await page.keyboard.press("Enter");
  await tabTo(page, "System", "radio");
  await page.keyboard.press("ArrowLeft");
  await expect(page.locator("html")).toHaveAttribute("data-theme", "dark");
  await tabTo(page, "Log out", "button");
  await page.keyboard.press("Enter");
  await expect(page.getByRole("heading", { name: "Log in" })).toBeFocused();
});

test("single keys can be turned off", async ({ loggedIn: page }) => {
  await page.goto("/");
  await expect(page.locator(".run-body .run-row").first()).toBeVisible();
  await page.keyboard.press("?");
  await tabTo(page, /Single keys/);
  await page.keyboard.press("Space");
  await page.keyboard.press("Escape");
  await expect(page.getByRole("dialog")).toHaveCount(0);
  await page.keyboard.press("?");
  await expect(page.getByRole("dialog")).toHaveCount(0);
});
