import type { MemberView, RunView } from "../../api/types";
import { Elapsed } from "../../components/Elapsed";
import { Icon, type IconName } from "../../components/Icon";
import { formatShortTime, formatTime } from "../../format/time";
import { runSteps, type Step } from "./steps";

const ICONS: Record<Step["name"], IconName> = {
  Submitted: "check",
  Queued: "clock",
  Paused: "pause",
  Starting: "half",
  Running: "play",
  Done: "ring",
  Succeeded: "check",
  Failed: "cross",
  Stopped: "square",
};

const WORDS: Record<Step["state"], string> = {
  done: "done",
  current: "now",
  ahead: "ahead",
  skipped: "skipped",
};

/** How far the run is, and how long each part took. */
export function Stepper({ run, members }: { run: RunView; members: readonly MemberView[] }) {
  return (
    <ol className="stepper" aria-label="Progress">
      {runSteps(run, members, run.attempts).map((step) => (
        <li
          key={step.name}
          className="step"
          data-step={step.state}
          data-state={step.name === "Queued" ? "Pending" : step.name}
          aria-current={step.state === "current" ? "step" : undefined}
        >
          <span className="step-mark">
            <Icon name={step.state === "done" && isPassed(step) ? "check" : ICONS[step.name]} size={18} />
          </span>
          <span className="step-name">
            {step.name}
            <span className="visually-hidden">, {WORDS[step.state]}</span>
          </span>
          <span className="step-time">
            <StepTime step={step} />
          </span>
        </li>
      ))}
    </ol>
  );
}

/** A step on the way, not the end. */
function isPassed(step: Step): boolean {
  return step.name !== "Submitted" && step.name !== "Done" && !isEnd(step);
}

function isEnd({ name }: Step): boolean {
  return name === "Succeeded" || name === "Failed" || name === "Stopped";
}

function StepTime({ step }: { step: Step }) {
  if (step.state === "skipped") return "skipped";
  if (!step.since) return step.state === "done" ? "–" : null;
  if (!isPassed(step))
    return (
      <time dateTime={step.since} title={formatTime(step.since)}>
        {formatShortTime(step.since)}
      </time>
    );
  return <Elapsed since={step.since} until={step.until} />;
}
