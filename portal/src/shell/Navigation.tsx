import { Link, useMatchRoute } from "@tanstack/react-router";

import { Icon, type IconName } from "../components/Icon";

const PAGES = [
  ["/", "Runs", "runs"],
  ["/queues", "Queues", "queues"],
  ["/map", "Cluster", "map"],
  ["/capacity", "Capacity", "capacity"],
  ["/cost", "Cost", "cost"],
] as const satisfies readonly (readonly [string, string, IconName])[];

export function Navigation() {
  const matchRoute = useMatchRoute();
  // A run's page belongs to the runs.
  const isRun = Boolean(matchRoute({ to: "/runs/$namespace/$name" }));
  return (
    <nav aria-label="Pages">
      <ul>
        {PAGES.map(([to, label, icon]) => (
          <li key={to}>
            <Link
              to={to}
              activeOptions={{ exact: true, includeSearch: false }}
              {...(isRun && to === "/" ? { "aria-current": "page" } : {})}
            >
              <Icon name={icon} size={17} />
              {label}
            </Link>
          </li>
        ))}
      </ul>
    </nav>
  );
}
