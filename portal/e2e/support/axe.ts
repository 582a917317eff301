import AxeBuilder from "@axe-core/playwright";
import { expect, type Page } from "@playwright/test";

import { figure } from "./figures.ts";

const RULES = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"];

/** No violation of WCAG 2.2 AA, nor of axe's own good practice. The number goes into the figures. */
export async function checkAxe(page: Page, where: string): Promise<void> {
  const { violations } = await new AxeBuilder({ page }).withTags(RULES).analyze();
  const told = violations.flatMap(({ id, nodes }) =>
    nodes.map((node) => `${where}: ${id} at ${node.target.join(" ")}: ${node.failureSummary ?? ""}`),
  );
  figure("portal.axe_violations", told.length);
  expect.soft(told).toEqual([]);
}
