// Figures cross from tests, which run in processes of their own, to the reporter by annotations.
import { test } from "@playwright/test";

/** Adds to a figure of this run. Violations are summed up, times are maxima: see the reporter. */
export function figure(id: string, value: number): void {
  test.info().annotations.push({ type: `figure ${id}`, description: String(value) });
}
