import { useState } from "react";

import type { Attempt, LostWork, RunView } from "../../api/types";
import { Elapsed } from "../../components/Elapsed";
import { EmptyNote } from "../../components/EmptyNote";
import { StateLabel } from "../../components/StateLabel";
import { formatRough } from "../../format/duration";
import { counted, formatCount } from "../../format/number";
import { formatShortTime } from "../../format/time";
import { useNow } from "../../live/useNow";
import { beganFrom, timeline } from "./timeline";

// More are shown on demand; the status keeps 64.
const SHOWN_AT_FIRST = 6;
// A segment narrower than this, in percent, has no room for its number.
const NUMBERED_WIDTH_MIN = 4;

/** The attempts of a run: drawn to scale, and below in words. */
export function AttemptsPanel({ run }: { run: RunView }) {
  return (
    <section className="panel" aria-labelledby="attempts">
      <h2 id="attempts" className="panel-title">
        Attempts
        <NextAttempt run={run} />
      </h2>
      {run.attempts.length === 0 ? (
        <EmptyNote title="Not attempted yet" />
      ) : (
        <>
          <AttemptBar run={run} />
          <AttemptList run={run} />
        </>
      )}
    </section>
  );
}

/** The picture of the list. */
function AttemptBar({ run }: { run: RunView }) {
  const line = timeline(run, useNow());
  if (!line) return null;
  return (
    <div className="attempts">
      <div className="attempt-bar" aria-hidden="true">
        {line.segments.map((segment) => (
          <span
            key={segment.attempt}
            className="attempt-segment"
            data-state={segment.state}
            title={`Attempt ${segment.attempt}`}
            style={{ left: `${segment.left}%`, width: `${segment.width}%` }}
          >
            {segment.width >= NUMBERED_WIDTH_MIN && <span className="attempt-number">{segment.attempt}</span>}
            <span className="attempt-lost" style={{ width: `${segment.lost}%` }} />
          </span>
        ))}
      </div>
      <p className="attempt-scale soft tabular">
        <span>{formatShortTime(line.since)}</span>
        {line.segments.some((segment) => segment.lost > 0) && (
          <span>
            <span className="swatch attempt-lost" aria-hidden="true" /> lost work
          </span>
        )}
        <span>{line.until ? formatShortTime(line.until) : "now"}</span>
      </p>
    </div>
  );
}

/** The newest first: people look for that. */
function AttemptList({ run }: { run: RunView }) {
  const [isWhole, setWhole] = useState(false);
  const newestFirst = run.attempts.toReversed();
  const shown = isWhole ? newestFirst : newestFirst.slice(0, SHOWN_AT_FIRST);
  const hidden = newestFirst.length - shown.length;
  return (
    <>
      <ol className="attempt-list" aria-labelledby="attempts">
        {shown.map((attempt) => (
          <AttemptItem key={attempt.number} attempt={attempt} run={run} />
        ))}
      </ol>
      {hidden > 0 && (
        <button type="button" className="button button-plain attempt-more" onClick={() => setWhole(true)}>
          Show {counted(hidden, "earlier attempt")}
        </button>
      )}
    </>
  );
}

function AttemptItem({ attempt, run }: { attempt: Attempt; run: RunView }) {
  const { startedAt, endedAt, outcome, toldAt } = attempt;
  const state = outcome ?? (toldAt ? "Ending" : startedAt ? "Running" : "Waiting");
  const why = attempt.message ?? attempt.reason;
  // Old records have no number of members: they had all of the run's.
  const gpus = (attempt.members || run.members) * run.gpusPerMember;
  return (
    <li className="attempt">
      <span className="attempt-index tabular">
        <span className="visually-hidden">Attempt </span>
        {attempt.number}
      </span>
      <p className="attempt-facts tabular">
        <StateLabel state={state} />
        {startedAt && (
          <span>
            ran <Elapsed since={startedAt} until={outcome ? endedAt : undefined} />
          </span>
        )}
        <span>{counted(gpus, "GPU")}</span>
        <Origin step={beganFrom(attempt, run)} />
        {attempt.lost && <span>lost {lost(attempt.lost)}</span>}
      </p>
      {why && <p className="attempt-why soft">{why}</p>}
    </li>
  );
}

function Origin({ step }: { step: number | undefined }) {
  if (step === undefined) return null;
  return <span>from {step === 0 ? "the beginning" : `step ${formatCount(step)}`}</span>;
}

function NextAttempt({ run }: { run: RunView }) {
  const now = useNow();
  if (!run.nextAttemptAt || run.phase !== "Pending") return null;
  const left = Math.ceil((Date.parse(run.nextAttemptAt) - now) / 1000);
  return <span className="soft tabular"> next {left > 0 ? `in ${formatRough(left)}` : "any moment"}</span>;
}

function lost({ steps, seconds }: LostWork): string {
  return steps === 0 && seconds === 0 ? "nothing" : `${counted(steps, "step")}, ${formatRough(seconds)}`;
}
