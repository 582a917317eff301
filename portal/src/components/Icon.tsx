// Drawn here, 16 by 16, in one stroke width. Icons accompany a word and are hidden from screen readers.
import type { ReactNode } from "react";

const SHAPES = {
  runs: <path d="M2.5 4h11M2.5 8h11M2.5 12h7" />,
  queues: <path d="M3 2.5v8a2 2 0 0 0 2 2h2M3 6.5h4M9.5 5h4v3h-4zM9.5 11h4v3h-4z" />,
  map: <path d="M2.5 2.5h4v4h-4zM9.5 2.5h4v4h-4zM2.5 9.5h4v4h-4zM9.5 9.5h4v4h-4z" />,
  capacity: <path d="M2.5 3h11v4h-11zM2.5 10.5V13h5M5 5h.1M11.5 9.5v5M9 12h5" />,
  cost: <path d="M2.5 13.5v-4M6.2 13.5v-7M9.9 13.5v-5M13.5 13.5v-11" />,
  person: <path d="M8 8.2a2.7 2.7 0 1 0 0-5.4 2.7 2.7 0 0 0 0 5.4ZM2.8 13.6c.6-2.3 2.6-3.6 5.2-3.6s4.6 1.3 5.2 3.6" />,
  search: <path d="M7 12A5 5 0 1 0 7 2a5 5 0 0 0 0 10ZM10.7 10.7 14 14" />,
  close: <path d="m4 4 8 8M12 4l-8 8" />,
  back: <path d="M9.5 3.5 5 8l4.5 4.5" />,
  download: <path d="M8 2.5v7.5M4.8 7 8 10.2 11.2 7M3 13.5h10" />,
  warning: <path d="M8 2.3 14.5 13.5h-13zM8 6.5v3.2M8 11.6v.1" />,
  empty: <path d="M2.5 9.5 4.5 3h7l2 6.5v3.5h-11zM2.5 9.5H5.5l1 1.5h3l1-1.5h3" />,
  // The rest are the states.
  clock: <path d="M8 14A6 6 0 1 0 8 2a6 6 0 0 0 0 12ZM8 4.8V8l2.2 1.5" />,
  half: (
    <>
      <circle cx="8" cy="8" r="6" />
      <path d="M8 2a6 6 0 0 1 0 12z" fill="currentColor" stroke="none" />
    </>
  ),
  play: (
    <>
      <circle cx="8" cy="8" r="6" />
      <path d="M6.6 5.3v5.4L11 8z" fill="currentColor" stroke="none" />
    </>
  ),
  check: (
    <>
      <circle cx="8" cy="8" r="6" />
      <path d="m5.4 8.2 1.8 1.8 3.4-3.7" />
    </>
  ),
  cross: (
    <>
      <circle cx="8" cy="8" r="6" />
      <path d="m5.9 5.9 4.2 4.2M10.1 5.9l-4.2 4.2" />
    </>
  ),
  square: (
    <>
      <circle cx="8" cy="8" r="6" />
      <rect x="5.7" y="5.7" width="4.6" height="4.6" fill="currentColor" stroke="none" />
    </>
  ),
  pause: (
    <>
      <circle cx="8" cy="8" r="6" />
      <path d="M6.6 5.8v4.4M9.4 5.8v4.4" />
    </>
  ),
  again: <path d="M13 4.5v3h-3M13 7.5A5.3 5.3 0 1 0 12.2 11" />,
  ring: <circle cx="8" cy="8" r="6" strokeDasharray="2.4 2.3" />,
  dot: <circle cx="8" cy="8" r="3" fill="currentColor" stroke="none" />,
} satisfies Record<string, ReactNode>;

export type IconName = keyof typeof SHAPES;

export function Icon({ name, size = 16 }: { name: IconName; size?: number }) {
  return (
    <svg
      width={size}
      height={size}
      viewBox="0 0 16 16"
      fill="none"
      stroke="currentColor"
      strokeWidth="1.5"
      strokeLinecap="round"
      strokeLinejoin="round"
      aria-hidden="true"
    >
      {SHAPES[name]}
    </svg>
  );
}
