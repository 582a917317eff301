import { Link } from "@tanstack/react-router";
import type { ReactNode } from "react";

import type { RunView } from "../../api/types";
import { formatDuration } from "../../format/duration";
import { counted } from "../../format/number";
import { formatTime } from "../../format/time";

/** The request, and who submitted it. */
export function DetailsPanel({ run }: { run: RunView }) {
  return (
    <section className="panel" aria-labelledby="details">
      <h2 id="details" className="panel-title">
        Details
      </h2>
      <dl className="details">
        <Detail term="GPUs">
          {run.members * run.gpusPerMember} {run.gpuType ?? "of any type"}
          <span className="soft">
            {" "}
            · {counted(run.members, "member")} × {run.gpusPerMember}
            {run.minMembers != null && run.minMembers < run.members && `, or as few as ${run.minMembers}`}
          </span>
        </Detail>
        <Detail term="Queue">
          {run.queue ? (
            <Link to="/" search={{ queue: run.queue }}>
              {run.queue}
            </Link>
          ) : (
            "none"
          )}
        </Detail>
        <Detail term="Priority">{run.priority}</Detail>
        <Detail term="Submitted by">
          {run.submittedBy ? (
            <Link to="/" search={{ user: run.submittedBy }}>
              {run.submittedBy}
            </Link>
          ) : (
            "unknown"
          )}
        </Detail>
        <Detail term="Submitted">{formatTime(run.createdAt)}</Detail>
        <Detail term="Time limit">
          {run.timeLimitSeconds == null ? "none" : formatDuration(run.timeLimitSeconds)}
          {run.timeLimitSeconds != null && (run.usedSeconds ?? 0) > 0 && (
            <span className="soft"> · {formatDuration(run.usedSeconds ?? 0)} used in earlier attempts</span>
          )}
        </Detail>
        <Detail term="Checkpoints">
          {run.checkpoint ? (
            <>
              {run.checkpoint.claim}
              {run.graceSeconds != null && (
                <span className="soft"> · {formatDuration(run.graceSeconds)} to save and leave</span>
              )}
            </>
          ) : (
            "none"
          )}
        </Detail>
        <Detail term="Retries">
          {run.retries ?? 0}
          {(run.failures ?? 0) > 0 && <span className="soft"> · {counted(run.failures ?? 0, "failure")} so far</span>}
          {run.failOn && run.failOn.length > 0 && (
            <span className="soft"> · not after exit code {run.failOn.join(", ")}</span>
          )}
        </Detail>
        <Detail term="Image">
          <code>{run.image}</code>
        </Detail>
      </dl>
    </section>
  );
}

function Detail({ term, children }: { term: string; children: ReactNode }) {
  return (
    <div>
      <dt>{term}</dt>
      <dd>{children}</dd>
    </div>
  );
}
