// Every address of the portal. A page's code is loaded on its first visit.
import type { QueryClient } from "@tanstack/react-query";
import { createRootRouteWithContext, createRoute, lazyRouteComponent, redirect } from "@tanstack/react-router";

import { isLoggedOut } from "./api/problem";
import { whoamiQuery } from "./api/queries";
import { parseRunFilters } from "./api/runFilters";
import { NotFound } from "./components/NotFound";
import { PageError } from "./components/PageError";
import { PageSkeleton } from "./components/PageSkeleton";
import { parseCostSearch } from "./pages/cost/search";
import { parseMapSearch } from "./pages/map/search";
import { parseLoginSearch } from "./pages/login/search";
import { parseView } from "./pages/view";
import { Shell } from "./shell/Shell";

const root = createRootRouteWithContext<{ queryClient: QueryClient }>()({
  notFoundComponent: NotFound,
  errorComponent: PageError,
});

const login = createRoute({
  getParentRoute: () => root,
  path: "/login",
  validateSearch: parseLoginSearch,
  component: lazyRouteComponent(() => import("./pages/login/LoginPage"), "LoginPage"),
});

/** Everything that needs a session. */
const shell = createRoute({
  getParentRoute: () => root,
  id: "shell",
  beforeLoad: async ({ context, location }) => {
    try {
      await context.queryClient.ensureQueryData(whoamiQuery);
    } catch (error) {
      if (isLoggedOut(error)) throw redirect({ to: "/login", search: { next: location.href } });
      throw error;
    }
  },
  component: Shell,
  errorComponent: PageError,
  pendingComponent: PageSkeleton,
});

const runs = createRoute({
  getParentRoute: () => shell,
  path: "/",
  validateSearch: parseRunFilters,
  component: lazyRouteComponent(() => import("./pages/runs/RunsPage"), "RunsPage"),
});

const run = createRoute({
  getParentRoute: () => shell,
  path: "/runs/$namespace/$name",
  component: lazyRouteComponent(() => import("./pages/run/RunPage"), "RunPage"),
});

const queues = createRoute({
  getParentRoute: () => shell,
  path: "/queues",
  validateSearch: parseView,
  component: lazyRouteComponent(() => import("./pages/queues/QueuesPage"), "QueuesPage"),
});

const map = createRoute({
  getParentRoute: () => shell,
  path: "/map",
  validateSearch: parseMapSearch,
  component: lazyRouteComponent(() => import("./pages/map/MapPage"), "MapPage"),
});

const capacity = createRoute({
  getParentRoute: () => shell,
  path: "/capacity",
  component: lazyRouteComponent(() => import("./pages/capacity/CapacityPage"), "CapacityPage"),
});

const cost = createRoute({
  getParentRoute: () => shell,
  path: "/cost",
  validateSearch: parseCostSearch,
  component: lazyRouteComponent(() => import("./pages/cost/CostPage"), "CostPage"),
});

export const routeTree = root.addChildren([login, shell.addChildren([runs, run, queues, map, capacity, cost])]);
