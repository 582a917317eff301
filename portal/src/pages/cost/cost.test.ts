import { http, HttpResponse } from "msw";
import { expect, test } from "vitest";

import { server } from "../../testing/server";
import { fetchCsv, nextAddress } from "./csv";
import { parseCostSearch, reportQuery } from "./search";

test("without days the report is of this month, in UTC", () => {
  expect(reportQuery({}, Date.parse("2026-11-15T23:59:00Z"))).toEqual({
    by: "queue",
    since: "2026-11-01",
    until: "2026-11-15",
  });
});

test("an address may name any grouping and real days", () => {
  expect(parseCostSearch({ by: "day", since: "2026-10-01", until: "2026-13-01" })).toEqual({
    by: "day",
    since: "2026-10-01",
  });
  expect(parseCostSearch({ by: "planet", since: "yesterday" })).toEqual({});
});

test("a CSV file has the rows of all pages and one header", async () => {
  server.use(
    http.get(new URL("/v1/cost", window.location.origin).href, ({ request }) => {
      expect(request.headers.get("Accept")).toBe("text/csv");
      return new URL(request.url).searchParams.get("continue")
        ? HttpResponse.text("queue,amount\nnlp,2\n")
        : HttpResponse.text("queue,amount\nbio,1\n", {
            headers: { Link: '</v1/cost?by=queue&continue=x>; rel="next"' },
          });
    }),
  );
  expect(await fetchCsv({ by: "queue", since: "2026-11-01", until: "2026-11-02" })).toBe(
    "queue,amount\nbio,1\nnlp,2\n",
  );
});

test("a next page is looked for on this origin only", () => {
  expect(nextAddress(null)).toBeUndefined();
  expect(nextAddress('<https://elsewhere.example/v1/cost?x=1>; rel="next"')).toBe("/v1/cost?x=1");
  expect(nextAddress('<?continue=y>; rel="next"')).toBe("/v1/cost?continue=y");
});
