import type { Attempt, AttemptOutcome, RunView } from "../../api/types";

/** An attempt that started, as a part of the line from the run's first start to its end, in percent. */
export interface Segment {
  attempt: number;
  left: number;
  width: number;
  /** The part of the segment's width, at its end, that is lost work. */
  lost: number;
  state: AttemptOutcome | "Running";
}

export interface Timeline {
  segments: Segment[];
  /** RFC 3339; `until` is absent while the run goes on. */
  since: string;
  until?: string;
}

/** The attempts to scale; nothing before the first of them has started. */
export function timeline(run: RunView, now: number): Timeline | undefined {
  const started = run.attempts.filter((attempt) => attempt.startedAt);
  const since = started[0]?.startedAt;
  if (!since) return undefined;
  const begin = Date.parse(since);
  const until = run.finishedAt ?? undefined;
  const end = Math.max(until ? Date.parse(until) : now, ...started.map((attempt) => endOf(attempt, begin)), begin + 1);
  const percent = (milliseconds: number) => (100 * milliseconds) / (end - begin);
  const segments = started.map((attempt) => {
    const from = Date.parse(attempt.startedAt ?? since);
    const to = attempt.outcome ? endOf(attempt, from) : end;
    const length = Math.max(0, to - from);
    const lost = Math.min(1000 * (attempt.lost?.seconds ?? 0), length);
    return {
      attempt: attempt.number,
      left: percent(Math.max(0, from - begin)),
      width: percent(length),
      lost: length === 0 ? 0 : (100 * lost) / length,
      state: attempt.outcome ?? ("Running" as const),
    };
  });
  return { segments, since, ...(until ? { until } : {}) };
}

function endOf(attempt: Attempt, otherwise: number): number {
  return attempt.endedAt ? Date.parse(attempt.endedAt) : otherwise;
}

/** The step that an attempt began from, as its members reported or else as requested; 0 is the beginning. */
export function beganFrom(attempt: Attempt, run: RunView): number | undefined {
  const load = run.progress?.loads?.findLast((load) => load.attempt === attempt.number);
  return load?.step ?? attempt.resumeStep ?? undefined;
}
