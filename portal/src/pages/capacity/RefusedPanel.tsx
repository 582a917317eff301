import type { CapacityView } from "../../api/types";
import { asSentence } from "../../format/sentence";
import { GangLink } from "./GangLink";

/** Gangs that wait for nodes and get none, with the reason. */
export function RefusedPanel({ refused }: { refused: CapacityView["refused"] }) {
  return (
    <section className="panel" aria-labelledby="refused">
      <h2 id="refused" className="panel-title">
        Not bought
      </h2>
      <ul>
        {refused.map(({ gang, why }) => (
          <li key={`${gang.namespace}/${gang.name}`} className="refused">
            <p className="launch-gang">
              <GangLink gang={gang} />
            </p>
            <p>{asSentence(why)}</p>
          </li>
        ))}
      </ul>
    </section>
  );
}
