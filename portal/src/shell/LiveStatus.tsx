import { Icon } from "../components/Icon";
import { formatDuration } from "../format/duration";
import { type LiveState } from "../live/connection";
import { useLiveState } from "../live/useLive";
import { useNow } from "../live/useNow";

const WORDS: Record<LiveState["status"], string> = {
  idle: "",
  connecting: "Connecting",
  live: "Live",
  reconnecting: "Reconnecting",
};

/** Whether the page's data is current, and its age if not. */
export function LiveStatus() {
  const { status, lostAt } = useLiveState();
  if (status === "idle") return null;
  return (
    <p className="live" data-status={status}>
      <Icon name={status === "live" ? "dot" : "ring"} size={17} />
      <span>
        <span role="status">{WORDS[status]}</span>
        {lostAt !== undefined && <DataAge since={lostAt} />}
      </span>
    </p>
  );
}

function DataAge({ since }: { since: number }) {
  const seconds = (useNow() - since) / 1000;
  return <span className="live-age tabular"> · data is {formatDuration(seconds)} old</span>;
}
