import { useEffect, useSyncExternalStore } from "react";

import { stored } from "./stored";

const enabled = stored<"on" | "off">("warpyard.shortcuts", "on", (text) =>
  text === "on" || text === "off" ? text : undefined,
);

/** Whether single-key shortcuts are on. WCAG 2.1.4: people who speak to their computer must be able to turn them off. */
export function useShortcutsEnabled(): [boolean, (on: boolean) => void] {
  const value = useSyncExternalStore(enabled.subscribe, enabled.get);
  return [value === "on", (on) => enabled.set(on ? "on" : "off")];
}

/** Calls `act` when one of the single keys is pressed outside of a field; it says whether it did something. */
export function useShortcuts(act: (key: string) => boolean): void {
  useEffect(() => {
    const onKeyDown = (event: KeyboardEvent) => {
      const isPlain = !event.ctrlKey && !event.metaKey && !event.altKey;
      if (!isPlain || enabled.get() === "off" || isTyping(event.target) || document.querySelector("dialog[open]"))
        return;
      if (act(event.key)) event.preventDefault();
    };
    document.addEventListener("keydown", onKeyDown);
    return () => document.removeEventListener("keydown", onKeyDown);
  }, [act]);
}

function isTyping(target: EventTarget | null): boolean {
  return target instanceof Element && target.closest("input, textarea, select, [contenteditable]") !== null;
}
