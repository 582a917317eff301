import { Link } from "@tanstack/react-router";

import type { GangName } from "../../api/types";
import { gangText } from "./machines";

/** A gang by its run, which has a page; pods without one have none. */
export function GangLink({ gang }: { gang: GangName }) {
  if (!gang.run) return gangText(gang);
  return (
    <Link to="/runs/$namespace/$name" params={{ namespace: gang.namespace, name: gang.run }}>
      {gangText(gang)}
    </Link>
  );
}
