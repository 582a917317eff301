import { ProblemError, problemOf, unreachable } from "../../api/problem";
import type { CostSearch } from "./search";

// 100 pages of 1,000 rows: 100,000 runs, about 10 MB.
const PAGES_MAX = 100;
const PAGE_ROWS = "1000";

/** The report as CSV, with all its pages; a `Link` header leads from one to the next. */
export async function fetchCsv(query: Required<CostSearch>): Promise<string> {
  let address: string | undefined = `/v1/cost?${new URLSearchParams({ ...query, limit: PAGE_ROWS })}`;
  let csv = "";
  for (let pages = 0; address && pages < PAGES_MAX; pages += 1) {
    const response = await fetchPage(address);
    const text = await response.text();
    // Every page begins with the same header line.
    csv += csv === "" ? text : text.slice(text.indexOf("\n") + 1);
    address = nextAddress(response.headers.get("Link"));
  }
  return csv;
}

async function fetchPage(address: string): Promise<Response> {
  const response = await fetch(new URL(address, window.location.origin), { headers: { Accept: "text/csv" } }).catch(
    (cause: unknown) => {
      throw new ProblemError(unreachable, cause);
    },
  );
  if (!response.ok) throw new ProblemError(problemOf(await response.json().catch(() => undefined), response.status));
  return response;
}

/** `</v1/cost?…>; rel="next"`, as an address of this origin. */
export function nextAddress(link: string | null): string | undefined {
  const target = /<([^>]*)>\s*;[^,]*rel="?next"?/.exec(link ?? "")?.[1];
  if (!target) return undefined;
  const { pathname, search } = new URL(target, "http://portal/v1/cost");
  return pathname + search;
}
