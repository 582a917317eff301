import { expect, type Page } from "@playwright/test";

/** Gathers what the page complains of; `check` fails if there was anything that the test did not expect. */
export function failOnConsoleErrors(page: Page) {
  const errors: string[] = [];
  const expected: RegExp[] = [];
  page.on("pageerror", (error) => errors.push(error.message));
  page.on("console", (message) => {
    if (message.type() === "error" || message.type() === "warning")
      errors.push(`${message.text()} (${message.location().url})`);
  });
  return {
    expect: (pattern: RegExp) => expected.push(pattern),
    check: () => expect(errors.filter((error) => !expected.some((pattern) => pattern.test(error)))).toEqual([]),
  };
}
