import { useState } from "react";

import type { RunView } from "../../api/types";
import { AskDialog } from "./AskDialog";

/** Stops the run after a confirmation. */
export function StopButton({ run }: { run: RunView }) {
  const [isAsking, setAsking] = useState(false);
  return (
    <>
      <button type="button" className="button button-danger" onClick={() => setAsking(true)}>
        Stop
      </button>
      {isAsking && (
        <AskDialog
          run={run}
          ask="stop"
          title={`Stop ${run.name}?`}
          action="Stop the run"
          acting="Stopping"
          isDanger
          onClose={() => setAsking(false)}
        >
          <p>
            Its members are told to end and its GPUs become free. What it wrote stays; the run itself cannot be started
            again, only submitted anew. To go on later, pause it instead.
          </p>
        </AskDialog>
      )}
    </>
  );
}
