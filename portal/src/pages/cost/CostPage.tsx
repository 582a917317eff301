import "./cost.css";

import { keepPreviousData, useInfiniteQuery } from "@tanstack/react-query";
import { useNavigate, useSearch } from "@tanstack/react-router";
import { useState } from "react";

import { costReportQuery } from "../../api/queries";
import { EmptyNote } from "../../components/EmptyNote";
import { PageHeading } from "../../components/PageHeading";
import { ProblemNote } from "../../components/ProblemNote";
import { SkeletonRows } from "../../components/SkeletonRows";
import { CostControls } from "./CostControls";
import { CostTable } from "./CostTable";
import { CostTotal } from "./CostTotal";
import { CsvButton } from "./CsvButton";
import { reportQuery } from "./search";

const REFETCH_MILLISECONDS = 30_000;

/** The cost of some days, summed by one key. The rows are picture and table in one. */
export function CostPage() {
  const search = useSearch({ from: "/shell/cost" });
  const navigate = useNavigate({ from: "/cost" });
  // The days of "this month" are fixed when the page opens.
  const [openedAt] = useState(() => Date.now());
  const query = reportQuery(search, openedAt);
  const report = useInfiniteQuery({
    ...costReportQuery(query),
    placeholderData: keepPreviousData,
    refetchInterval: REFETCH_MILLISECONDS,
  });
  const first = report.data?.pages[0];
  const rows = report.data?.pages.flatMap((page) => page.items) ?? [];
  return (
    <div className="page">
      <div className="page-head">
        <PageHeading title="Cost" />
        <CsvButton query={query} />
      </div>
      <CostControls query={query} onChange={(next) => void navigate({ search: next, replace: true })} />
      <div className="panel">
        {first && rows.length > 0 ? (
          <>
            <CostTotal report={first} />
            <CostTable report={first} rows={rows} />
            {report.hasNextPage && (
              <div className="cost-more">
                <button
                  type="button"
                  className="button"
                  disabled={report.isFetching}
                  onClick={() => void report.fetchNextPage()}
                >
                  Show more
                </button>
              </div>
            )}
          </>
        ) : report.isError ? (
          <ProblemNote error={report.error} onRetry={() => void report.refetch()} />
        ) : report.isPending ? (
          <SkeletonRows count={8} />
        ) : (
          <EmptyNote title="Nothing was spent">
            <p>No GPU that you may see was held on these days.</p>
          </EmptyNote>
        )}
      </div>
    </div>
  );
}
