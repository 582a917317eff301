import { expect, test } from "vitest";

import type { Attempt, MemberView, RunSummary } from "../../api/types";
import { aMember, aRun } from "../../testing/objects";
import { runSteps } from "./steps";

const created = "2026-11-15T10:00:00Z";
const placed = "2026-11-15T10:05:00Z";
const started = "2026-11-15T10:06:00Z";
const finished = "2026-11-15T11:00:00Z";

function told(run: Partial<RunSummary>, ...members: Partial<MemberView>[]): string[] {
  return runSteps(aRun({ createdAt: created, ...run }), members.map(aMember)).map(
    ({ name, state, since, until }) =>
      `${name} ${state} ${[since, until].map((time) => time?.slice(11, 16) ?? "").join("-")}`,
  );
}

test("a run that waits is queued since it was submitted", () => {
  expect(told({}, {})).toEqual([
    "Submitted done 10:00-",
    "Queued current 10:00-",
    "Starting ahead -",
    "Running ahead -",
    "Done ahead -",
  ]);
});

test("a run that was preempted and waits again is queued, and its wait goes on", () => {
  expect(told({ reason: "Preempted", startedAt: started }, {})).toEqual([
    "Submitted done 10:00-",
    "Queued current 10:00-",
    "Starting ahead -",
    "Running ahead -",
    "Done ahead -",
  ]);
});

test("starting counts from when the last member got its node", () => {
  expect(told({ phase: "Starting" }, { scheduledAt: placed }, { scheduledAt: created })).toEqual([
    "Submitted done 10:00-",
    "Queued done 10:00-10:05",
    "Starting current 10:05-",
    "Running ahead -",
    "Done ahead -",
  ]);
});

test("running counts from when the last member started", () => {
  const members = [
    { scheduledAt: placed, startedAt: placed },
    { scheduledAt: placed, startedAt: started },
  ];
  expect(told({ phase: "Running", startedAt: placed }, ...members)).toEqual([
    "Submitted done 10:00-",
    "Queued done 10:00-10:05",
    "Starting done 10:05-10:06",
    "Running current 10:06-",
    "Done ahead -",
  ]);
});

test("a run whose members are gone still tells what its own times say", () => {
  expect(told({ phase: "Succeeded", startedAt: started, finishedAt: finished })).toEqual([
    "Submitted done 10:00-",
    "Queued done 10:00-10:06",
    "Starting done -",
    "Running done 10:06-11:00",
    "Succeeded done 11:00-",
  ]);
});

test("a run that was stopped in the queue never started", () => {
  expect(told({ phase: "Stopped", finishedAt: finished }, {})).toEqual([
    "Submitted done 10:00-",
    "Queued done 10:00-11:00",
    "Starting skipped -",
    "Running skipped -",
    "Stopped done 11:00-",
  ]);
});

function toldWith(attempts: Partial<Attempt>[], run: Partial<RunSummary>, ...members: Partial<MemberView>[]): string[] {
  const numbered = attempts.map((attempt, index) => ({ number: index + 1, jobName: "llama", members: 4, ...attempt }));
  return runSteps(aRun({ createdAt: created, ...run }), members.map(aMember), numbered).map(
    ({ name, state, since, until }) =>
      `${name} ${state} ${[since, until].map((time) => time?.slice(11, 16) ?? "").join("-")}`,
  );
}

test("a run that was interrupted waits since then, and its new attempt has times of its own", () => {
  const before = { startedAt: placed, endedAt: started, outcome: "Interrupted" as const };
  expect(toldWith([before, {}], { startedAt: placed })[1]).toBe("Queued current 10:06-");
  const again = { startedAt: finished };
  expect(toldWith([before, again], { phase: "Running", startedAt: placed }).slice(1, 4)).toEqual([
    "Queued done 10:06-11:00",
    "Starting done -",
    "Running current 11:00-",
  ]);
});

test("a paused run stands beside the line since its attempt ended", () => {
  const before = { startedAt: placed, endedAt: started, outcome: "Interrupted" as const };
  expect(toldWith([before], { phase: "Paused", startedAt: placed })).toEqual([
    "Submitted done 10:00-",
    "Paused current 10:06-",
    "Starting ahead -",
    "Running ahead -",
    "Done ahead -",
  ]);
});
