import { cleanup } from "@testing-library/react";
import { afterAll, afterEach, beforeAll, vi } from "vitest";

import { FakeEventSource } from "./FakeEventSource";
import { server } from "./server";

// The page lays nothing out in tests, and a virtual table without a height has no rows.
for (const [side, pixels] of [
  ["offsetHeight", 800],
  ["offsetWidth", 1200],
  ["clientWidth", 1200],
  ["clientHeight", 800],
] as const) {
  Object.defineProperty(HTMLElement.prototype, side, { configurable: true, get: () => pixels });
}
vi.stubGlobal("EventSource", FakeEventSource);

beforeAll(() => server.listen({ onUnhandledRequest: "error" }));
afterEach(() => {
  cleanup();
  server.resetHandlers();
  FakeEventSource.all.length = 0;
  localStorage.clear();
});
afterAll(() => server.close());
