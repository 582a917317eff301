import "./run.css";

import { useQuery } from "@tanstack/react-query";
import { Link, useParams } from "@tanstack/react-router";

import { asProblem } from "../../api/problem";
import { membersQuery, runQuery } from "../../api/queries";
import { Icon } from "../../components/Icon";
import { PageHeading } from "../../components/PageHeading";
import { ProblemNote } from "../../components/ProblemNote";
import { SkeletonRows } from "../../components/SkeletonRows";
import { StateLabel } from "../../components/StateLabel";
import { useLive } from "../../live/useLive";
import { AttemptsPanel } from "./AttemptsPanel";
import { CommandPanel } from "./CommandPanel";
import { CostPanel } from "./CostPanel";
import { DetailsPanel } from "./DetailsPanel";
import { MembersPanel } from "./MembersPanel";
import { OutlookPanel } from "./OutlookPanel";
import { ProgressLine } from "./ProgressLine";
import { ReasonsPanel } from "./ReasonsPanel";
import { RunActions } from "./RunActions";
import { Stepper } from "./Stepper";

/** One run: its progress, why it waits, its members and its cost. */
export function RunPage() {
  const { namespace, name } = useParams({ from: "/shell/runs/$namespace/$name" });
  const run = useQuery(runQuery(namespace, name));
  const members = useQuery(membersQuery(namespace, name));
  useLive({ topics: ["runs"], namespace, run: name });

  const isGone = run.isError && asProblem(run.error).status === 404;
  const view = isGone ? undefined : run.data;
  return (
    <div className="page">
      <Link to="/" className="run-back">
        <Icon name="back" size={14} />
        Runs
      </Link>
      <div className="page-head">
        <div className="run-title">
          <PageHeading title={name} />
          <span className="soft">{namespace}</span>
          {view && <StateLabel state={view.phase} badge />}
        </div>
        {view && <RunActions run={view} />}
      </div>
      {view ? (
        <>
          <section className="panel run-progress">
            <Stepper run={view} members={members.data ?? []} />
            {view.progress && <ProgressLine progress={view.progress} />}
            {view.message && view.reasons.length === 0 && <p className="run-message">{view.message}</p>}
          </section>
          <div className="run-columns">
            <div className="run-column">
              {view.reasons.length > 0 && <ReasonsPanel reasons={view.reasons} />}
              <OutlookPanel run={view} />
              {/* With more than one, they are the run's story; one has little to tell. */}
              {view.attempts.length > 1 && <AttemptsPanel run={view} />}
              <MembersPanel members={members} />
              <CommandPanel command={view.command} />
              {view.attempts.length <= 1 && <AttemptsPanel run={view} />}
            </div>
            <div className="run-column">
              <CostPanel run={view} />
              <DetailsPanel run={view} />
            </div>
          </div>
        </>
      ) : run.isError ? (
        <ProblemNote error={run.error} onRetry={() => void run.refetch()} />
      ) : (
        <div className="panel">
          <SkeletonRows count={8} />
        </div>
      )}
    </div>
  );
}
