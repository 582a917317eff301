import type { UsageClass } from "../../api/types";

/** The classes of GPU time, in the words of the page. */
export const CLASS_LABELS: Record<UsageClass, string> = {
  Productive: "Productive",
  Starting: "Starting",
  Lost: "Lost",
  NodeStarting: "Machine starting",
  NodeIdle: "Idle",
};
