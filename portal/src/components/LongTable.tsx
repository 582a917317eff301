import { useVirtualizer } from "@tanstack/react-virtual";
import { type ReactNode, useRef } from "react";

const ROW_HEIGHT = 41;
// Longer tables are not rendered at once.
const PLAIN_ROWS_MAX = 100;

export interface Column {
  label: string;
  isNumber?: boolean;
}

interface Props<T> {
  label: string;
  columns: readonly Column[];
  items: readonly T[];
  rowKey: (item: T) => string | number;
  /** The cells of a row, each a `td` or a `th`, one line high. */
  children: (item: T) => ReactNode;
}

/** A table of any length. A long one scrolls inside, and only the rows in sight exist. */
export function LongTable<T>({ label, columns, items, rowKey, children }: Props<T>) {
  const scroller = useRef<HTMLDivElement>(null);
  const isLong = items.length > PLAIN_ROWS_MAX;
  const virtualizer = useVirtualizer({
    count: items.length,
    enabled: isLong,
    getScrollElement: () => scroller.current,
    estimateSize: () => ROW_HEIGHT,
    overscan: 12,
  });
  const inSight = virtualizer.getVirtualItems();
  const first = isLong ? (inSight[0]?.index ?? 0) : 0;
  const end = isLong ? (inSight.at(-1)?.index ?? -1) + 1 : items.length;
  return (
    <div
      ref={scroller}
      className={isLong ? "scroll-x long-table" : "scroll-x"}
      tabIndex={0}
      role="group"
      aria-label={label}
    >
      <table className="table" aria-rowcount={items.length + 1}>
        <thead>
          <tr aria-rowindex={1}>
            {columns.map((column) => (
              <th key={column.label} className={column.isNumber ? "number" : undefined}>
                {column.label}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          <Spacer rows={first} columns={columns.length} />
          {items.slice(first, end).map((item, index) => (
            <tr key={rowKey(item)} aria-rowindex={first + index + 2}>
              {children(item)}
            </tr>
          ))}
          <Spacer rows={items.length - end} columns={columns.length} />
        </tbody>
      </table>
    </div>
  );
}

function Spacer({ rows, columns }: { rows: number; columns: number }) {
  if (rows <= 0) return null;
  return (
    <tr aria-hidden="true">
      <td colSpan={columns} style={{ height: rows * ROW_HEIGHT, padding: 0 }} />
    </tr>
  );
}
