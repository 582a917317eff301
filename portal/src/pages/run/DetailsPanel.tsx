import { Link } from "@tanstack/react-router";
import type { ReactNode } from "react";

import type { RunView } from "../../api/types";
import { formatDuration } from "../../format/duration";
import { counted } from "../../format/number";
import { formatTime } from "../../format/time";

/** What was asked for, by whom. */
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
