// Ties the cache, the event stream and the router together. Tests make one of these each.
import { MutationCache, QueryCache, QueryClient } from "@tanstack/react-query";
import { createRouter, type RouterHistory } from "@tanstack/react-router";

import { asProblem, isLoggedOut } from "./api/problem";
import { LiveConnection } from "./live/connection";
import { routeTree } from "./routes";
import { parseAddress, stringifyAddress } from "./searchParams";

const RETRIES_MAX = 2;

export function createApp(history?: RouterHistory) {
  const onError = (error: unknown) => {
    if (isLoggedOut(error)) toLogin();
  };
  const queryClient = new QueryClient({
    queryCache: new QueryCache({ onError }),
    mutationCache: new MutationCache({ onError }),
    defaultOptions: {
      queries: {
        // Events keep data fresh; focusing the window is no reason to fetch again.
        refetchOnWindowFocus: false,
        staleTime: 5_000,
        retry: (failures, error) => failures < RETRIES_MAX && isWorthRetrying(error),
        retryDelay: (attempt) => 500 * 2 ** attempt,
      },
    },
  });
  const live = new LiveConnection(queryClient);
  const router = createRouter({
    routeTree,
    context: { queryClient },
    parseSearch: parseAddress,
    stringifySearch: stringifyAddress,
    defaultPreload: "intent",
    // The query cache decides what is fresh.
    defaultPreloadStaleTime: 0,
    scrollRestoration: true,
    ...(history ? { history } : {}),
  });

  function toLogin(): void {
    const { pathname, href } = router.state.location;
    if (pathname === "/login") return;
    live.close();
    queryClient.clear();
    void router.navigate({ to: "/login", search: { next: href } });
  }

  return { queryClient, live, router };
}

/** Retrying a refusal is useless; a server that is starting or busy is worth a retry. */
function isWorthRetrying(error: unknown): boolean {
  const { status } = asProblem(error);
  return status === 0 || status >= 500;
}

declare module "@tanstack/react-router" {
  interface Register {
    router: ReturnType<typeof createApp>["router"];
  }
}
