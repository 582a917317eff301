// Prints `figure <id> <value> <unit>` at the end, and writes the same lines to test-results/figures.txt.
import { mkdirSync, writeFileSync } from "node:fs";

import type { Reporter, TestCase, TestResult } from "@playwright/test/reporter";

const FIGURES: Record<string, { unit: string; join: (a: number, b: number) => number }> = {
  "portal.axe_violations": { unit: "violations", join: (a, b) => a + b },
  "portal.longest_task_ms": { unit: "ms", join: Math.max },
  "portal.map_draw_ms": { unit: "ms", join: Math.max },
};

export default class FiguresReporter implements Reporter {
  #values = new Map<string, number>();

  onTestEnd(test: TestCase, result: TestResult): void {
    // A try that is made again does not count.
    if (result.status !== "passed" && result.retry < test.retries) return;
    for (const { type, description } of result.annotations) {
      if (!type.startsWith("figure ")) continue;
      const id = type.slice("figure ".length);
      const value = Number(description);
      const before = this.#values.get(id);
      this.#values.set(id, before === undefined ? value : (FIGURES[id]?.join(before, value) ?? value));
    }
  }

  onEnd(): void {
    const lines = [...this.#values].sort().map(([id, value]) => `figure ${id} ${value} ${FIGURES[id]?.unit ?? ""}`);
    for (const line of lines) console.log(line);
    mkdirSync("test-results", { recursive: true });
    writeFileSync("test-results/figures.txt", lines.map((line) => `${line}\n`).join(""));
  }
}
