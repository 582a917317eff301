import type { AttemptOutcome, MemberState, RunPhase } from "../api/types";
import { Icon, type IconName } from "./Icon";

type State = RunPhase | MemberState | AttemptOutcome;

const ICONS: Record<State, IconName> = {
  Pending: "clock",
  Waiting: "clock",
  Starting: "half",
  Running: "play",
  Ending: "ring",
  Succeeded: "check",
  Failed: "cross",
  Deleted: "cross",
  Stopped: "square",
  Paused: "pause",
  Interrupted: "again",
};

/** A state as icon and word. `badge` is for the subject of a page. */
export function StateLabel({ state, badge = false }: { state: State; badge?: boolean }) {
  return (
    <span className={badge ? "state state-badge" : "state"} data-state={state}>
      <Icon name={ICONS[state]} size={15} />
      {state}
    </span>
  );
}
