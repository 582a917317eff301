import "./login.css";

import { useMutation, useQueryClient } from "@tanstack/react-query";
import { useRouter, useSearch } from "@tanstack/react-router";
import { type DragEvent, type FormEvent, useState } from "react";

import { answer, api } from "../../api/client";
import { asProblem } from "../../api/problem";
import { Icon } from "../../components/Icon";
import { PageHeading } from "../../components/PageHeading";
import { Brand } from "../../shell/Brand";

// The server accepts no longer token.
const TOKEN_BYTES_MAX = 16 * 1024;

/** Exchanges a token for a session. The token is sent once and kept nowhere. */
export function LoginPage() {
  const [token, setToken] = useState("");
  const [fileProblem, setFileProblem] = useState("");
  const logIn = useLogIn();

  const submit = (event: FormEvent) => {
    event.preventDefault();
    logIn.mutate(token.trim());
  };
  const drop = async (event: DragEvent) => {
    event.preventDefault();
    const file = event.dataTransfer.files[0];
    if (file) await readTokenFile(file);
  };
  const readTokenFile = async (file: File) => {
    const isTooLong = file.size > TOKEN_BYTES_MAX;
    setFileProblem(isTooLong ? `${file.name} is larger than 16 KiB, so it is not a token.` : "");
    if (!isTooLong) setToken((await file.text()).trim());
  };

  return (
    <main className="login">
      <form
        className="login-card"
        onSubmit={submit}
        onDragOver={(event) => event.preventDefault()}
        onDrop={(event) => void drop(event)}
      >
        <Brand />
        <PageHeading title="Log in" />
        <label className="field">
          <span>Token</span>
          <textarea
            className="input code login-token"
            rows={4}
            value={token}
            onChange={(event) => setToken(event.target.value)}
            placeholder="Paste a token, or drop a token file here"
            autoComplete="off"
            spellCheck={false}
            required
            aria-describedby="login-problem"
          />
        </label>
        <div id="login-problem" role="alert">
          {fileProblem && <LoginProblem detail={fileProblem} />}
          {logIn.isError && <LoginProblem {...loginProblem(logIn.error)} />}
        </div>
        <div className="login-actions">
          <label className="button">
            Choose a file
            <input
              type="file"
              className="visually-hidden"
              onChange={(event) => {
                const file = event.target.files?.[0];
                if (file) void readTokenFile(file);
              }}
            />
          </label>
          <button type="submit" className="button button-primary" disabled={logIn.isPending || !token.trim()}>
            {logIn.isPending ? "Logging in" : "Log in"}
          </button>
        </div>
        <details className="login-help">
          <summary>How do I get a token?</summary>
          <p>Any token that Kubernetes accepts will do. With a kubeconfig that works:</p>
          <pre>kubectl create token NAME --duration 8h</pre>
          <p>
            NAME is a service account of your namespace. If single sign-on is set up, the token that your login command
            prints works too. Without either, ask the cluster's administrator.
          </p>
        </details>
      </form>
    </main>
  );
}

function LoginProblem({ detail, hint }: { detail: string; hint?: string | null | undefined }) {
  return (
    <p className="login-problem">
      <Icon name="warning" />
      <span>
        <strong>{detail}</strong>
        {hint && <span className="login-hint">{hint}</span>}
      </span>
    </p>
  );
}

/** The server calls a refused token a missing login, which would be confusing on this page. */
function loginProblem(error: unknown): { detail: string; hint?: string | null | undefined } {
  const problem = asProblem(error);
  if (problem.status !== 401) return problem;
  return {
    detail: "Kubernetes does not accept this token.",
    hint: "It may have expired, or lack its beginning or end. Get a new one and paste it whole.",
  };
}

function useLogIn() {
  const queryClient = useQueryClient();
  const router = useRouter();
  const { next } = useSearch({ from: "/login" });
  return useMutation({
    mutationFn: (token: string) => answer(api.POST("/v1/session", { body: { token } })),
    onSuccess: () => {
      // Another user may have been logged in before.
      queryClient.clear();
      router.history.push(next ?? "/");
    },
  });
}
