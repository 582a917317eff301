const MINUTE = 60;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;

/** Two units at most, the second padded, so that a ticking value keeps its width: `7s`, `3m 07s`, `2h 05m`, `3d 04h`. */
export function formatDuration(seconds: number): string {
  const whole = Math.max(0, Math.floor(seconds));
  if (whole < MINUTE) return `${whole}s`;
  if (whole < HOUR) return `${Math.floor(whole / MINUTE)}m ${padded(whole % MINUTE)}s`;
  if (whole < DAY) return `${Math.floor(whole / HOUR)}h ${padded(Math.floor((whole % HOUR) / MINUTE))}m`;
  return `${Math.floor(whole / DAY)}d ${padded(Math.floor((whole % DAY) / HOUR))}h`;
}

/** One unit, for rough durations: `40 s`, `12 min`, `3 h`, `2 d`. */
export function formatRough(seconds: number): string {
  if (seconds < 2 * MINUTE) return `${Math.max(0, Math.round(seconds))} s`;
  if (seconds < 2 * HOUR) return `${Math.round(seconds / MINUTE)} min`;
  if (seconds < 2 * DAY) return `${Math.round(seconds / HOUR)} h`;
  return `${Math.round(seconds / DAY)} d`;
}

/** Seconds from one RFC 3339 time to another, or to `now` (milliseconds). Never negative: clocks differ. */
export function secondsBetween(since: string, until: string | null | undefined, now: number): number {
  const end = until ? Date.parse(until) : now;
  return Math.max(0, Math.floor((end - Date.parse(since)) / 1000));
}

function padded(number: number): string {
  return String(number).padStart(2, "0");
}
