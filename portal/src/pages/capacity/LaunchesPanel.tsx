import type { LaunchView } from "../../api/types";
import { Elapsed } from "../../components/Elapsed";
import { formatMoney, parseMicros } from "../../format/money";
import { asSentence } from "../../format/sentence";
import { useNow } from "../../live/useNow";
import { GangLink } from "./GangLink";
import { orderedText, readyText } from "./machines";

/** Launches under way: a gang gets all of its machines, or all are given back. */
export function LaunchesPanel({ launches }: { launches: readonly LaunchView[] }) {
  return (
    <section className="panel" aria-labelledby="buying">
      <h2 id="buying" className="panel-title">
        Being bought
      </h2>
      <ul>
        {launches.map((launch) => (
          <Launch
            key={`${launch.gang?.namespace} ${launch.gang?.name} ${launch.machines[0]?.machineType} ${launch.since}`}
            launch={launch}
          />
        ))}
      </ul>
    </section>
  );
}

function Launch({ launch }: { launch: LaunchView }) {
  const { gang, machines, ready, of, since, readyBy, perHour, why } = launch;
  const now = useNow();
  return (
    <li className="launch">
      <div className="launch-what">
        <p className="launch-gang">{gang ? <GangLink gang={gang} /> : "Spares, for the next runs"}</p>
        <p>{machines.map(orderedText).join(", ")}</p>
        {why && <p className="soft launch-why">{asSentence(why)}</p>}
      </div>
      <div className="launch-progress">
        <div className="launch-track" aria-hidden="true">
          <span style={{ width: `${(100 * ready) / Math.max(1, of)}%` }} />
        </div>
        <p className="tabular">
          <b>
            {ready} of {of}
          </b>{" "}
          ready
          <span className="soft">
            {" "}
            · ordered <Elapsed since={since} /> ago
          </span>
        </p>
      </div>
      <dl className="launch-facts tabular">
        <div>
          <dt>All ready</dt>
          <dd data-late={Date.parse(readyBy) < now || undefined}>{readyText(readyBy, now)}</dd>
        </div>
        <div>
          <dt>Per hour</dt>
          <dd>{formatMoney(parseMicros(perHour), undefined)}</dd>
        </div>
      </dl>
    </li>
  );
}
