import { screen, waitFor, within } from "@testing-library/react";
import userEvent from "@testing-library/user-event";
import { beforeEach, expect, test } from "vitest";

import { FakeEventSource } from "../../testing/FakeEventSource";
import { aMember, aRun, aRunView, aWhy } from "../../testing/objects";
import { open } from "../../testing/open";
import { accepts, answers, fails, refuses } from "../../testing/server";

const RUN = "/v1/namespaces/nlp/runs/llama";
const cost = (amount: string, perHour: string) => ({ amount, perHour, gpuSeconds: 7200 });

beforeEach(() => {
  answers(RUN, aRunView({ phase: "Running", startedAt: "2026-11-15T10:00:05Z" }));
  answers(`${RUN}/members`, { items: [aMember({ state: "Running", node: "node-7" })] });
  answers(`${RUN}/why`, aWhy());
  answers(`${RUN}/cost`, {
    namespace: "nlp",
    name: "llama",
    currency: "USD",
    asOf: "2026-11-15T10:00:00Z",
    total: cost("12.5", "0"),
    classes: [{ class: "Productive", ...cost("12.5", "0") }],
    attempts: [],
  });
});

test("a run shows its members with their nodes and what it costs", async () => {
  open("/runs/nlp/llama");
  expect(await screen.findByText("node-7")).toBeDefined();
  expect(await screen.findByText("$12.50")).toBeDefined();
  expect(screen.getByRole("heading", { level: 1, name: "llama" })).toBeDefined();
});

test("the bar of cost has a table twin", async () => {
  open("/runs/nlp/llama");
  await screen.findByText("$12.50");
  await userEvent.click(screen.getByRole("radio", { name: "Table" }));
  expect(await screen.findByRole("columnheader", { name: "GPU hours" })).toBeDefined();
});

test("every reason to wait is told with its numbers", async () => {
  const reasons = [
    {
      code: "QuotaExceeded",
      message: "queue nlp holds 40 of 48 H100; requests 32",
      never: false,
      numbers: [
        { label: "requests", value: 32, unit: "H100" },
        { label: "queue holds", value: 1040, unit: "H100", ofQueue: true },
      ],
      resource: "H100",
    },
    {
      code: "PowerCapped",
      message: "the nodes would draw too much",
      never: false,
      numbers: [{ label: "nodes may draw", value: 90_000, unit: "watts" }],
    },
    { code: "TooLarge", message: "no node has 16 GPUs", never: true },
  ];
  answers(RUN, aRunView({ reasons }));
  open("/runs/nlp/llama");
  expect(await screen.findByText("Queue nlp holds 40 of 48 H100; requests 32")).toBeDefined();
  expect(screen.getByText(/Waiting will not help/)).toBeDefined();
  const numbers = (code: string) => screen.getByText(code).parentElement?.textContent;
  expect(numbers("QuotaExceeded")).toBe("QuotaExceededrequests 32 H100queue holds 1,040 H100");
  expect(numbers("PowerCapped")).toBe("PowerCappednodes may draw 90,000 watts");
});

test("who waits for machines is led to what is being bought, and nobody else is", async () => {
  const reason = { code: "NotEnoughGpus", message: "no free GPUs", never: false };
  answers(RUN, aRunView({ reasons: [reason] }));
  const { queryClient } = open("/runs/nlp/llama");
  await screen.findByText("No free GPUs");
  expect(screen.queryByRole("link", { name: "What is being bought" })).toBeNull();
  const coming = {
    code: "MachinesComing",
    message: "4 machines are on their way",
    never: false,
    nature: "Coming",
    topic: "machines",
  } as const;
  answers(RUN, aRunView({ reasons: [reason, coming] }));
  await queryClient.invalidateQueries();
  const link = await screen.findByRole("link", { name: "What is being bought" });
  expect(link.getAttribute("href")).toBe("/capacity");
});

test("a run that waits shows its place, its start and what would start it now", async () => {
  answers(RUN, aRunView());
  const outlook = {
    jobsAhead: 2,
    gpusAhead: 96,
    jobsWaiting: 12,
    plannedAt: "2026-11-15T10:00:00Z",
    forecast: {
      p50Seconds: 720,
      p90Seconds: 2400,
      madeAt: "2026-11-15T10:00:00Z",
      wouldStartNow: [{ code: "FewerGpus", message: "with 4 GPUs per member" }],
    },
  };
  answers(`${RUN}/why`, aWhy({ outlook }));
  open("/runs/nlp/llama");
  expect(await screen.findByText("in 12 min – 40 min")).toBeDefined();
  expect(screen.getByText("with 4 GPUs per member")).toBeDefined();
  expect(screen.getByText(/96 GPUs requested ahead/)).toBeDefined();
  expect(screen.getByText(/of 12 in line/).textContent).toContain("3 of 12");
});

test("a run for which no start is foreseen says so", async () => {
  answers(RUN, aRunView());
  const line = { jobsAhead: 0, gpusAhead: 0, jobsWaiting: 1, plannedAt: "2026-11-15T10:00:00Z" };
  const forecast = { madeAt: "2026-11-15T10:00:00Z", wouldStartNow: [] };
  answers(`${RUN}/why`, aWhy({ outlook: { ...line, forecast } }));
  open("/runs/nlp/llama");
  expect(await screen.findByText("not as it is")).toBeDefined();
  expect(screen.queryByText(/in line/)).toBeNull();
});

test("while the start is worked out the place is there", async () => {
  answers(RUN, aRunView());
  const outlook = { jobsAhead: 0, gpusAhead: 0, jobsWaiting: 1, plannedAt: "2026-11-15T10:00:00Z" };
  answers(`${RUN}/why`, aWhy({ outlook }));
  open("/runs/nlp/llama");
  expect(await screen.findByText(/not ready yet/)).toBeDefined();
});

test("without the scheduler's answer the page does without", async () => {
  answers(RUN, aRunView());
  open("/runs/nlp/llama");
  expect(await screen.findByText("node-7")).toBeDefined();
  expect(screen.queryByText("When it starts")).toBeNull();
});

test("without a ledger the rest of the page is there, and the cost says why not", async () => {
  fails(`${RUN}/cost`, 503, {
    code: "NoLedger",
    detail: "no ledger is configured",
    hint: "start with --database-url-file",
  });
  open("/runs/nlp/llama");
  expect(await screen.findByText("no ledger is configured")).toBeDefined();
  expect(await screen.findByText("node-7")).toBeDefined();
});

test("stopping asks first, and the page shows that it stops", async () => {
  let asked = 0;
  accepts("post", `${RUN}/stop`, aRunView({ phase: "Running", stop: true }), () => (asked += 1));
  open("/runs/nlp/llama");
  await userEvent.click(await screen.findByRole("button", { name: "Stop" }));
  await userEvent.click(screen.getByRole("button", { name: "Keep it" }));
  expect(asked).toBe(0);
  await userEvent.click(screen.getByRole("button", { name: "Stop" }));
  await userEvent.click(screen.getByRole("button", { name: "Stop the run" }));
  expect(await screen.findByText(/^Stopping/)).toBeDefined();
  expect(asked).toBe(1);
});

test("an event moves the page on, and what it does not carry is fetched anew", async () => {
  open("/runs/nlp/llama");
  await screen.findByText("node-7");
  answers(RUN, aRunView({ phase: "Succeeded", finishedAt: "2026-11-15T11:00:00Z", message: "all members ended well" }));
  answers(`${RUN}/members`, { items: [aMember({ state: "Succeeded", node: "node-7", exitCode: 0 })] });
  FakeEventSource.last().say("run", aRun({ phase: "Succeeded", finishedAt: "2026-11-15T11:00:00Z" }));
  await waitFor(() => expect(screen.getAllByText("Succeeded").length).toBeGreaterThan(1));
  expect(await screen.findByText("all members ended well", undefined, { timeout: 3000 })).toBeDefined();
});

test("a run that does not exist is said so", async () => {
  fails(RUN, 404, { code: "NotFound", detail: "there is no run nlp/llama" });
  fails(`${RUN}/members`, 404, { code: "NotFound", detail: "there is no run nlp/llama" });
  open("/runs/nlp/llama");
  expect(await screen.findByText("there is no run nlp/llama")).toBeDefined();
});

test("a run is paused after a question, and the answer is shown at once", async () => {
  accepts("post", `${RUN}/pause`, aRunView({ phase: "Running", pause: true }));
  open("/runs/nlp/llama");
  await userEvent.click(await screen.findByRole("button", { name: "Pause" }));
  expect(screen.getByText(/starts from the beginning/)).toBeDefined();
  await userEvent.click(screen.getByRole("button", { name: "Pause the run" }));
  expect(await screen.findByRole("button", { name: "Resume" })).toBeDefined();
});

test("a run that failed is tried again, and a refusal says what to do instead", async () => {
  answers(RUN, aRunView({ phase: "Failed", finishedAt: "2026-11-15T11:00:00Z" }));
  let asked = 0;
  accepts("post", `${RUN}/retry`, aRunView({ phase: "Pending", restarts: 1 }), () => (asked += 1));
  open("/runs/nlp/llama");
  await userEvent.click(await screen.findByRole("button", { name: "Retry" }));
  expect(await screen.findByRole("button", { name: "Stop" })).toBeDefined();
  expect(asked).toBe(1);

  refuses(`${RUN}/pause`, 409, {
    code: "RunSucceeded",
    detail: "the run is over: it succeeded",
    hint: "submit it again",
  });
  await userEvent.click(screen.getByRole("button", { name: "Pause" }));
  await userEvent.click(screen.getByRole("button", { name: "Pause the run" }));
  expect((await screen.findByRole("alert")).textContent).toContain("submit it again");
});

test("what is over or stopping offers nothing that would be refused", async () => {
  answers(RUN, aRunView({ phase: "Failed", stop: true, finishedAt: "2026-11-15T11:00:00Z" }));
  open("/runs/nlp/llama");
  await screen.findByText("node-7");
  for (const name of ["Pause", "Resume", "Retry", "Stop"]) {
    expect(screen.queryByRole("button", { name })).toBeNull();
  }
});

test("attempts tell why they ended, where they began and what was lost", async () => {
  const interrupted = {
    number: 1,
    jobName: "llama-1",
    members: 4,
    startedAt: "2026-11-15T10:00:05Z",
    endedAt: "2026-11-15T10:20:00Z",
    outcome: "Interrupted" as const,
    message: "gives way for gang vision/big",
    lost: { steps: 12, seconds: 30 },
  };
  const again = { number: 2, jobName: "llama-2", members: 2, startedAt: "2026-11-15T10:30:00Z" };
  const checkpoint = {
    step: 300,
    attempt: 2,
    committedAt: "2026-11-15T10:40:00Z",
    bytes: 1,
    milliseconds: 1500,
    stallMilliseconds: 1,
  };
  const loads = [{ attempt: 2, step: 200, reached: 212 }];
  const progress = { step: 340, reportedAt: "2026-11-15T10:45:00Z", checkpoint, loads };
  answers(RUN, aRunView({ phase: "Running", attempts: [interrupted, again], progress }));
  open("/runs/nlp/llama");
  const list = await screen.findByRole("list", { name: "Attempts" });
  const [second, first] = within(list)
    .getAllByRole("listitem")
    .map((item) => item.textContent);
  expect(first).toContain("Interrupted");
  expect(first).toContain("12 steps, 30 s");
  expect(first).toContain("gives way for gang vision/big");
  expect(second).toContain("step 200");
  expect(second).toContain("16 GPUs");
  expect(screen.getByText(/saved in 1.5 s/)).toBeDefined();
});

test("of many attempts the newest are shown, and the others when asked for", async () => {
  const attempts = Array.from({ length: 20 }, (_, index) => ({ number: index + 1, jobName: "llama", members: 4 }));
  answers(RUN, aRunView({ attempts }));
  open("/runs/nlp/llama");
  const list = await screen.findByRole("list", { name: "Attempts" });
  expect(within(list).getAllByRole("listitem")).toHaveLength(6);
  await userEvent.click(screen.getByRole("button", { name: "Show 14 earlier attempts" }));
  expect(within(list).getAllByRole("listitem")).toHaveLength(20);
});
