import { expect, test } from "vitest";

import { parseLoginSearch } from "./search";

test.each([
  ["/queues?view=table", true],
  ["/runs/nlp/llama", true],
  ["https://elsewhere.example/", false],
  ["//elsewhere.example/", false],
  ["/\\elsewhere.example/", false],
  ["javascript:alert(1)", false],
])("after login %s is followed: %s", (next, isFollowed) => {
  expect(parseLoginSearch({ next })).toEqual(isFollowed ? { next } : {});
});
