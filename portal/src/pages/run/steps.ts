import type { Attempt, MemberView, RunPhase, RunSummary } from "../../api/types";

/**
 * The steps of a run:
 *
 *   Submitted ─► Queued ─► Starting ─► Running ─► Succeeded | Failed | Stopped
 *                Paused
 *
 * Times are those of the newest attempt: a run that was interrupted goes the same way again.
 */
export interface Step {
  name: "Submitted" | "Queued" | "Paused" | "Starting" | "Running" | "Done" | "Succeeded" | "Failed" | "Stopped";
  /** `skipped`: the run ended before this step. */
  state: "done" | "current" | "ahead" | "skipped";
  /** When the step began and ended, RFC 3339, if known. */
  since?: string;
  until?: string;
}

const ORDER: Record<RunPhase, number> = {
  Pending: 1,
  Paused: 1,
  Starting: 2,
  Running: 3,
  Succeeded: 4,
  Failed: 4,
  Stopped: 4,
};

/** The steps of a run. Members show when nodes were assigned; without members that is unknown. */
export function runSteps(run: RunSummary, members: readonly MemberView[], attempts: readonly Attempt[] = []): Step[] {
  const isWaiting = run.phase === "Pending" || run.phase === "Paused";
  const queuedAt = waitsSince(run, attempts, isWaiting);
  const started = attempts.at(-1)?.startedAt ?? run.startedAt;
  const placed = latest(members.map((member) => member.scheduledAt));
  const allRun = latest(members.map((member) => member.startedAt)) ?? started ?? undefined;
  const ended = run.finishedAt ?? undefined;
  const reached = ORDER[run.phase];
  const isOver = reached === 4;
  const middle = [
    // An evicted run waits again, however long ago it started.
    interval(
      run.phase === "Paused" ? "Paused" : "Queued",
      queuedAt,
      isWaiting ? undefined : (placed ?? started ?? ended),
    ),
    interval("Starting", placed, run.phase === "Starting" ? undefined : (allRun ?? (placed && ended))),
    interval("Running", reached >= 3 ? allRun : undefined, ended),
  ];
  return [
    { name: "Submitted", state: "done", since: run.createdAt },
    ...middle.map((step, index) => ({
      ...step,
      state: stateOf(index + 1, reached, Boolean(step.since ?? run.startedAt)),
    })),
    isOver
      ? { name: run.phase as "Succeeded" | "Failed" | "Stopped", state: "done", ...(ended ? { since: ended } : {}) }
      : { name: "Done", state: "ahead" },
  ];
}

function stateOf(index: number, reached: number, wasEntered: boolean): Step["state"] {
  if (index === reached) return "current";
  if (index > reached) return "ahead";
  // A run that was stopped in the queue never started. A run whose members are gone did start, at an unknown
  // time.
  return reached === 4 && !wasEntered ? "skipped" : "done";
}

function interval(
  name: Step["name"],
  since: string | undefined,
  until: string | null | undefined,
): Omit<Step, "state"> {
  return { name, ...(since ? { since } : {}), ...(since && until ? { until } : {}) };
}

/** When the run began to wait: with the end of the attempt before, if there is one. */
function waitsSince(run: RunSummary, attempts: readonly Attempt[], isWaiting: boolean): string {
  const before = isWaiting ? attempts : attempts.slice(0, -1);
  return before.findLast((attempt) => attempt.endedAt)?.endedAt ?? run.createdAt;
}

/** The latest of all; undefined while one of them is missing. */
function latest(times: readonly (string | null | undefined)[]): string | undefined {
  if (times.length === 0 || times.some((time) => !time)) return undefined;
  return (times as string[]).reduce((a, b) => (Date.parse(a) < Date.parse(b) ? b : a));
}
