import { useMutation } from "@tanstack/react-query";

import { asProblem } from "../../api/problem";
import { Icon } from "../../components/Icon";
import { fetchCsv } from "./csv";
import type { CostSearch } from "./search";

/** Saves the whole report as a CSV file. A plain link could not ask for CSV: the API decides by the Accept header. */
export function CsvButton({ query }: { query: Required<CostSearch> }) {
  const download = useMutation({
    mutationFn: () => fetchCsv(query),
    onSuccess: (csv) => save(csv, `warpyard-cost-by-${query.by}-${query.since}-${query.until}.csv`),
  });
  return (
    <div className="page-head-actions">
      {download.isError && <span role="alert">{asProblem(download.error).detail}</span>}
      <button type="button" className="button" disabled={download.isPending} onClick={() => download.mutate()}>
        <Icon name="download" />
        CSV
      </button>
    </div>
  );
}

function save(csv: string, name: string): void {
  const address = URL.createObjectURL(new Blob([csv], { type: "text/csv" }));
  const link = document.createElement("a");
  link.href = address;
  link.download = name;
  link.click();
  URL.revokeObjectURL(address);
}
