import { Link } from "@tanstack/react-router";

import type { Reason } from "../../api/types";
import { Icon } from "../../components/Icon";
import { formatCount } from "../../format/number";
import { asSentence } from "../../format/sentence";

/** Why the run waits: every reason that holds, with its numbers, the most binding first. */
export function ReasonsPanel({ reasons }: { reasons: readonly Reason[] }) {
  return (
    <section className="panel" aria-labelledby="reasons">
      <h2 id="reasons" className="panel-title">
        Why it waits
      </h2>
      <ul>
        {reasons.map((reason) => (
          <li key={`${reason.code} ${reason.queue ?? ""} ${reason.resource ?? ""}`} className="reason">
            <Icon name={reason.never ? "warning" : "clock"} />
            <div>
              <p className="reason-message">{asSentence(reason.message)}</p>
              {reason.never && <p className="reason-never">Waiting will not help: the run must change.</p>}
              {reason.topic === "machines" && (
                <p>
                  <Link to="/capacity">What is being bought</Link>
                </p>
              )}
              <p className="soft reason-numbers">
                <code>{reason.code}</code>
                {reason.numbers?.map(({ label, value, unit }) => (
                  <span key={label}>
                    {label} <b className="tabular">{formatCount(value)}</b> {unit}
                  </span>
                ))}
              </p>
            </div>
          </li>
        ))}
      </ul>
    </section>
  );
}
