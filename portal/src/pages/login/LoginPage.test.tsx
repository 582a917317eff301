import { screen, waitFor } from "@testing-library/react";
import userEvent from "@testing-library/user-event";
import { http, HttpResponse } from "msw";
import { expect, test } from "vitest";

import { FakeEventSource } from "../../testing/FakeEventSource";
import { aRun } from "../../testing/objects";
import { open } from "../../testing/open";
import { accepts, answers, fails, server } from "../../testing/server";

test("who is not logged in comes to the login, and after it to where they wanted", async () => {
  fails("/v1/whoami", 401, { code: "Unauthenticated", detail: "no session" });
  answers("/v1/runs", { items: [aRun()] });
  let sent: unknown;
  accepts("post", "/v1/session", undefined, (body) => {
    sent = body;
    answers("/v1/whoami", { username: "ada", groups: [] });
  });
  const { router } = open("/?phase=Pending");
  await userEvent.type(await screen.findByRole("textbox", { name: "Token" }), " secret ");
  await userEvent.click(screen.getByRole("button", { name: "Log in" }));
  expect(await screen.findByRole("link", { name: "llama" })).toBeDefined();
  expect(sent).toEqual({ token: "secret" });
  expect(router.state.location.href).toBe("/?phase=Pending");
});

test("a refused token is explained", async () => {
  server.use(
    http.post(new URL("/v1/session", window.location.origin).href, () =>
      HttpResponse.json({ status: 401, code: "Unauthenticated", detail: "no" }, { status: 401 }),
    ),
  );
  open("/login");
  await userEvent.type(await screen.findByRole("textbox", { name: "Token" }), "old");
  await userEvent.click(screen.getByRole("button", { name: "Log in" }));
  expect(await screen.findByText("Kubernetes does not accept this token.")).toBeDefined();
});

test("a session that ends under an open page leads to the login", async () => {
  answers("/v1/runs", { items: [aRun()] });
  const { router } = open("/");
  await screen.findByRole("link", { name: "llama" });
  fails("/v1/runs", 401, { code: "Unauthenticated", detail: "the session is over" });
  FakeEventSource.last().say("reload");
  await waitFor(() => expect(router.state.location.pathname).toBe("/login"));
});

test("logging out ends the session", async () => {
  answers("/v1/runs", { items: [] });
  let isEnded = false;
  accepts("delete", "/v1/session", undefined, () => (isEnded = true));
  const { router } = open("/");
  await screen.findByText("No runs yet");
  await userEvent.click(screen.getByText("Log out"));
  await waitFor(() => expect(router.state.location.pathname).toBe("/login"));
  expect(isEnded).toBe(true);
});
