import { describe, expect, test } from "vitest";

import type { RunFilters } from "../api/runFilters";
import type { RunSummary } from "../api/types";
import { aNode, aRun } from "../testing/objects";
import { runKey } from "./changes";
import { patchNamed, patchRunPages } from "./patch";

const newest = aRun({ name: "c", createdAt: "2026-11-15T12:00:00Z" });
const middle = aRun({ name: "b", createdAt: "2026-11-15T11:00:00Z" });
const oldest = aRun({ name: "a", createdAt: "2026-11-15T10:00:00Z" });

function pages(...items: RunSummary[][]) {
  return {
    pages: items.map((page, index) => ({
      items: page,
      ...(index + 1 < items.length ? { continue: String(index) } : {}),
    })),
    pageParams: items.map(() => ""),
  };
}

function patched(data: ReturnType<typeof pages>, changes: (RunSummary | string)[], filters: RunFilters = {}) {
  const map = new Map(
    changes.map((change) => (typeof change === "string" ? [change, null] : [runKey(change), change])),
  );
  return patchRunPages(data, map, filters);
}

const names = (data: { pages: { items: RunSummary[] }[] }) =>
  data.pages.map((page) => page.items.map((run) => run.name).join(""));

describe("a list of runs", () => {
  test("changes a run in place and leaves the others as they are", () => {
    const before = pages([newest], [middle, oldest]);
    const after = patched(before, [{ ...middle, phase: "Running" }]);
    expect(after.pages[1]?.items.map((run) => run.phase)).toEqual(["Running", "Pending"]);
    expect(after.pages[0]).toBe(before.pages[0]);
    expect(after.pages[1]?.items[1]).toBe(oldest);
  });

  test("takes new runs where the server would list them", () => {
    expect(names(patched(pages([middle], [oldest]), [newest]))).toEqual(["cb", "a"]);
    expect(names(patched(pages([newest, oldest]), [middle]))).toEqual(["cba"]);
    expect(names(patched(pages([newest, middle]), [oldest]))).toEqual(["cba"]);
    expect(names(patched(pages([]), [oldest]))).toEqual(["a"]);
  });

  test("orders runs of the same second by namespace and name", () => {
    const same = [aRun({ name: "y" }), aRun({ name: "z", namespace: "bio" })];
    expect(names(patched(pages([oldest]), same))).toEqual(["zay"]);
  });

  test("leaves a run that belongs behind what is loaded to a later page", () => {
    const before = { pages: [{ items: [newest], continue: "more" }], pageParams: [""] };
    expect(patchRunPages(before, new Map([[runKey(oldest), oldest]]), {})).toBe(before);
  });

  test("loses runs that are gone or no longer match", () => {
    expect(names(patched(pages([newest, middle]), ["nlp/c"]))).toEqual(["b"]);
    expect(names(patched(pages([newest, middle]), [{ ...newest, phase: "Running" }], { phase: "Pending" }))).toEqual([
      "b",
    ]);
  });

  test("ignores what it does not show", () => {
    const before = pages([newest]);
    expect(patched(before, ["nlp/unknown", { ...middle, phase: "Failed" }], { phase: "Pending" })).toBe(before);
  });
});

test("a whole list is patched by name and stays in order", () => {
  const [a, c] = [aNode({ name: "a" }), aNode({ name: "c" })];
  const b = aNode({ name: "b" });
  const after = patchNamed(
    [a, c],
    new Map([
      ["b", b],
      ["c", null],
      ["unknown", null],
    ]),
  );
  expect(after).toEqual([a, b]);
  expect(after[0]).toBe(a);
});
