export interface LoginSearch {
  /** Where to go after login. */
  next?: string;
}

export function parseLoginSearch(search: Record<string, unknown>): LoginSearch {
  const next = search["next"];
  return typeof next === "string" && isOwnAddress(next) ? { next } : {};
}

/** Only addresses of this portal: a link to the login page must not lead elsewhere after it. */
function isOwnAddress(address: string): boolean {
  return URL.canParse(address, "http://portal") && new URL(address, "http://portal").origin === "http://portal";
}
