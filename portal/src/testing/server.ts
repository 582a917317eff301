import { http, HttpResponse, type JsonBodyType } from "msw";
import { setupServer } from "msw/node";

const address = (path: string) => new URL(path, window.location.origin).href;

/** The API of a test. By default a user is logged in, and there are no queues. */
export const server = setupServer(
  http.get(address("/v1/whoami"), () => HttpResponse.json({ username: "ada", groups: [] })),
  http.get(address("/v1/queues"), () => HttpResponse.json({ items: [] })),
);

export function answers(path: string, body: JsonBodyType): void {
  server.use(http.get(address(path), () => HttpResponse.json(body)));
}

export function fails(path: string, status: number, problem: { code: string; detail: string; hint?: string }): void {
  server.use(http.get(address(path), () => HttpResponse.json({ status, ...problem }, { status })));
}

export function refuses(path: string, status: number, problem: { code: string; detail: string; hint?: string }): void {
  server.use(http.post(address(path), () => HttpResponse.json({ status, ...problem }, { status })));
}

/** An answer that never comes. */
export function hangs(path: string): void {
  server.use(http.get(address(path), () => new Promise<never>(() => undefined)));
}

export function accepts(
  method: "post" | "delete",
  path: string,
  body: JsonBodyType | undefined,
  seen: (body: unknown) => void = () => undefined,
): void {
  server.use(
    http[method](address(path), async ({ request }) => {
      const text = await request.text();
      seen(text ? JSON.parse(text) : undefined);
      return body === undefined ? new HttpResponse(null, { status: 204 }) : HttpResponse.json(body);
    }),
  );
}
