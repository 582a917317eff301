import type { NodeView } from "../../api/types";
import { ownerOf } from "./cells";
import { NO_RACK } from "./layout";
import type { MapSearch } from "./search";

/** Whether the map shows the node: in the rack, of the type, and with something of the queue on it. */
export function matchesMapSearch(node: NodeView, search: MapSearch): boolean {
  return (
    (!search.rack || (node.rack ?? NO_RACK) === search.rack) &&
    (!search.type || node.gpuType === search.type) &&
    (!search.queue || node.occupants.some((occupant) => ownerOf(occupant) === search.queue))
  );
}
