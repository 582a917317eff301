// Whether the list of shortcuts is open. A key, a button and the dialog itself change it, in different places.
const listeners = new Set<() => void>();
let isOpen = false;

function set(next: boolean): void {
  isOpen = next;
  for (const listener of listeners) listener();
}

export const openShortcutHelp = () => set(true);
export const closeShortcutHelp = () => set(false);
export const isShortcutHelpOpen = () => isOpen;

export function subscribeShortcutHelp(listener: () => void): () => void {
  listeners.add(listener);
  return () => listeners.delete(listener);
}
