import { readFileSync } from "node:fs";

import { expect, test } from "vitest";

import { CLASS_LABELS } from "./classes";

const styles = readFileSync("src/pages/run/run.css", "utf8");

test.each(Object.keys(CLASS_LABELS))("%s has a colour in the bar and its legend", (usage) => {
  expect(styles).toContain(`[data-class="${usage}"] {`);
});
