import "./queues.css";

import { useQuery } from "@tanstack/react-query";
import { useNavigate, useSearch } from "@tanstack/react-router";
import { useMemo } from "react";

import { queuesQuery } from "../../api/queries";
import { EmptyNote } from "../../components/EmptyNote";
import { PageHeading } from "../../components/PageHeading";
import { ProblemNote } from "../../components/ProblemNote";
import { SkeletonRows } from "../../components/SkeletonRows";
import { ViewToggle } from "../../components/ViewToggle";
import { useLive } from "../../live/useLive";
import { QueueTable } from "./QueueTable";
import { QueueTree } from "./QueueTree";
import { queueTree } from "./queueTree";

/** The GPUs that queues own, hold and borrow, and their cost this month. */
export function QueuesPage() {
  const { view } = useSearch({ from: "/shell/queues" });
  const navigate = useNavigate({ from: "/queues" });
  const queues = useQuery(queuesQuery);
  const nodes = useMemo(() => queueTree(queues.data ?? []), [queues.data]);
  useLive({ topics: ["queues"] });
  return (
    <div className="page">
      <div className="page-head">
        <PageHeading title="Queues" />
        <ViewToggle picture="Tree" view={view} onChange={(view) => void navigate({ search: view ? { view } : {} })} />
      </div>
      <div className="panel">
        {queues.isPending ? (
          <SkeletonRows count={6} height={32} />
        ) : queues.isError && !queues.data ? (
          <ProblemNote error={queues.error} onRetry={() => void queues.refetch()} />
        ) : nodes.length === 0 ? (
          <EmptyNote title="No queues">
            <p>There are none that you may see. An administrator creates them; each run needs one.</p>
          </EmptyNote>
        ) : view === "table" ? (
          <QueueTable nodes={nodes} />
        ) : (
          <QueueTree nodes={nodes} />
        )}
      </div>
      {view !== "table" && nodes.length > 0 && <Legend />}
    </div>
  );
}

function Legend() {
  return (
    <ul className="legend" aria-label="Legend">
      <li>
        <span className="swatch-wide bar-used" /> used
      </li>
      <li>
        <span className="swatch-wide bar-borrowed" /> borrowed: beyond the quota
      </li>
      <li>
        <span className="swatch-mark" /> quota
      </li>
      <li className="soft">A bar ends at the limit, or at the quota if that is the bound.</li>
    </ul>
  );
}
