import { formatDuration, secondsBetween } from "../format/duration";
import { formatTime } from "../format/time";
import { useNow } from "../live/useNow";

/** The time between two moments; it ticks while the second one is missing. */
export function Elapsed({ since, until }: { since: string; until?: string | null | undefined }) {
  return until ? <Between since={since} until={until} now={0} /> : <Ticking since={since} />;
}

function Ticking({ since }: { since: string }) {
  return <Between since={since} until={null} now={useNow()} />;
}

function Between({ since, until, now }: { since: string; until: string | null; now: number }) {
  return (
    <time className="tabular" dateTime={since} title={`since ${formatTime(since)}`}>
      {formatDuration(secondsBetween(since, until, now))}
    </time>
  );
}
