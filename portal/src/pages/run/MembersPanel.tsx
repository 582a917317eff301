import type { UseQueryResult } from "@tanstack/react-query";

import type { MemberView } from "../../api/types";
import { EmptyNote } from "../../components/EmptyNote";
import { ProblemNote } from "../../components/ProblemNote";
import { SkeletonRows } from "../../components/SkeletonRows";
import { counted } from "../../format/number";
import { MemberTable } from "./MemberTable";

/** The members of the newest attempt and the nodes that they have. */
export function MembersPanel({ members }: { members: UseQueryResult<MemberView[]> }) {
  return (
    <section className="panel" aria-labelledby="members">
      <h2 id="members" className="panel-title">
        Members
        {members.data && members.data.length > 0 && (
          <span className="soft"> {counted(nodes(members.data), "node")}</span>
        )}
      </h2>
      {members.isPending ? (
        <SkeletonRows count={3} />
      ) : members.isError && !members.data ? (
        <ProblemNote error={members.error} onRetry={() => void members.refetch()} />
      ) : members.data && members.data.length > 0 ? (
        <MemberTable members={members.data} />
      ) : (
        <EmptyNote title="No members">
          <p>They are not created yet, or their pods are gone already.</p>
        </EmptyNote>
      )}
    </section>
  );
}

function nodes(members: readonly MemberView[]): number {
  return new Set(members.flatMap((member) => member.node ?? [])).size;
}
