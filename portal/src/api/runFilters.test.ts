import { expect, test } from "vitest";

import { parseAddress, stringifyAddress } from "../searchParams";
import { aRun } from "../testing/objects";
import { matchesRunFilters, parseRunFilters, type RunFilters } from "./runFilters";

test.each<RunFilters>([
  {},
  { phase: "Running" },
  { namespace: "nlp", queue: "h100", phase: "Failed", user: "system:serviceaccount:nlp:ada", search: "a b&c=ü/1" },
  { search: "1" },
  { search: "true" },
])("filters survive the page's address: %j", (filters) => {
  expect(parseRunFilters(parseAddress(stringifyAddress({ ...filters })))).toEqual(filters);
});

test("what is no filter is dropped from an address", () => {
  expect(parseRunFilters({ phase: "Sleeping", colour: "red", queue: "  ", namespace: 7 })).toEqual({});
  expect(parseRunFilters({ search: "x".repeat(1000) }).search).toHaveLength(63);
});

test("an address is readable", () => {
  expect(stringifyAddress({ queue: "nlp", phase: "Running", search: "" })).toBe("?queue=nlp&phase=Running");
  expect(stringifyAddress({})).toBe("");
});

test("a run matches when all filters do", () => {
  const run = aRun({ name: "Llama-FT", submittedBy: "ada" });
  expect(matchesRunFilters(run, {})).toBe(true);
  expect(
    matchesRunFilters(run, { search: "llama", namespace: "nlp", queue: "nlp", phase: "Pending", user: "ada" }),
  ).toBe(true);
  expect(matchesRunFilters(run, { search: "bert" })).toBe(false);
  expect(matchesRunFilters(run, { phase: "Running" })).toBe(false);
  expect(matchesRunFilters(run, { user: "alan" })).toBe(false);
});
