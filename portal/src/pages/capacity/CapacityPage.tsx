import "./capacity.css";

import { useQuery } from "@tanstack/react-query";

import { capacityQuery } from "../../api/queries";
import type { CapacityView } from "../../api/types";
import { Elapsed } from "../../components/Elapsed";
import { EmptyNote } from "../../components/EmptyNote";
import { PageHeading } from "../../components/PageHeading";
import { ProblemNote } from "../../components/ProblemNote";
import { SkeletonRows } from "../../components/SkeletonRows";
import { asSentence } from "../../format/sentence";
import { LaunchesPanel } from "./LaunchesPanel";
import { MachinesPanel } from "./MachinesPanel";
import { RefusedPanel } from "./RefusedPanel";
import { unshownTexts } from "./machines";

/** What is being bought, for whom, when it is ready and at what price; what is not, and why; what there is. */
export function CapacityPage() {
  const capacity = useQuery(capacityQuery);
  const view = capacity.data;
  return (
    <div className="page">
      <div className="page-head">
        <PageHeading title="Capacity" />
        {view?.decidedAt && (
          <p className="soft">
            decided <Elapsed since={view.decidedAt} /> ago
          </p>
        )}
      </div>
      {view ? (
        <Panels view={view} />
      ) : (
        <div className="panel">
          {capacity.isError ? (
            <ProblemNote error={capacity.error} onRetry={() => void capacity.refetch()} />
          ) : (
            <SkeletonRows count={6} height={32} />
          )}
        </div>
      )}
    </div>
  );
}

function Panels({ view }: { view: CapacityView }) {
  const machines = view.machines ?? [];
  return (
    <>
      {view.buying.length > 0 ? <LaunchesPanel launches={view.buying} /> : <NothingBought view={view} />}
      {view.buying.length > 0 && view.note && <p className="capacity-note">{asSentence(view.note)}.</p>}
      {view.refused.length > 0 && <RefusedPanel refused={view.refused} />}
      {unshownTexts(view).map((text) => (
        <p key={text} className="capacity-note">
          {text}
        </p>
      ))}
      {machines.length > 0 && <MachinesPanel machines={machines} />}
    </>
  );
}

/** Why there is nothing to see is the first thing to say. */
function NothingBought({ view }: { view: CapacityView }) {
  const waits = view.refused.length > 0 ? "For those that wait for machines, see below." : "Nobody waits for machines.";
  return (
    <div className="panel">
      <EmptyNote title={view.enabled ? "Nothing is being bought" : "No machines are bought"}>
        <p>{view.note ? `${asSentence(view.note)}.` : waits}</p>
        {!view.enabled && <p>Administrators read docs/guides/buy-machines.md.</p>}
      </EmptyNote>
    </div>
  );
}
