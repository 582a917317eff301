import { Link } from "@tanstack/react-router";
import { memo } from "react";

import type { RunSummary } from "../../api/types";
import { Elapsed } from "../../components/Elapsed";
import { StateLabel } from "../../components/StateLabel";
import { formatCount } from "../../format/number";

interface Props {
  run: RunSummary;
  index: number;
  top: number;
  height: number;
  isActive: boolean;
  onFocus: (index: number) => void;
}

/** One run. Renders again only if the run or its place changed; ticking parts render by themselves. */
export const RunRow = memo(function RunRow({ run, index, top, height, isActive, onFocus }: Props) {
  const { namespace, name } = run;
  return (
    <div
      role="row"
      aria-rowindex={index + 2}
      data-index={index}
      className="run-row"
      style={{ height, transform: `translateY(${top}px)` }}
    >
      <div role="cell" className="run-name truncate">
        <Link
          to="/runs/$namespace/$name"
          params={{ namespace, name }}
          tabIndex={isActive ? 0 : -1}
          onFocus={() => onFocus(index)}
          preload={false}
        >
          {name}
        </Link>
        <span className="run-namespace soft">{namespace}</span>
      </div>
      <div role="cell" className="run-state">
        <StateLabel state={run.phase} />
        {wish(run) && <span className="soft"> · {wish(run)}</span>}
      </div>
      <div role="cell" className="run-queue truncate">
        {run.queue ?? "–"}
      </div>
      <div role="cell" className="run-gpus">
        {formatCount(run.members * run.gpusPerMember)}
        {run.gpuType && <span className="soft"> {run.gpuType}</span>}
      </div>
      <div role="cell" className="run-members">
        {members(run)}
      </div>
      <div role="cell" className="run-user truncate" title={run.submittedBy ?? undefined}>
        {run.submittedBy?.split(":").at(-1) ?? "–"}
      </div>
      <div role="cell" className="run-age">
        <Elapsed since={run.createdAt} />
      </div>
      <div role="cell" className="run-duration">
        {run.startedAt && run.phase !== "Pending" && run.phase !== "Paused" ? (
          <Elapsed since={run.startedAt} until={run.finishedAt} />
        ) : (
          <span className="soft">–</span>
        )}
      </div>
    </div>
  );
});

/** A requested state that is not reached yet. */
function wish(run: RunSummary): string | undefined {
  if (run.finishedAt || run.phase === "Stopped") return undefined;
  if (run.stop) return "stopping";
  if (run.phase === "Paused") return run.pause ? undefined : "resuming";
  return run.pause ? "pausing" : undefined;
}

/** If members are in different states, it shows how many are in this one: `6 of 8`. */
function members(run: RunSummary): string {
  const { running = 0, succeeded = 0 } = run.memberCounts;
  const there = run.phase === "Starting" ? running : run.phase === "Running" ? running + succeeded : run.members;
  return there === run.members ? formatCount(run.members) : `${formatCount(there)} of ${formatCount(run.members)}`;
}
