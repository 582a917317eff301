import { useMutation, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";

import { answer, api } from "../../api/client";
import { asProblem } from "../../api/problem";
import { keys } from "../../api/queries";
import type { RunView } from "../../api/types";
import { Dialog } from "../../components/Dialog";

/** Stops the run after asking once. */
export function StopButton({ run }: { run: RunView }) {
  const [isAsking, setAsking] = useState(false);
  const stop = useStop(run, () => setAsking(false));
  if (run.finishedAt || run.phase === "Stopped") return null;
  if (run.stop) return <p className="soft">Stopping: members get time to end.</p>;
  const close = () => {
    setAsking(false);
    stop.reset();
  };
  return (
    <>
      <button type="button" className="button button-danger" onClick={() => setAsking(true)}>
        Stop
      </button>
      {isAsking && (
        <Dialog title={`Stop ${run.name}?`} onClose={close}>
          <p>
            Its members are told to end and its GPUs become free. What it wrote stays; the run itself cannot be started
            again, only submitted anew.
          </p>
          {stop.isError && (
            <p role="alert" className="stop-problem">
              {asProblem(stop.error).detail} {asProblem(stop.error).hint}
            </p>
          )}
          <div className="dialog-actions">
            <button type="button" className="button" onClick={close}>
              Keep it
            </button>
            <button
              type="button"
              className="button button-danger"
              disabled={stop.isPending}
              onClick={() => stop.mutate()}
            >
              {stop.isPending ? "Stopping" : "Stop the run"}
            </button>
          </div>
        </Dialog>
      )}
    </>
  );
}

function useStop({ namespace, name }: RunView, onDone: () => void) {
  const queryClient = useQueryClient();
  return useMutation({
    mutationFn: () =>
      answer(api.POST("/v1/namespaces/{namespace}/runs/{name}/stop", { params: { path: { namespace, name } } })),
    onSuccess: (run) => {
      queryClient.setQueryData(keys.run(namespace, name), run);
      onDone();
    },
  });
}
