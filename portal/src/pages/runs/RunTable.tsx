import { useVirtualizer } from "@tanstack/react-virtual";
import { type KeyboardEvent, useCallback, useEffect, useRef, useState } from "react";

import type { RunSummary } from "../../api/types";
import { runKey } from "../../live/changes";
import { useShortcuts } from "../../settings/shortcuts";
import { RunRow } from "./RunRow";
import { useAnchoredScroll } from "./useAnchoredScroll";
import { useRowHeight } from "./useRowHeight";

// Rows rendered above and below the window: enough for a turn of the wheel, few enough to render in a frame.
const OVERSCAN = 6;
const PAGE_KEY_ROWS = 12;
// The next page is fetched when this many rows are left below.
const NEAR_END_ROWS = 60;

const COLUMNS = [
  ["name", "Name"],
  ["state", "State"],
  ["queue", "Queue"],
  ["gpus", "GPUs"],
  ["members", "Members"],
  ["user", "User"],
  ["age", "Age"],
  ["duration", "Duration"],
] as const;

interface Props {
  runs: RunSummary[];
  hasMore: boolean;
  /** There are more rows, and none are being loaded. */
  canLoadMore: boolean;
  isLoadingMore: boolean;
  /** The next page could not be loaded. */
  hasFailed: boolean;
  onNearEnd: () => void;
}

/** The runs; only rows in sight exist. One row can have the focus: arrows or j and k move it, Enter opens it. */
export function RunTable({ runs, hasMore, canLoadMore, isLoadingMore, hasFailed, onNearEnd }: Props) {
  const scroller = useRef<HTMLDivElement>(null);
  const rowHeight = useRowHeight();
  const [active, setActive] = useState(0);
  const activeIndex = Math.min(active, runs.length - 1);

  // The same function as long as the runs are the same: a new one would measure all rows again at each scroll.
  const getItemKey = useCallback((index: number) => runKey(runs[index]!), [runs]);
  const virtualizer = useVirtualizer({
    count: runs.length,
    getScrollElement: () => scroller.current,
    estimateSize: () => rowHeight,
    getItemKey,
    overscan: OVERSCAN,
  });
  const lastInSight = virtualizer.getVirtualItems().at(-1)?.index ?? 0;
  const wantsMore = canLoadMore && lastInSight >= runs.length - NEAR_END_ROWS;
  useEffect(() => {
    if (wantsMore) onNearEnd();
  }, [wantsMore, onNearEnd]);
  useAnchoredScroll(scroller, runs, rowHeight);

  const moveTo = useCallback(
    (index: number) => {
      const next = Math.min(Math.max(index, 0), runs.length - 1);
      setActive(next);
      virtualizer.scrollToIndex(next);
      focusRow(scroller.current, next);
    },
    [runs.length, virtualizer],
  );
  useShortcuts(
    useCallback(
      (key) => {
        if (key !== "j" && key !== "k") return false;
        const isInside = scroller.current?.contains(document.activeElement);
        moveTo(isInside ? activeIndex + (key === "j" ? 1 : -1) : activeIndex);
        return true;
      },
      [activeIndex, moveTo],
    ),
  );
  const onKeyDown = (event: KeyboardEvent) => {
    const target = keyTarget(event.key, activeIndex, runs.length);
    if (target === undefined) return;
    event.preventDefault();
    moveTo(target);
  };

  return (
    <div ref={scroller} className="run-scroller">
      <div role="table" aria-label="Runs" aria-rowcount={hasMore ? -1 : runs.length + 1} className="run-table">
        <div role="rowgroup" className="run-head">
          <div role="row" aria-rowindex={1} className="run-row">
            {COLUMNS.map(([column, label]) => (
              <div key={column} role="columnheader" className={`run-${column}`}>
                {label}
              </div>
            ))}
          </div>
        </div>
        {/* Keys bubble up from the rows' links, which are what has the focus. */}
        {/* eslint-disable-next-line jsx-a11y/no-noninteractive-element-interactions */}
        <div role="rowgroup" className="run-body" style={{ height: virtualizer.getTotalSize() }} onKeyDown={onKeyDown}>
          {virtualizer.getVirtualItems().map((item) => (
            <RunRow
              key={item.key}
              run={runs[item.index]!}
              index={item.index}
              top={item.start}
              height={item.size}
              isActive={item.index === activeIndex}
              onFocus={setActive}
            />
          ))}
        </div>
      </div>
      <div className="run-more" role="status">
        {isLoadingMore && "Loading more"}
        {hasFailed && (
          <button type="button" className="button" onClick={onNearEnd}>
            The rest could not be loaded: try again
          </button>
        )}
      </div>
    </div>
  );
}

function keyTarget(key: string, index: number, count: number): number | undefined {
  switch (key) {
    case "ArrowDown":
      return index + 1;
    case "ArrowUp":
      return index - 1;
    case "PageDown":
      return index + PAGE_KEY_ROWS;
    case "PageUp":
      return index - PAGE_KEY_ROWS;
    case "Home":
      return 0;
    case "End":
      return count - 1;
    default:
      return undefined;
  }
}

/** The row may come into being only after the scroll: two frames later it is there. */
function focusRow(scroller: HTMLElement | null, index: number): void {
  const focus = () => {
    const link = scroller?.querySelector<HTMLElement>(`[data-index="${index}"] a`);
    link?.focus({ preventScroll: true });
    return link !== undefined && link !== null;
  };
  if (!focus()) requestAnimationFrame(() => requestAnimationFrame(focus));
}
