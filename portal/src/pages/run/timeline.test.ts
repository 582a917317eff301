import { expect, test } from "vitest";

import type { Attempt, RunView } from "../../api/types";
import { aRunView } from "../../testing/objects";
import { beganFrom, timeline } from "./timeline";

const at = (minutes: number) => new Date(Date.UTC(2026, 10, 15, 10, minutes)).toISOString();
const now = Date.parse(at(100));

function run(attempts: Partial<Attempt>[], changes: Partial<RunView> = {}): RunView {
  const numbered = attempts.map((attempt, index) => ({ number: index + 1, jobName: "llama", ...attempt }));
  return aRunView({ attempts: numbered, ...changes });
}

test("attempts are drawn to scale, with the gaps between them and the work that was lost", () => {
  const first = {
    startedAt: at(0),
    endedAt: at(40),
    outcome: "Interrupted" as const,
    lost: { steps: 9, seconds: 600 },
  };
  expect(timeline(run([first, { startedAt: at(50) }]), now)).toEqual({
    since: at(0),
    segments: [
      { attempt: 1, left: 0, width: 40, lost: 25, state: "Interrupted" },
      { attempt: 2, left: 50, width: 50, lost: 0, state: "Running" },
    ],
  });
});

test("a run that is over ends where it ended, whatever the time is", () => {
  const only = { startedAt: at(0), endedAt: at(40), outcome: "Failed" as const };
  const line = timeline(run([only], { finishedAt: at(50) }), now);
  expect(line?.segments[0]).toMatchObject({ left: 0, width: 80 });
  expect(line?.until).toBe(at(50));
});

test("what has not started is not drawn, and clocks that differ draw nothing outside", () => {
  expect(timeline(run([{}]), now)).toBeUndefined();
  const backwards = { startedAt: at(10), endedAt: at(5), outcome: "Failed" as const, lost: { steps: 1, seconds: 9 } };
  const later = { startedAt: at(200) };
  for (const segment of timeline(run([backwards, later]), now)?.segments ?? []) {
    expect(segment.left).toBeGreaterThanOrEqual(0);
    expect(segment.lost).toBeLessThanOrEqual(100);
  }
  expect(timeline(run([backwards]), now)?.segments[0]).toMatchObject({ width: 0, lost: 0 });
});

test("what members loaded counts more than what was asked for", () => {
  const asked = run([{ resumeStep: 100 }]);
  expect(asked.attempts.map((attempt) => beganFrom(attempt, asked))).toEqual([100]);
  const loads = [{ attempt: 1, step: 90, reached: 120 }];
  const loaded = run([{ resumeStep: 100 }, {}], { progress: { step: 120, reportedAt: at(1), loads } });
  expect(loaded.attempts.map((attempt) => beganFrom(attempt, loaded))).toEqual([90, undefined]);
});
