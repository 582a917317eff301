import { useSyncExternalStore } from "react";

import { stored } from "./stored";

export const THEMES = ["light", "dark", "system"] as const;
export type Theme = (typeof THEMES)[number];

const theme = stored<Theme>("warpyard.theme", "system", (text) => THEMES.find((theme) => theme === text));

/** Tells the style sheet; `system` leaves it to the browser. */
export function applyTheme(): void {
  document.documentElement.dataset["theme"] = theme.get();
}

export function useTheme(): [Theme, (next: Theme) => void] {
  const current = useSyncExternalStore(theme.subscribe, theme.get);
  const choose = (next: Theme) => {
    theme.set(next);
    applyTheme();
  };
  return [current, choose];
}
