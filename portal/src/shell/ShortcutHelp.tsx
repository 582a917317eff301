import { useSyncExternalStore } from "react";

import { Dialog } from "../components/Dialog";
import { useShortcuts, useShortcutsEnabled } from "../settings/shortcuts";
import { closeShortcutHelp, isShortcutHelpOpen, openShortcutHelp, subscribeShortcutHelp } from "./shortcutHelpState";

const SHORTCUTS = [
  [["↑", "↓", "j", "k"], "Move along the runs"],
  [["Enter"], "Open the run"],
  [["/"], "Search"],
  [["←", "→", "↑", "↓"], "Move over the cluster map"],
  [["?"], "This list"],
  [["Esc"], "Close a dialog"],
] as const;

/** The list of shortcuts, opened with `?` or from the account menu. */
export function ShortcutHelp() {
  const isOpen = useSyncExternalStore(subscribeShortcutHelp, isShortcutHelpOpen);
  const [enabled, enable] = useShortcutsEnabled();
  useShortcuts(openOnQuestionMark);
  if (!isOpen) return null;
  return (
    <Dialog title="Keyboard shortcuts" onClose={closeShortcutHelp}>
      <dl className="shortcuts">
        {SHORTCUTS.map(([keys, what]) => (
          <div key={what}>
            <dt>
              {keys.map((key) => (
                <kbd key={key}>{key}</kbd>
              ))}
            </dt>
            <dd>{what}</dd>
          </div>
        ))}
      </dl>
      <label className="check">
        <input type="checkbox" checked={enabled} onChange={(event) => enable(event.target.checked)} />
        Single keys act (j, k, /, ?)
      </label>
      <div className="dialog-actions">
        <button type="button" className="button" onClick={closeShortcutHelp}>
          Close
        </button>
      </div>
    </Dialog>
  );
}

function openOnQuestionMark(key: string): boolean {
  if (key !== "?") return false;
  openShortcutHelp();
  return true;
}
