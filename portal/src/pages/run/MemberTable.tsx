import type { MemberView } from "../../api/types";
import { Elapsed } from "../../components/Elapsed";
import { LongTable } from "../../components/LongTable";
import { StateLabel } from "../../components/StateLabel";

const COLUMNS = [
  { label: "Rank" },
  { label: "State" },
  { label: "Node" },
  { label: "GPUs", isNumber: true },
  { label: "Running for", isNumber: true },
  { label: "Exit" },
];

/** Members by rank. */
export function MemberTable({ members }: { members: readonly MemberView[] }) {
  return (
    <LongTable label="Members" columns={COLUMNS} items={members} rowKey={(member) => member.index}>
      {(member) => (
        <>
          <th scope="row" className="tabular">
            {member.index}
          </th>
          <td>
            <StateLabel state={member.state} />
          </td>
          <td>{member.node ?? <span className="soft">none yet</span>}</td>
          <td className="number">{member.gpus}</td>
          <td className="number">
            {member.startedAt ? (
              <Elapsed since={member.startedAt} until={member.finishedAt} />
            ) : (
              <span className="soft">–</span>
            )}
          </td>
          <td>{exit(member)}</td>
        </>
      )}
    </LongTable>
  );
}

function exit({ exitCode, reason }: MemberView): string {
  return [exitCode, reason].filter((part) => part != null).join(" · ") || "–";
}
