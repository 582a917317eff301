import { describe, expect, test } from "vitest";

import { aCapacity, aLaunch } from "../../testing/objects";
import { orderedText, partsOf, readyText, spendingText, unshownTexts } from "./machines";

test("every machine is in one part, and who counts too much breaks nothing", () => {
  const machines = { machineType: "h100", capacityType: "spot", perHour: "1", starting: 3, idle: 1, leaving: 2 };
  expect(partsOf({ ...machines, count: 12 })).toEqual({ starting: 3, busy: 6, idle: 1, leaving: 2 });
  expect(partsOf({ ...machines, count: 5 }).busy).toBe(0);
});

test("an order says how many of what, how and where", () => {
  const ordered = { count: 3, machineType: "h100", capacityType: "spot", zone: "a" };
  expect(orderedText(ordered)).toBe("3 × h100 spot in a");
  expect(orderedText({ ...ordered, block: "b", rack: "r" })).toBe("3 × h100 spot in a/b/r");
});

test("what is spent stands beside what is allowed", () => {
  const spending = { machines: 12, mostMachines: 16, perHour: "352.800000", mostPerHour: "500" };
  expect(spendingText(spending)).toBe("12 of at most 16 machines, 352.80 of at most 500.00 an hour.");
});

test.each([
  ["2026-11-15T10:01:30Z", "in 1m 30s"],
  ["2026-11-15T10:00:00Z", "in 0s"],
  ["2026-11-15T09:59:50Z", "10s late"],
])("ready by %s is %s", (readyBy, text) => {
  expect(readyText(readyBy, Date.parse("2026-11-15T10:00:00Z"))).toBe(text);
});

describe("what is not shown", () => {
  const refused = { gang: { namespace: "nlp", name: "bert" }, why: "dear" };

  test("is not spoken of if there is nothing", () => {
    expect(
      unshownTexts(aCapacity({ buying: [aLaunch()], buyingInAll: 1, refused: [refused], refusedInAll: 1 })),
    ).toEqual([]);
  });

  test("is counted", () => {
    expect(unshownTexts(aCapacity({ buying: [aLaunch()], buyingInAll: 2, fromPools: 1 }))).toEqual([
      "1 gang of one waits for a pool of Karpenter to buy a node.",
      "1 more launch is not shown: too many, or of teams that you may not see.",
    ]);
    expect(unshownTexts(aCapacity({ buyingInAll: 2, refused: [refused], refusedInAll: 3, fromPools: 2 }))).toEqual([
      "2 gangs of one wait for a pool of Karpenter to buy a node.",
      "2 more launches and 2 more gangs for which nothing is bought are not shown: too many, or of teams that you may not see.",
    ]);
  });
});
