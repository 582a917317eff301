import { asProblem } from "../../api/problem";
import type { RunView } from "../../api/types";
import { PauseButton } from "./PauseButton";
import { StopButton } from "./StopButton";
import { type Ask, useAsk } from "./useAsk";

/** The actions that are possible in the run's state. */
export function RunActions({ run }: { run: RunView }) {
  if (run.phase === "Succeeded" || run.phase === "Stopped") return null;
  if (run.phase === "Failed")
    return run.stop ? null : (
      <div className="page-head-actions">
        <AskButton run={run} ask="retry" label="Retry" acting="Retrying" />
      </div>
    );
  if (run.stop) return <p className="soft">Stopping: members get time to end.</p>;
  const isPaused = run.phase === "Paused" || run.pause === true;
  return (
    <div className="page-head-actions">
      {isPaused ? <AskButton run={run} ask="resume" label="Resume" acting="Resuming" /> : <PauseButton run={run} />}
      <StopButton run={run} />
    </div>
  );
}

/** A harmless action, without a confirmation. */
function AskButton({ run, ask, label, acting }: { run: RunView; ask: Ask; label: string; acting: string }) {
  const asking = useAsk(run, ask);
  return (
    <>
      {asking.isError && (
        <p role="alert" className="ask-problem">
          {asProblem(asking.error).detail} {asProblem(asking.error).hint}
        </p>
      )}
      <button type="button" className="button" disabled={asking.isPending} onClick={() => asking.mutate()}>
        {asking.isPending ? acting : label}
      </button>
    </>
  );
}
