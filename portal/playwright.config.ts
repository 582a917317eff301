import { defineConfig } from "@playwright/test";

// No graphics, no network of the browser's own.
const FLAGS = [
  "--no-sandbox",
  "--disable-gpu",
  "--disable-quic",
  "--no-first-run",
  "--disable-background-networking",
  "--disable-component-update",
  "--disable-sync",
];

export default defineConfig({
  testDir: "e2e",
  outputDir: "test-results/artifacts",
  // Tests of one project share the mock's world, and the machine has two cores.
  workers: 1,
  timeout: 180_000,
  expect: { timeout: 20_000 },
  forbidOnly: true,
  reporter: [["list"], ["./e2e/figures-reporter.ts"]],
  use: {
    viewport: { width: 1440, height: 900 },
    trace: "retain-on-failure",
    launchOptions: { executablePath: process.env["CHROMIUM"] ?? "/usr/bin/chromium", args: FLAGS },
  },
  projects: [
    { name: "mocked", testMatch: "mocked/*.spec.ts" },
    { name: "real", testMatch: "real/*.spec.ts", timeout: 180_000, use: { ignoreHTTPSErrors: true } },
  ],
});
