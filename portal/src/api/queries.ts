// The queries of pages, and the keys of their cache. `live/` patches the cache under these keys.
//
// Large lists turn off structural sharing: comparing 10,000 objects at each event costs more than rendering the few in
// sight, and patches keep the identity of what did not change anyway.
import { infiniteQueryOptions, queryOptions } from "@tanstack/react-query";

import { answer, api } from "./client";
import { ProblemError, tooLong } from "./problem";
import type { RunFilters } from "./runFilters";
import type { CostGrouping, MemberView, NodeView, Page, QueueView } from "./types";

// 100 runs are about 45 KB, within the 50 KB that a page of a list may have.
const RUNS_PAGE = 100;
const COST_PAGE = 100;
// Nobody reads more launches or refusals; the page shows how many more there are.
const CAPACITY_MOST = 100;
// The server's maximum for nodes, whose messages are the largest.
const WHOLE_LIST_PAGE = 250;
// 10,000 nodes are the design point of one cluster; pages are cut at 50 KB too, so a busy node page holds some 60.
const WHOLE_LIST_PAGES_MAX = 200;

export const keys = {
  whoami: ["whoami"] as const,
  runLists: ["runs", "list"] as const,
  runList: (filters: RunFilters) => ["runs", "list", filters] as const,
  run: (namespace: string, name: string) => ["runs", "one", namespace, name] as const,
  why: (namespace: string, name: string) => ["runs", "why", namespace, name] as const,
  members: (namespace: string, name: string) => ["runs", "members", namespace, name] as const,
  runCost: (namespace: string, name: string) => ["cost", "run", namespace, name] as const,
  costReport: (query: object) => ["cost", "report", query] as const,
  queues: ["queues"] as const,
  nodes: ["nodes"] as const,
  capacity: ["capacity"] as const,
};

export const whoamiQuery = queryOptions({
  queryKey: keys.whoami,
  queryFn: ({ signal }) => answer(api.GET("/v1/whoami", { signal })),
  staleTime: Infinity,
});

export const runListQuery = (filters: RunFilters) =>
  infiniteQueryOptions({
    queryKey: keys.runList(filters),
    queryFn: ({ pageParam, signal }) =>
      answer(
        api.GET("/v1/runs", {
          params: { query: { ...filters, limit: RUNS_PAGE, ...(pageParam ? { continue: pageParam } : {}) } },
          signal,
        }),
      ),
    initialPageParam: "",
    getNextPageParam: (page) => page.continue ?? undefined,
    structuralSharing: false,
  });

export const runQuery = (namespace: string, name: string) =>
  queryOptions({
    queryKey: keys.run(namespace, name),
    queryFn: ({ signal }) =>
      answer(api.GET("/v1/namespaces/{namespace}/runs/{name}", { params: { path: { namespace, name } }, signal })),
  });

/** Polled every few seconds, because the line moves without an event of this run; sooner while the forecast is not ready. */
export const whyQuery = (namespace: string, name: string) =>
  queryOptions({
    queryKey: keys.why(namespace, name),
    queryFn: ({ signal }) =>
      answer(api.GET("/v1/namespaces/{namespace}/runs/{name}/why", { params: { path: { namespace, name } }, signal })),
    refetchInterval: ({ state }) => (state.data?.outlook && !state.data.outlook.forecast ? 1_500 : 10_000),
  });

export const membersQuery = (namespace: string, name: string) =>
  queryOptions({
    queryKey: keys.members(namespace, name),
    queryFn: ({ signal }) =>
      wholeList<MemberView>((page) =>
        answer(
          api.GET("/v1/namespaces/{namespace}/runs/{name}/members", {
            params: { path: { namespace, name }, query: page },
            signal,
          }),
        ),
      ),
  });

export const runCostQuery = (namespace: string, name: string) =>
  queryOptions({
    queryKey: keys.runCost(namespace, name),
    queryFn: ({ signal }) =>
      answer(api.GET("/v1/namespaces/{namespace}/runs/{name}/cost", { params: { path: { namespace, name } }, signal })),
  });

export const queuesQuery = queryOptions({
  queryKey: keys.queues,
  queryFn: ({ signal }) =>
    wholeList<QueueView>((page) => answer(api.GET("/v1/queues", { params: { query: page }, signal }))),
});

export const nodesQuery = queryOptions({
  queryKey: keys.nodes,
  queryFn: ({ signal }) =>
    wholeList<NodeView>((page) => answer(api.GET("/v1/nodes", { params: { query: page }, signal }))),
  structuralSharing: false,
});

/** Polled every other second: there is no event for decisions about machines. */
export const capacityQuery = queryOptions({
  queryKey: keys.capacity,
  queryFn: ({ signal }) => answer(api.GET("/v1/capacity", { params: { query: { limit: CAPACITY_MOST } }, signal })),
  refetchInterval: 2_000,
});

export const costReportQuery = (query: { by: CostGrouping; since: string; until: string }) =>
  infiniteQueryOptions({
    queryKey: keys.costReport(query),
    queryFn: ({ pageParam, signal }) =>
      answer(
        api.GET("/v1/cost", {
          params: { query: { ...query, limit: COST_PAGE, ...(pageParam ? { continue: pageParam } : {}) } },
          signal,
        }),
      ),
    initialPageParam: "",
    getNextPageParam: (page) => page.continue ?? undefined,
  });

interface PageQuery {
  limit: number;
  continue?: string;
}

/** A list with all its pages, for whole pictures. */
async function wholeList<T>(fetchPage: (page: PageQuery) => Promise<Page<T>>): Promise<T[]> {
  const items: T[] = [];
  let next: string | null | undefined;
  for (let pages = 0; pages < WHOLE_LIST_PAGES_MAX; pages += 1) {
    const page = await fetchPage({ limit: WHOLE_LIST_PAGE, ...(next ? { continue: next } : {}) });
    items.push(...page.items);
    next = page.continue;
    if (!next) return items;
  }
  throw new ProblemError(tooLong);
}
