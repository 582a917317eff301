import { useState } from "react";

import type { RunView } from "../../api/types";
import { AskDialog } from "./AskDialog";

/** Pauses the run after a confirmation, because without checkpoints its work is lost. */
export function PauseButton({ run }: { run: RunView }) {
  const [isAsking, setAsking] = useState(false);
  return (
    <>
      <button type="button" className="button" onClick={() => setAsking(true)}>
        Pause
      </button>
      {isAsking && (
        <AskDialog
          run={run}
          ask="pause"
          title={`Pause ${run.name}?`}
          action="Pause the run"
          acting="Pausing"
          onClose={() => setAsking(false)}
        >
          <p>
            {run.checkpoint
              ? "Its members save and leave, and its GPUs become free. It goes on from there when you resume it."
              : "It keeps no checkpoints: its members end, its GPUs become free, and when you resume it, it starts from the beginning."}
          </p>
        </AskDialog>
      )}
    </>
  );
}
