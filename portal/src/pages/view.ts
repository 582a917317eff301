/** How a page with a picture is shown; in the address, so that a link opens what its sender saw. */
export interface ViewSearch {
  view?: "table";
}

export function parseView(search: Record<string, unknown>): ViewSearch {
  return search["view"] === "table" ? { view: "table" } : {};
}
