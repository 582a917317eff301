// Money arrives as decimal strings with at most six places and stays whole: micro-units in a bigint, never a float.

const MICROS = 1_000_000n;
const HOUR_MILLISECONDS = 3_600_000n;
// A rate is extrapolated for one minute at most. It is polled every 5 s, so twelve answers are missing by then, and
// a number that still moves would be a guess.
const EXTRAPOLATION_MILLISECONDS_MAX = 60_000;

/** `12.345678` as 12345678n. Places beyond the sixth are cut off. */
export function parseMicros(decimal: string): bigint {
  const match = /^(-?)(\d+)(?:\.(\d*))?$/.exec(decimal);
  if (!match) return 0n;
  const [, sign, whole, fraction = ""] = match;
  const micros = BigInt(whole ?? "0") * MICROS + BigInt(fraction.slice(0, 6).padEnd(6, "0"));
  return sign ? -micros : micros;
}

/** 12345678n as `12.345678`. */
export function microsToDecimal(micros: bigint): string {
  const magnitude = micros < 0n ? -micros : micros;
  const fraction = String(magnitude % MICROS).padStart(6, "0");
  return `${micros < 0n ? "-" : ""}${magnitude / MICROS}.${fraction}`;
}

/** For people: `$1,234.56`. `places` shows more places than the currency has, so that small sums visibly grow. */
export function formatMoney(micros: bigint, currency: string | null | undefined, places?: number): string {
  const digits = places === undefined ? {} : { minimumFractionDigits: places, maximumFractionDigits: places };
  // A string goes into Intl.NumberFormat without becoming a float.
  const decimal = microsToDecimal(micros) as Intl.StringNumericLiteral;
  if (!currency)
    return new Intl.NumberFormat("en", { minimumFractionDigits: 2, maximumFractionDigits: 2, ...digits }).format(
      decimal,
    );
  return new Intl.NumberFormat("en", { style: "currency", currency, ...digits }).format(decimal);
}

/** The present value of a growing sum, `elapsed` milliseconds after the server sent it. */
export function growMicros(amount: bigint, perHour: bigint, elapsedMilliseconds: number): bigint {
  const elapsed = Math.min(Math.max(0, Math.floor(elapsedMilliseconds)), EXTRAPOLATION_MILLISECONDS_MAX);
  return amount + (perHour * BigInt(elapsed)) / HOUR_MILLISECONDS;
}

/** `part` of `whole` in thousandths, for the width of a bar. */
export function perMille(part: bigint, whole: bigint): number {
  return whole <= 0n ? 0 : Number((part * 1000n) / whole);
}
