import { parseView, type ViewSearch } from "../view";

/** What the map shows and how; in the page's address. */
export interface MapSearch extends ViewSearch {
  colour?: "state";
  queue?: string;
  rack?: string;
  type?: string;
}

export function parseMapSearch(search: Record<string, unknown>): MapSearch {
  const parsed: MapSearch = parseView(search);
  if (search["colour"] === "state") parsed.colour = "state";
  for (const key of ["queue", "rack", "type"] as const) {
    const text = search[key];
    if (typeof text === "string" && text.trim()) parsed[key] = text.trim().slice(0, 253);
  }
  return parsed;
}
