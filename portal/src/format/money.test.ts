import { expect, test } from "vitest";

import { formatMoney, growMicros, microsToDecimal, parseMicros, perMille } from "./money";

test.each([
  ["0", 0n],
  ["12", 12_000_000n],
  ["12.3", 12_300_000n],
  ["0.000001", 1n],
  ["-4.5", -4_500_000n],
  ["9007199254740993.000001", 9_007_199_254_740_993_000_001n],
  ["no number", 0n],
])("%s is %d micro-units", (decimal, micros) => {
  expect(parseMicros(decimal)).toBe(micros);
});

test("what is parsed reads back the same", () => {
  for (const decimal of ["0.000000", "12.345678", "-0.500000", "9007199254740993.000001"]) {
    expect(microsToDecimal(parseMicros(decimal))).toBe(decimal);
  }
});

test("sums beyond what a float holds are shown to the cent", () => {
  expect(formatMoney(parseMicros("9007199254740993.11"), "USD")).toBe("$9,007,199,254,740,993.11");
});

test("people read the currency, more places on demand, and numbers where there are no prices", () => {
  expect(formatMoney(1_234_567_890n, "EUR")).toBe("€1,234.57");
  expect(formatMoney(12_345n, "USD", 4)).toBe("$0.0123");
  expect(formatMoney(1_500_000n, "JPY")).toBe("¥2");
  expect(formatMoney(1_500_000n, undefined)).toBe("1.50");
});

test("a sum grows by its rate, for a minute at most", () => {
  expect(growMicros(100n, 3_600_000n, 1000)).toBe(1100n);
  expect(growMicros(100n, 3_600_000n, 10 * 60_000)).toBe(60_100n);
  expect(growMicros(100n, 3_600_000n, -5000)).toBe(100n);
  expect(growMicros(100n, 0n, 30_000)).toBe(100n);
});

test("a bar's width is in thousandths, and nothing of nothing is nothing", () => {
  expect(perMille(1n, 3n)).toBe(333);
  expect(perMille(0n, 0n)).toBe(0);
});
