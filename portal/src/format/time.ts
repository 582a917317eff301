const full = new Intl.DateTimeFormat("en-GB", { dateStyle: "medium", timeStyle: "medium" });

const short = new Intl.DateTimeFormat("en-GB", { day: "numeric", month: "short", hour: "2-digit", minute: "2-digit" });

/** A moment in the reader's time zone: `15 Nov 2026, 14:03:22`. */
export function formatTime(rfc3339: string): string {
  return full.format(new Date(rfc3339));
}

/** The same without year and seconds: `15 Nov, 14:03`. */
export function formatShortTime(rfc3339: string): string {
  return short.format(new Date(rfc3339));
}

/** The UTC day of a moment (milliseconds): `2026-11-15`. Bills are cut at UTC midnight. */
export function utcDay(milliseconds: number): string {
  return new Date(milliseconds).toISOString().slice(0, 10);
}

/** The first day of the moment's month, UTC. */
export function utcMonthStart(milliseconds: number): string {
  return `${utcDay(milliseconds).slice(0, 8)}01`;
}
