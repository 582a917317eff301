import { asProblem } from "../api/problem";
import { Icon } from "./Icon";

/** The problem, the hint, and a button to try again. */
export function ProblemNote({ error, onRetry }: { error: unknown; onRetry?: () => void }) {
  const { detail, hint, code } = asProblem(error);
  return (
    <div className="note note-problem" role="alert">
      <Icon name="warning" size={24} />
      <h2>{detail}</h2>
      {hint && <p>{hint}</p>}
      <p className="code">{code}</p>
      {onRetry && (
        <button type="button" className="button" onClick={onRetry}>
          Try again
        </button>
      )}
    </div>
  );
}
