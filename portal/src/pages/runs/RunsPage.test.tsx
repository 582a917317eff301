import { screen, waitFor, within } from "@testing-library/react";
import userEvent from "@testing-library/user-event";
import { expect, test } from "vitest";

import { FakeEventSource } from "../../testing/FakeEventSource";
import { aRun } from "../../testing/objects";
import { open } from "../../testing/open";
import { answers, fails, hangs } from "../../testing/server";

test("while runs are loading, the page says so", async () => {
  hangs("/v1/runs");
  open("/");
  expect(await screen.findByText("Loading")).toBeDefined();
});

test("a refusal shows what happened, what to do, and tries again on demand", async () => {
  fails("/v1/runs", 403, { code: "Forbidden", detail: "ada may not list runs", hint: "ask for the role viewer" });
  open("/");
  expect(await screen.findByText("ada may not list runs")).toBeDefined();
  expect(screen.getByText("ask for the role viewer")).toBeDefined();
  answers("/v1/runs", { items: [aRun()] });
  await userEvent.click(screen.getByRole("button", { name: "Try again" }));
  expect(await screen.findByRole("link", { name: "llama" })).toBeDefined();
});

test("without runs the page says how to submit one, with filters how to clear them", async () => {
  answers("/v1/runs", { items: [] });
  const { router } = open("/?queue=nlp");
  await userEvent.click(await screen.findByRole("button", { name: "Clear the filters" }));
  expect(await screen.findByText("No runs yet")).toBeDefined();
  expect(router.state.location.href).toBe("/");
});

test("a run has its state in words, and changes in place when an event says so", async () => {
  answers("/v1/runs", { items: [aRun({ phase: "Pending" })] });
  open("/");
  const row = (await screen.findByRole("link", { name: "llama" })).closest<HTMLElement>("[role=row]")!;
  expect(within(row).getByText("Pending")).toBeDefined();
  FakeEventSource.last().say("run", aRun({ phase: "Running", startedAt: "2026-11-15T10:00:05Z" }));
  expect(await within(row).findByText("Running")).toBeDefined();
});

test("a run that waits again after a preemption has no duration", async () => {
  answers("/v1/runs", { items: [aRun({ phase: "Pending", startedAt: "2026-11-15T10:00:05Z" })] });
  open("/");
  const row = (await screen.findByRole("link", { name: "llama" })).closest<HTMLElement>("[role=row]")!;
  expect(row.querySelector(".run-duration")?.textContent).toBe("–");
});

test("a new run appears above the others", async () => {
  answers("/v1/runs", { items: [aRun()] });
  open("/");
  await screen.findByRole("link", { name: "llama" });
  FakeEventSource.last().say("run", aRun({ name: "newer", createdAt: "2026-11-15T12:00:00Z" }));
  await screen.findByRole("link", { name: "newer" });
  const names = screen.getAllByRole("row").flatMap((row) => within(row).queryByRole("link")?.textContent ?? []);
  expect(names).toEqual(["newer", "llama"]);
});

test("a filter goes into the address", async () => {
  answers("/v1/runs", { items: [aRun()] });
  const { router } = open("/");
  await userEvent.type(await screen.findByRole("combobox", { name: "Queue" }), "nlp{Enter}");
  await userEvent.selectOptions(screen.getByRole("combobox", { name: "State" }), "Failed");
  await waitFor(() => expect(router.state.location.href).toBe("/?queue=nlp&phase=Failed"));
});

test("keys move along the runs", async () => {
  answers("/v1/runs", { items: [aRun({ name: "one" }), aRun({ name: "two" })] });
  open("/");
  await screen.findByRole("link", { name: "one" });
  await userEvent.keyboard("j");
  expect(document.activeElement?.textContent).toBe("one");
  await userEvent.keyboard("j");
  expect(document.activeElement?.textContent).toBe("two");
  await userEvent.keyboard("{ArrowUp}");
  expect(document.activeElement?.textContent).toBe("one");
  await userEvent.keyboard("/");
  expect(document.activeElement?.getAttribute("aria-label")).toBe("Search");
});
