import type { ReactNode } from "react";

import { asProblem } from "../../api/problem";
import type { RunView } from "../../api/types";
import { Dialog } from "../../components/Dialog";
import { type Ask, useAsk } from "./useAsk";

interface Props {
  run: RunView;
  ask: Ask;
  title: string;
  /** The button's text, and its text while the request runs. */
  action: string;
  acting: string;
  isDanger?: boolean;
  onClose: () => void;
  children: ReactNode;
}

/** Asks for confirmation before a run is changed. */
export function AskDialog({ run, ask, title, action, acting, isDanger = false, onClose, children }: Props) {
  const asking = useAsk(run, ask, onClose);
  return (
    <Dialog title={title} onClose={onClose}>
      {children}
      {asking.isError && (
        <p role="alert" className="ask-problem">
          {asProblem(asking.error).detail} {asProblem(asking.error).hint}
        </p>
      )}
      <div className="dialog-actions">
        <button type="button" className="button" onClick={onClose}>
          Keep it
        </button>
        <button
          type="button"
          className={isDanger ? "button button-danger" : "button button-primary"}
          disabled={asking.isPending}
          onClick={() => asking.mutate()}
        >
          {asking.isPending ? acting : action}
        </button>
      </div>
    </Dialog>
  );
}
