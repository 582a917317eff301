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
import { spendingText, unshownTexts } from "./machines";

/** Machines: those being bought, for which run, at what price and ready when; refusals with reasons; and all bought machines. */
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
      {view.spending && <p className="capacity-note">{spendingText(view.spending)}</p>}
    </>
  );
}

/** If there is nothing to see, the reason comes first. */
function NothingBought({ view }: { view: CapacityView }) {
  const waits = view.refused.length > 0 ? "Runs that wait for machines are below." : "No run waits for machines.";
  return (
    <div className="panel">
      <EmptyNote title={view.enabled ? "Nothing is being bought" : "No machines are bought"}>
        <p>{view.note ? `${asSentence(view.note)}.` : waits}</p>
        {!view.enabled && <p>Administrators: see docs/guides/buy-machines.md.</p>}
      </EmptyNote>
    </div>
  );
}
