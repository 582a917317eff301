import type { Problem } from "./types";

/** A refusal or a failure, in the form that the API gives it (RFC 9457). */
export class ProblemError extends Error {
  readonly problem: Problem;

  constructor(problem: Problem, cause?: unknown) {
    super(problem.detail, { cause });
    this.name = "ProblemError";
    this.problem = problem;
  }
}

/** There was no answer. */
export const unreachable: Problem = {
  status: 0,
  code: "Unreachable",
  detail: "The server did not answer.",
  hint: "Check your connection, then try again.",
};

/** A list has more pages than a whole picture can show. */
export const tooLong: Problem = {
  status: 0,
  code: "TooLong",
  detail: "There is more than this page can show at once.",
  hint: "Ask the API for it page by page.",
};

/** The server's problem; a proxy in between may answer with something else. */
export function problemOf(body: unknown, status: number): Problem {
  if (typeof body === "object" && body !== null && "detail" in body && typeof body.detail === "string") {
    const { code, hint } = body as Partial<Problem>;
    return { status, code: code ?? "Unknown", detail: body.detail, ...(hint ? { hint } : {}) };
  }
  return { status, code: "Unknown", detail: `The server answered with status ${status}.`, hint: "Try again." };
}

/** Any error as a problem, to be shown. */
export function asProblem(error: unknown): Problem {
  if (error instanceof ProblemError) return error.problem;
  const detail = error instanceof Error ? error.message : String(error);
  return { status: 0, code: "Unexpected", detail, hint: "Reload the page. If it comes back, please report it." };
}

/** Whether the session is missing or over. */
export function isLoggedOut(error: unknown): boolean {
  return error instanceof ProblemError && error.problem.status === 401;
}
