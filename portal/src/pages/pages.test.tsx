// The states that every page has; what is special to one is tested beside it.
import { screen } from "@testing-library/react";
import userEvent from "@testing-library/user-event";
import { describe, expect, test } from "vitest";

import { aCapacity, aLaunch, aNode, aQueue } from "../testing/objects";
import { open } from "../testing/open";
import { answers, fails, hangs } from "../testing/server";

const total = { amount: "3", perHour: "0", gpuSeconds: 3600 };
const report = (items: object[]) => ({
  by: "queue",
  since: "2026-11-01",
  until: "2026-11-15",
  currency: "USD",
  asOf: "2026-11-15T00:00:00Z",
  total,
  items,
});

describe.each([
  {
    address: "/queues",
    path: "/v1/queues",
    empty: { items: [] },
    nothing: "No queues",
    full: { items: [aQueue({ usedGpus: { H100: 8 }, quotaGpus: { H100: 16 } })] },
    something: "8 of 16 H100",
  },
  {
    address: "/map?view=table",
    path: "/v1/nodes",
    empty: { items: [] },
    nothing: "No nodes",
    full: { items: [aNode({ rack: "r1" })] },
    something: "node-1",
  },
  {
    address: "/capacity",
    path: "/v1/capacity",
    empty: { ...aCapacity() },
    nothing: "Nothing is being bought",
    full: { ...aCapacity({ buying: [aLaunch()], buyingInAll: 1 }) },
    something: "nlp/llama",
  },
  {
    address: "/cost",
    path: "/v1/cost",
    empty: report([]),
    nothing: "Nothing was spent",
    full: report([{ key: "nlp", ...total }]),
    something: "nlp",
  },
])("the page $address", ({ address, path, empty, nothing, full, something }) => {
  test("says that it loads", async () => {
    hangs(path);
    open(address);
    expect(await screen.findByText("Loading")).toBeDefined();
  });

  test("says that there is nothing", async () => {
    answers(path, empty);
    open(address);
    expect(await screen.findByText(nothing)).toBeDefined();
  });

  test("says what failed, and tries again", async () => {
    fails(path, 403, { code: "Forbidden", detail: "you may not see this", hint: "ask for it" });
    open(address);
    expect(await screen.findByText("you may not see this")).toBeDefined();
    answers(path, full);
    await userEvent.click(screen.getByRole("button", { name: "Try again" }));
    expect(await screen.findByText(something)).toBeDefined();
  });
});

test("the queues' tree has a table twin, in the address", async () => {
  answers("/v1/queues", {
    items: [
      aQueue({ usedGpus: { H100: 8 }, spend: { month: "2026-11", amount: "12.5", currency: "USD", gpuHours: "5" } }),
    ],
  });
  const { router } = open("/queues");
  await userEvent.click(await screen.findByRole("radio", { name: "Table" }));
  expect(await screen.findByRole("columnheader", { name: "Borrowed" })).toBeDefined();
  expect(screen.getByText("$12.50")).toBeDefined();
  expect(router.state.location.href).toBe("/queues?view=table");
});
