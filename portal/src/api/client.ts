import createClient from "openapi-fetch";

import { ProblemError, problemOf, unreachable } from "./problem";
import type { paths } from "./schema";

// Cost comes as JSON or CSV; `pages/cost/csv.ts` asks for the latter by itself.
/** The API, on the page's own origin: the browser sends the session cookie, and no other site's page can use it. */
export const api = createClient<paths, "application/json">({
  baseUrl: window.location.origin,
  credentials: "same-origin",
  // Looked up at each call, so that tests may replace it.
  fetch: (request) => globalThis.fetch(request),
});

interface Answer<T> {
  data?: T;
  error?: unknown;
  response: Response;
}

/** The answer's data, or throws a `ProblemError` with a hint. */
export async function answer<T>(call: Promise<Answer<T>>): Promise<T> {
  let settled: Answer<T>;
  try {
    settled = await call;
  } catch (cause) {
    if (cause instanceof DOMException && cause.name === "AbortError") throw cause;
    throw new ProblemError(unreachable, cause);
  }
  if (!settled.response.ok) throw new ProblemError(problemOf(settled.error, settled.response.status));
  return settled.data as T;
}
