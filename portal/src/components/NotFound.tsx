import { Link } from "@tanstack/react-router";

import { Icon } from "./Icon";
import { PageHeading } from "./PageHeading";

export function NotFound() {
  return (
    <main className="page note">
      <Icon name="empty" size={24} />
      <PageHeading title="There is no such page" />
      <Link to="/" className="button">
        See all runs
      </Link>
    </main>
  );
}
