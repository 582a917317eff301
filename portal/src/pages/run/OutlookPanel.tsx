import { useQuery } from "@tanstack/react-query";

import { whyQuery } from "../../api/queries";
import type { Outlook, RunView, StartForecast } from "../../api/types";
import { formatRough, secondsBetween } from "../../format/duration";
import { formatCount } from "../../format/number";
import { useNow } from "../../live/useNow";

/** The run's place in the line, its expected start, and what would start it now. */
export function OutlookPanel({ run }: { run: RunView }) {
  const why = useQuery({ ...whyQuery(run.namespace, run.name), enabled: run.phase === "Pending" });
  const outlook = why.data?.outlook;
  if (run.phase !== "Pending" || !outlook) return null;
  return (
    <section className="panel" aria-labelledby="outlook">
      <h2 id="outlook" className="panel-title">
        When it starts
      </h2>
      <dl className="outlook">
        {!isStuck(outlook) && (
          <>
            <dt>Place</dt>
            <dd>
              <b className="tabular">{formatCount(outlook.jobsAhead + 1)}</b> of {formatCount(outlook.jobsWaiting)} in
              line
              <span className="soft"> · {gpusAhead(outlook)}</span>
            </dd>
          </>
        )}
        <dt>Expected</dt>
        <dd>{outlook.forecast ? <Start forecast={outlook.forecast} /> : "not ready yet …"}</dd>
        {outlook.forecast && outlook.forecast.wouldStartNow.length > 0 && (
          <>
            <dt>Would start now</dt>
            <dd>
              <ul>
                {outlook.forecast.wouldStartNow.map((offer) => (
                  <li key={offer.message}>{offer.message}</li>
                ))}
              </ul>
            </dd>
          </>
        )}
      </dl>
    </section>
  );
}

function Start({ forecast }: { forecast: StartForecast }) {
  const age = secondsBetween(forecast.madeAt, null, useNow());
  const { p50Seconds, p90Seconds, notWithinSeconds } = forecast;
  if (p50Seconds == null || p90Seconds == null) {
    return notWithinSeconds == null ? "not as it is" : `not within ${formatRough(notWithinSeconds)}`;
  }
  const early = formatRough(p50Seconds);
  const late = formatRough(p90Seconds);
  return (
    <>
      <b className="tabular">
        {p50Seconds < 60 ? `within ${late}` : early === late ? `in ${late}` : `in ${early} – ${late}`}
      </b>
      <span className="soft"> · one in ten starts later{age > 15 && `, as of ${formatRough(age)} ago`}</span>
    </>
  );
}

/** Whether waiting does not help: something else must change, and until then it has no place. */
function isStuck({ forecast }: Outlook): boolean {
  return forecast != null && forecast.p50Seconds == null && forecast.notWithinSeconds == null;
}

function gpusAhead({ gpusAhead: gpus }: Outlook): string {
  return gpus === 0 ? "no GPUs requested ahead" : `${formatCount(gpus)} ${gpus === 1 ? "GPU" : "GPUs"} requested ahead`;
}
