import { PLACES, visit } from "../support/pages.ts";
import { test } from "../support/mocked.ts";

const SIZES = [
  { width: 1440, height: 900 },
  { width: 390, height: 844 },
] as const;

for (const colorScheme of ["light", "dark"] as const) {
  for (const viewport of SIZES) {
    test(`every page is photographed at ${viewport.width} px, ${colorScheme}`, async ({ loggedIn: page }) => {
      await page.emulateMedia({ colorScheme, reducedMotion: "reduce" });
      await page.setViewportSize(viewport);
      const shoot = (name: string) =>
        page.screenshot({ path: `test-results/screenshots/${name}-${viewport.width}-${colorScheme}.png` });
      for (const place of PLACES) {
        await visit(page, place);
        await shoot(place.name);
      }
      await page.goto("/login");
      await page.getByLabel("Token").waitFor();
      await shoot("login");
    });
  }
}
