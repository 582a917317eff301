import type { ErrorComponentProps } from "@tanstack/react-router";
import { useRouter } from "@tanstack/react-router";

import { ProblemNote } from "./ProblemNote";

/** Shown when a page cannot be opened at all. */
export function PageError({ error, reset }: ErrorComponentProps) {
  const router = useRouter();
  const retry = () => {
    reset();
    void router.invalidate();
  };
  return (
    <main className="page">
      <h1 className="visually-hidden">This page cannot be shown</h1>
      <ProblemNote error={error} onRetry={retry} />
    </main>
  );
}
