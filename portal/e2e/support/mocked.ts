// What every test against the mock has: the mock, a page that is logged in, and the promise of a quiet console.
import { test as base, type Page } from "@playwright/test";
import { fileURLToPath } from "node:url";

import { startMockServer, TOKEN } from "../mock-server.ts";
import { failOnConsoleErrors } from "./console.ts";

const dist = fileURLToPath(new URL("../../dist", import.meta.url));

export const test = base.extend<
  { loggedIn: Page; mock: (path: string, body?: unknown) => Promise<void> },
  { address: string }
>({
  address: [
    // eslint-disable-next-line no-empty-pattern
    async ({}, use) => {
      const { server, address } = await startMockServer(dist);
      await use(address);
      server.closeAllConnections();
      server.close();
    },
    { scope: "worker" },
  ],
  baseURL: ({ address }, use) => use(address),
  mock: async ({ address }, use) => {
    const mock = async (path: string, body?: unknown) => {
      await fetch(`${address}/mock/${path}`, { method: "POST", body: JSON.stringify(body) });
    };
    await mock("reset");
    await use(mock);
  },
  loggedIn: async ({ page, mock }, use) => {
    await mock("reset");
    const errors = failOnConsoleErrors(page);
    // The browser's own request, so that the cookie is set as in life.
    await page.goto("/login");
    await page.evaluate((token) => fetch("/v1/session", { method: "POST", body: JSON.stringify({ token }) }), TOKEN);
    await use(page);
    errors.check();
  },
});

export { expect } from "@playwright/test";
