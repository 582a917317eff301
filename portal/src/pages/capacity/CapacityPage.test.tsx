import { screen, within } from "@testing-library/react";
import { expect, test } from "vitest";

import { aCapacity, aLaunch } from "../../testing/objects";
import { open } from "../../testing/open";
import { answers } from "../../testing/server";

function capacity(changes: Parameters<typeof aCapacity>[0]): void {
  answers("/v1/capacity", { ...aCapacity(changes) });
}

test("a launch says for whom, what, how far it is, at what price and why", async () => {
  capacity({ buying: [aLaunch(), aLaunch({ gang: null, ready: 4, why: "as spares" })], buyingInAll: 2 });
  open("/capacity");
  const link = await screen.findByRole("link", { name: "nlp/llama" });
  expect(link.getAttribute("href")).toBe("/runs/nlp/llama");
  const [first, spares] = within(screen.getByRole("region", { name: "Being bought" })).getAllByRole("listitem");
  for (const text of ["4 × h100 spot in a/r1", "1 of 4", "117.60", "For 4 members of 8 GPUs"])
    expect(within(first!).getByText(text)).toBeDefined();
  expect(within(first!).getByText(/late$/)).toBeDefined();
  expect(within(spares!).getByText("Spares, for the next runs")).toBeDefined();
  expect(within(spares!).getByText("4 of 4")).toBeDefined();
});

test("who gets nothing is told why, and pods without a run have no page to go to", async () => {
  const gang = { namespace: "nlp", name: "bert" };
  capacity({
    refused: [
      { gang: { ...gang, name: "bert-1", run: "bert" }, why: "no machine type suits" },
      { gang: { ...gang, name: "pod" }, why: "dear" },
    ],
    refusedInAll: 2,
  });
  open("/capacity");
  expect(await screen.findByText("No machine type suits")).toBeDefined();
  expect(screen.getByRole("link", { name: "nlp/bert" })).toBeDefined();
  expect(screen.queryByRole("link", { name: "nlp/pod" })).toBeNull();
  expect(screen.getByText("nlp/pod")).toBeDefined();
  expect(screen.getByText("Runs that wait for machines are below.")).toBeDefined();
});

test("machines are counted by what they do, and those who may not see them see no table", async () => {
  const h100 = { machineType: "h100", capacityType: "spot" };
  capacity({ machines: [{ ...h100, count: 12, starting: 3, idle: 1, leaving: 2, perHour: "352.80" }] });
  open("/capacity");
  const row = await screen.findByRole("row", { name: /h100/ });
  const numbers = within(row)
    .getAllByRole("cell")
    .map((cell) => cell.textContent);
  expect(numbers).toEqual(["spot", "", "12", "3", "6", "1", "2", "352.80"]);
});

test.each([
  [true, "2 gangs wait, for other things", "Nothing is being bought"],
  [false, "there is no MachineType to buy", "No machines are bought"],
])("the note says why nothing is bought", async (enabled, note, title) => {
  capacity({ enabled, note });
  open("/capacity");
  expect(await screen.findByText(title)).toBeDefined();
  expect(screen.getByText(`${note.charAt(0).toUpperCase()}${note.slice(1)}.`)).toBeDefined();
  expect(screen.queryByText(/^Administrators/) === null).toBe(enabled);
  expect(screen.queryByRole("table")).toBeNull();
});
