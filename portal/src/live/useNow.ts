import { useSyncExternalStore } from "react";

// One timer for everything that ticks on the page; it stops when nothing does.
const listeners = new Set<() => void>();
let now = wholeSecond();
let timer: ReturnType<typeof setInterval> | undefined;

function subscribe(listener: () => void): () => void {
  listeners.add(listener);
  timer ??= setInterval(() => {
    now = wholeSecond();
    for (const each of listeners) each();
  }, 1000);
  return () => {
    listeners.delete(listener);
    if (listeners.size > 0) return;
    clearInterval(timer);
    timer = undefined;
  };
}

function snapshot(): number {
  // Without a timer the last value may be old.
  if (timer === undefined) now = wholeSecond();
  return now;
}

/** Two readings within one render must agree. */
function wholeSecond(): number {
  return Math.floor(Date.now() / 1000) * 1000;
}

/** The time in milliseconds, updated each second. */
export function useNow(): number {
  return useSyncExternalStore(subscribe, snapshot);
}
