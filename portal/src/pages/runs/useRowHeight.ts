import { useSyncExternalStore } from "react";

const narrow = window.matchMedia("(max-width: 760px)");

function subscribe(listener: () => void): () => void {
  narrow.addEventListener("change", listener);
  return () => narrow.removeEventListener("change", listener);
}

/** Rows have two lines on a narrow screen; runs.css lays them out. */
export function useRowHeight(): number {
  return useSyncExternalStore(subscribe, () => narrow.matches) ? 64 : 41;
}
