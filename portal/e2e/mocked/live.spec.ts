import type { CapacityView } from "../../src/api/types.ts";
import { expect, test } from "../support/mocked.ts";
import { firstRun, runAddress } from "../support/runs.ts";

// A change is there within a second. The best of three: on a busy machine the page may not have the core for that long.
test.describe.configure({ retries: 2 });

test("a run changes on the open list and on its own page, without a reload", async ({ loggedIn: page, mock }) => {
  await page.goto("/");
  const run = await firstRun(page, "Pending");
  await page.evaluate(() => ((window as unknown as { isSame: boolean }).isSame = true));
  const row = page.getByRole("row").filter({ has: page.getByRole("link", { name: run.name, exact: true }) });
  await expect(row.getByText("Pending")).toBeVisible();
  await mock("run", { ...run, phase: "Running", startedAt: new Date().toISOString() });
  await expect(row.getByText("Running")).toBeVisible({ timeout: 1000 });

  await row.getByRole("link").click();
  const badge = page.locator(".run-title .state-badge");
  await expect(badge).toHaveText("Running");
  const cost = page.locator(".cost-total");
  const before = await cost.textContent();
  await expect(cost).not.toHaveText(before ?? "", { timeout: 3000 });
  await mock("run", { ...run, phase: "Succeeded", startedAt: run.createdAt, finishedAt: new Date().toISOString() });
  await expect(badge).toHaveText("Succeeded", { timeout: 1000 });
  await expect(page.locator(".step[data-state=Succeeded]")).toBeVisible();
  expect(await page.evaluate(() => (window as unknown as { isSame?: boolean }).isSame)).toBe(true);
});

test("a new run appears at the top, and a reader further down is not moved", async ({ loggedIn: page, mock }) => {
  await page.goto("/");
  const run = await firstRun(page, "Pending");
  const scroller = page.locator(".run-scroller");
  await scroller.evaluate((element) => (element.scrollTop = 1000));
  const inSight = page.locator('[data-index="26"] a');
  const name = await inSight.textContent();
  const top = async () => (await page.getByRole("link", { name: name ?? "", exact: true }).boundingBox())?.y;
  const before = await top();
  await mock("run", { ...run, name: "brand-new", createdAt: new Date().toISOString() });
  await expect(page.locator('[data-index="27"] a')).toHaveText(name ?? "");
  expect(Math.abs((await top())! - before!)).toBeLessThan(2);
  await scroller.evaluate((element) => (element.scrollTop = 0));
  await expect(page.locator('[data-index="0"] a')).toHaveText("brand-new");
});

test("queues and nodes move on the open pages", async ({ loggedIn: page, mock }) => {
  await page.goto("/queues");
  await expect(page.getByText("96 of 256 H100")).toBeVisible();
  await mock("queue", {
    name: "bio",
    parent: "research",
    weight: 1,
    quotaGpus: { H100: 256 },
    usedGpus: { H100: 200 },
    borrowedGpus: {},
    gangsRunning: 1,
    gangsWaiting: 0,
    namespaces: [],
  });
  await expect(page.getByText("200 of 256 H100")).toBeVisible({ timeout: 1000 });

  await page.goto("/map?view=table");
  await expect(page.getByRole("row").filter({ hasText: "node-0002" })).toContainText("ready");
  await mock("node", {
    name: "node-0002",
    rack: "rack-000",
    gpuType: "H100",
    gpus: 8,
    ready: false,
    schedulable: true,
    occupants: [],
  });
  await expect(page.getByRole("row").filter({ hasText: "node-0002" })).toContainText("not ready", { timeout: 1000 });
});

test("a lost stream is told, and what was missed is there when it is back", async ({ page, mock }) => {
  await page.goto("/login");
  await page.evaluate(() =>
    fetch("/v1/session", { method: "POST", body: JSON.stringify({ token: "a-token-that-the-mock-accepts" }) }),
  );
  await page.goto("/");
  await expect(page.locator(".live")).toHaveText("Live");
  const run = await firstRun(page, "Pending");
  await mock("streams?on=false");
  await expect(page.locator(".live")).toContainText(/Reconnecting · data is \d+s old/);
  await mock("run", { ...run, phase: "Failed" });
  await mock("streams?on=true");
  await expect(page.locator(".live")).toHaveText("Live", { timeout: 20_000 });
  const row = page.getByRole("row").filter({ has: page.getByRole("link", { name: run.name, exact: true }) });
  await expect(row.getByText("Failed")).toBeVisible();
});

test("an error says what happened and what to do, and trying again helps", async ({ page, mock }) => {
  await page.goto("/login");
  await page.evaluate(() =>
    fetch("/v1/session", { method: "POST", body: JSON.stringify({ token: "a-token-that-the-mock-accepts" }) }),
  );
  await mock("fail?path=/v1/cost");
  await page.goto("/cost");
  await expect(page.getByText("the ledger cannot be reached")).toBeVisible();
  await expect(page.getByText("try again in a minute; scheduling goes on")).toBeVisible();
  await mock("reset");
  await page.getByRole("button", { name: "Try again" }).click();
  await expect(page.locator(".cost-row").first()).toBeVisible();
});

test("a session that is over leads to the login and back", async ({ page, mock }) => {
  await mock("reset");
  await page.goto("/queues?view=table");
  await expect(page.getByLabel("Token")).toBeVisible();
  await page.getByLabel("Token").fill("wrong");
  await page.getByRole("button", { name: "Log in" }).click();
  await expect(page.getByText("Kubernetes does not accept this token.")).toBeVisible();
  await page.getByLabel("Token").fill("a-token-that-the-mock-accepts");
  await page.getByRole("button", { name: "Log in" }).click();
  await expect(page).toHaveURL(/\/queues\?view=table$/);
  await expect(page.locator("table")).toBeVisible();
});

test("a run's page keeps its address when it is opened directly", async ({ loggedIn: page }) => {
  const address = runAddress(await firstRun(page, "Running"));
  await page.goto(address);
  await expect(page).toHaveURL(address);
  await expect(page.locator(".cost-total")).toBeVisible();
});

test("a launch gets ready, machine by machine, on the open page, and a waiting run leads there", async ({
  loggedIn: page,
  mock,
}) => {
  await page.goto(runAddress(await firstRun(page, "Pending")));
  await page.getByRole("link", { name: "What is being bought" }).click();
  await expect(page.getByRole("heading", { name: "Capacity" })).toBeFocused();
  const launch = page.locator(".launch").first();
  await expect(launch).toContainText("1 of 4 ready");
  const view = await page.evaluate(async () => (await (await fetch("/v1/capacity")).json()) as CapacityView);
  const [first, ...others] = view.buying;
  await mock("capacity", { ...view, buying: [{ ...first, ready: 3 }, ...others] });
  await expect(launch).toContainText("3 of 4 ready", { timeout: 4000 });
  await mock("capacity", { ...view, buying: [], refused: [], machines: null, note: "nobody waits" });
  await expect(page.getByText("Nobody waits.")).toBeVisible({ timeout: 4000 });
  await expect(page.locator("table")).toHaveCount(0);
});
