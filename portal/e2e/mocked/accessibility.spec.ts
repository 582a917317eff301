import { checkAxe } from "../support/axe.ts";
import { expect, test } from "../support/mocked.ts";
import { PLACES, visit } from "../support/pages.ts";
import { firstRun, runAddress } from "../support/runs.ts";

for (const colorScheme of ["light", "dark"] as const) {
  for (const width of [1440, 390]) {
    test(`axe finds nothing on any page at ${width} px, ${colorScheme}`, async ({ loggedIn: page }) => {
      test.setTimeout(180_000);
      await page.emulateMedia({ colorScheme });
      await page.setViewportSize({ width, height: 900 });
      for (const place of PLACES) {
        await visit(page, place);
        await checkAxe(page, place.name);
      }
      await page.goto("/login");
      await page.getByText("How do I get a token?").click();
      await checkAxe(page, "login");
    });
  }

  test(`axe finds nothing in dialogs, menus and notes, ${colorScheme}`, async ({ loggedIn: page, mock }) => {
    await page.emulateMedia({ colorScheme });
    await page.goto("/");
    await page.keyboard.press("?");
    await checkAxe(page, "shortcuts");
    await page.keyboard.press("Escape");
    await page.getByRole("button", { name: "Account of ada" }).click();
    await checkAxe(page, "account");
    await page.goto(runAddress(await firstRun(page, "Running")));
    await page.getByRole("button", { name: "Stop" }).click();
    await checkAxe(page, "stop dialog");
    await page.goto("/?queue=nobody");
    await expect(page.getByText("No run matches")).toBeVisible();
    await checkAxe(page, "no match");
    await page.goto("/nowhere");
    await checkAxe(page, "not found");
    await mock("hang?path=/v1/queues");
    await page.goto("/queues");
    await expect(page.getByText("Loading")).toBeAttached();
    await checkAxe(page, "loading");
  });
}

test("text at 400 % zoom needs no sideways scrolling", async ({ loggedIn: page }) => {
  // 1280 px at 400 % are 320 px.
  await page.setViewportSize({ width: 320, height: 600 });
  for (const place of PLACES) {
    await visit(page, place);
    const overflow = await page.evaluate(() => document.documentElement.scrollWidth - window.innerWidth);
    expect.soft(overflow, place.name).toBeLessThanOrEqual(0);
  }
});
