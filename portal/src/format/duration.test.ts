import { expect, test } from "vitest";

import { formatDuration, secondsBetween } from "./duration";

test.each([
  [0, "0s"],
  [59.9, "59s"],
  [60, "1m 00s"],
  [3599, "59m 59s"],
  [3600, "1h 00m"],
  [86_399, "23h 59m"],
  [86_400, "1d 00h"],
  [-5, "0s"],
])("%d seconds read %s", (seconds, text) => {
  expect(formatDuration(seconds)).toBe(text);
});

test("a time without an end counts until now, and never backwards", () => {
  const now = Date.parse("2026-11-15T10:01:00Z");
  expect(secondsBetween("2026-11-15T10:00:00Z", null, now)).toBe(60);
  expect(secondsBetween("2026-11-15T10:00:00Z", "2026-11-15T10:00:30Z", now)).toBe(30);
  expect(secondsBetween("2026-11-15T10:02:00Z", undefined, now)).toBe(0);
});
