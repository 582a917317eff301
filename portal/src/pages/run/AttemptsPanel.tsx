import type { Attempt } from "../../api/types";
import { EmptyNote } from "../../components/EmptyNote";
import { LongTable } from "../../components/LongTable";
import { StateLabel } from "../../components/StateLabel";

const COLUMNS = [{ label: "Number" }, { label: "Outcome" }, { label: "Job" }, { label: "Message" }];

export function AttemptsPanel({ attempts }: { attempts: readonly Attempt[] }) {
  return (
    <section className="panel" aria-labelledby="attempts">
      <h2 id="attempts" className="panel-title">
        Attempts
      </h2>
      {attempts.length === 0 ? (
        <EmptyNote title="Not attempted yet" />
      ) : (
        <LongTable label="Attempts" columns={COLUMNS} items={attempts} rowKey={(attempt) => attempt.number}>
          {(attempt) => (
            <>
              <th scope="row" className="tabular">
                {attempt.number}
              </th>
              <td>{attempt.outcome ? <StateLabel state={attempt.outcome} /> : "goes on"}</td>
              <td>{attempt.jobName}</td>
              <td className="soft">{attempt.message ?? "–"}</td>
            </>
          )}
        </LongTable>
      )}
    </section>
  );
}
