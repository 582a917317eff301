import react from "@vitejs/plugin-react";
import { defineConfig } from "vitest/config";

// The API server that `npm run dev` talks to.
const platform = process.env["WARPYARD_URL"] ?? "http://127.0.0.1:8080";

export default defineConfig({
  plugins: [react()],
  server: {
    // `changeOrigin` stays off: the API server compares Origin with Host, and both must be the page's.
    proxy: { "/v1": { target: platform, secure: false } },
  },
  build: {
    target: "es2022",
    // These know light-dark(), which would else be spelled out.
    cssTarget: ["chrome123", "firefox121", "safari17.5"],
    manifest: true,
    // The page's policy allows no data: addresses, so nothing is inlined.
    assetsInlineLimit: 0,
    // A polyfill for preloads would be dead weight: every browser of the target has them.
    modulePreload: { polyfill: false },
  },
  test: {
    environment: "happy-dom",
    include: ["src/**/*.test.{ts,tsx}"],
    setupFiles: ["src/testing/setup.ts"],
    restoreMocks: true,
    // One page environment for all files: making it costs more than the tests do.
    isolate: false,
    maxWorkers: 1,
  },
});
