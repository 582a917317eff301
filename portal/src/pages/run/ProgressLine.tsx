import type { Progress } from "../../api/types";
import { Elapsed } from "../../components/Elapsed";
import { formatCount } from "../../format/number";

/** How far training is, and up to which step it is saved. */
export function ProgressLine({ progress }: { progress: Progress }) {
  const { step, checkpoint } = progress;
  return (
    <p className="run-message tabular">
      Step <b>{formatCount(step)}</b>
      {checkpoint ? (
        <>
          {" · checkpoint at "}
          <b>{formatCount(checkpoint.step)}</b>
          <span className="soft">
            , <Elapsed since={checkpoint.committedAt} /> old, saved in {formatSave(checkpoint.milliseconds)}
          </span>
        </>
      ) : (
        <span className="soft"> · no checkpoint yet</span>
      )}
    </p>
  );
}

function formatSave(milliseconds: number): string {
  return milliseconds < 1000 ? `${milliseconds} ms` : `${(milliseconds / 1000).toFixed(1)} s`;
}
