import "./runs.css";

import { useInfiniteQuery } from "@tanstack/react-query";
import { useNavigate, useSearch } from "@tanstack/react-router";
import { useCallback, useMemo } from "react";

import { runListQuery } from "../../api/queries";
import { isFiltered, type RunFilters } from "../../api/runFilters";
import { EmptyNote } from "../../components/EmptyNote";
import { PageHeading } from "../../components/PageHeading";
import { ProblemNote } from "../../components/ProblemNote";
import { SkeletonRows } from "../../components/SkeletonRows";
import { useLive } from "../../live/useLive";
import { RunFilterBar } from "./RunFilterBar";
import { RunTable } from "./RunTable";

/** All runs that the user may see, newest first, kept current by events. */
export function RunsPage() {
  const filters = useSearch({ from: "/shell/" });
  const navigate = useNavigate({ from: "/" });
  const list = useInfiniteQuery(runListQuery(filters));
  const runs = useMemo(() => list.data?.pages.flatMap((page) => page.items) ?? [], [list.data]);
  const { fetchNextPage } = list;
  const loadMore = useCallback(() => void fetchNextPage(), [fetchNextPage]);
  useLive({ topics: ["runs"], ...(filters.namespace ? { namespace: filters.namespace } : {}) });

  // Typing into a filter is one step back, not one for each letter.
  const filter = (next: RunFilters) => void navigate({ search: next, replace: true });
  return (
    <div className="page page-full">
      <div className="page-head">
        <PageHeading title="Runs" />
      </div>
      <RunFilterBar filters={filters} onChange={filter} />
      <div className="panel runs-panel">
        {list.isPending ? (
          <SkeletonRows count={12} />
        ) : runs.length > 0 ? (
          <RunTable
            runs={runs}
            hasMore={list.hasNextPage}
            isLoadingMore={list.isFetchingNextPage}
            canLoadMore={list.hasNextPage && !list.isFetching && !list.isFetchNextPageError}
            hasFailed={list.isFetchNextPageError && !list.isFetching}
            onNearEnd={loadMore}
          />
        ) : list.isError ? (
          <ProblemNote error={list.error} onRetry={() => void list.refetch()} />
        ) : isFiltered(filters) ? (
          <EmptyNote title="No run matches">
            <p>No run that you may see matches all filters. Runs that start to match appear here by themselves.</p>
            <button type="button" className="button" onClick={() => filter({})}>
              Clear the filters
            </button>
          </EmptyNote>
        ) : (
          <EmptyNote title="No runs yet">
            <p>
              Submit one with <code>warpyard submit job.yaml</code>; it appears here by itself.
            </p>
          </EmptyNote>
        )}
      </div>
    </div>
  );
}
