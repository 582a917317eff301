import { type RefObject, useLayoutEffect, useRef } from "react";

import type { RunSummary } from "../../api/types";
import { runKey } from "../../live/changes";

/** Keeps the visible rows in place when new ones appear above them. At the very top, new ones show. */
export function useAnchoredScroll(
  scroller: RefObject<HTMLElement | null>,
  runs: RunSummary[],
  rowHeight: number,
): void {
  const previous = useRef(runs);
  useLayoutEffect(() => {
    const before = previous.current;
    previous.current = runs;
    const element = scroller.current;
    if (!element || element.scrollTop < rowHeight || before === runs) return;
    const topIndex = Math.floor(element.scrollTop / rowHeight);
    const anchor = before[topIndex];
    if (!anchor) return;
    const key = runKey(anchor);
    if (runs[topIndex] && runKey(runs[topIndex]) === key) return;
    const moved = runs.findIndex((run) => runKey(run) === key);
    if (moved >= 0) element.scrollTop += (moved - topIndex) * rowHeight;
  }, [scroller, runs, rowHeight]);
}
