// The API server, made up, for tests of the portal alone. It serves the build under the server's own policy, a fake
// `/v1`, and `/mock/…`, with which a test changes the world. The real server is tested by the project `real`.
import { readFileSync } from "node:fs";
import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { extname, join, normalize } from "node:path";

import type { CapacityView, CostReport, RunSummary } from "../src/api/types.ts";
import {
  decimal,
  makeCapacity,
  makeMembers,
  makeNodes,
  makeQueues,
  makeRunCost,
  makeRuns,
  makeRunView,
  makeWhy,
  time,
} from "./mock-data.ts";

export const TOKEN = "a-token-that-the-mock-accepts";
const SESSION = "__Host-warpyard-session=mock";

// As in crates/services/api-server/src/security_headers.rs.
const POLICY =
  "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; font-src 'self'; connect-src 'self'; " +
  "manifest-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'";
const TYPES: Record<string, string> = {
  ".html": "text/html; charset=utf-8",
  ".js": "text/javascript",
  ".css": "text/css",
  ".svg": "image/svg+xml",
  ".woff2": "font/woff2",
};

interface World {
  runs: RunSummary[];
  nodes: ReturnType<typeof makeNodes>;
  queues: ReturnType<typeof makeQueues>;
  /** What a test says of machines. */
  capacity?: CapacityView;
  streams: Set<ServerResponse>;
  /** Paths that fail, and paths that never answer, until `/mock/reset`. */
  failing: Set<string>;
  hanging: Set<string>;
  /** While false, event streams are refused with 503. */
  streaming: boolean;
}

export async function startMockServer(dist: string): Promise<{ server: Server; address: string }> {
  const world = newWorld();
  const server = createServer((request, response) => {
    void handle(world, dist, request, response).catch((error: unknown) => response.writeHead(500).end(String(error)));
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  return { server, address: `http://127.0.0.1:${(server.address() as AddressInfo).port}` };
}

function newWorld(): World {
  return {
    runs: makeRuns(Date.now()),
    nodes: makeNodes(),
    queues: makeQueues(),
    streams: new Set(),
    failing: new Set(),
    hanging: new Set(),
    streaming: true,
  };
}

async function handle(world: World, dist: string, request: IncomingMessage, response: ServerResponse): Promise<void> {
  const url = new URL(request.url ?? "/", "http://mock");
  response.setHeader("Content-Security-Policy", POLICY);
  response.setHeader("X-Content-Type-Options", "nosniff");
  if (url.pathname.startsWith("/mock/")) return changeWorld(world, url, await body(request), response);
  if (!url.pathname.startsWith("/v1/")) return serveFile(dist, url.pathname, response);
  if (url.pathname === "/v1/session") return session(request, await body(request), response);
  if (!request.headers.cookie?.includes(SESSION))
    return problem(response, 401, "Unauthenticated", "no session", "log in again");
  if (world.hanging.has(url.pathname)) return;
  if (world.failing.has(url.pathname)) {
    return problem(
      response,
      503,
      "LedgerUnavailable",
      "the ledger cannot be reached",
      "try again in a minute; scheduling goes on",
    );
  }
  if (url.pathname === "/v1/events") return stream(world, response);
  return read(world, request, url, response);
}

function read(world: World, request: IncomingMessage, url: URL, response: ServerResponse): void {
  const [, , first, namespace, , name, sub] = url.pathname.split("/");
  const query = url.searchParams;
  if (url.pathname === "/v1/whoami") return json(response, { username: "ada", groups: ["system:authenticated"] });
  if (url.pathname === "/v1/runs")
    return json(
      response,
      page(
        world.runs.filter((run) => isWanted(run, query)),
        query,
        100,
      ),
    );
  if (url.pathname === "/v1/queues") return json(response, page(world.queues, query, 500));
  if (url.pathname === "/v1/nodes") return json(response, page(world.nodes, query, 250));
  if (url.pathname === "/v1/capacity") return json(response, world.capacity ?? makeCapacity(world.runs, Date.now()));
  if (url.pathname === "/v1/cost") return report(request, query, response);
  const run = world.runs.find((run) => run.namespace === namespace && run.name === name);
  if (first !== "namespaces" || !run)
    return problem(response, 404, "NotFound", `there is no run ${namespace}/${name}`, "see all runs");
  if (sub === "members") return json(response, page(makeMembers(run), query, 500));
  if (sub === "why") return json(response, makeWhy(run, Date.now()));
  if (sub === "cost") return json(response, makeRunCost(run, Date.now()));
  if (sub === "stop") {
    const stopped = { ...run, stop: true, phase: "Stopped" as const, finishedAt: time(Date.now()) };
    setRun(world, stopped);
    return json(response, makeRunView(stopped));
  }
  if (sub === "pause" || sub === "resume") {
    const changed = {
      ...run,
      pause: sub === "pause",
      phase: sub === "pause" ? ("Paused" as const) : ("Pending" as const),
    };
    setRun(world, changed);
    return json(response, makeRunView(changed));
  }
  if (sub === "retry") {
    const changed = { ...run, phase: "Pending" as const };
    delete changed.finishedAt;
    setRun(world, changed);
    return json(response, makeRunView(changed));
  }
  return json(response, makeRunView(run));
}

function isWanted(run: RunSummary, query: URLSearchParams): boolean {
  const is = (key: string, value: string | null | undefined) => !query.get(key) || query.get(key) === value;
  return (
    is("namespace", run.namespace) &&
    is("queue", run.queue) &&
    is("phase", run.phase) &&
    is("user", run.submittedBy) &&
    run.name.includes(query.get("search") ?? "")
  );
}

function page<T>(items: T[], query: URLSearchParams, most: number) {
  const from = Number(query.get("continue") ?? 0);
  const limit = Math.min(Number(query.get("limit") ?? most), most);
  const more = from + limit < items.length ? { continue: String(from + limit) } : {};
  return { items: items.slice(from, from + limit), ...more };
}

function report(request: IncomingMessage, query: URLSearchParams, response: ServerResponse): void {
  const by = (query.get("by") ?? "run") as CostReport["by"];
  const names: Record<CostReport["by"], (string | undefined)[]> = {
    run: Array.from({ length: 40 }, (_, index) => `nlp/llama-ft-${String(9960 + index).padStart(5, "0")}`),
    user: ["ada", "alan", "barbara", "donald", "edsger", "grace", undefined],
    queue: ["bio", "nlp", "platform", "robotics", "speech", "vision", undefined],
    namespace: ["bio", "nlp", "platform", "robotics", "speech", "vision", undefined],
    day: Array.from({ length: 15 }, (_, index) => `2026-11-${String(index + 1).padStart(2, "0")}`),
    class: ["NodeIdle", "Productive", "Starting"],
  };
  const items = names[by].map((key, index) => {
    const micros = BigInt(((index + 3) * 7919) % 97) * 431_250_125n;
    return { ...(key ? { key } : {}), amount: decimal(micros), perHour: "12.5", gpuSeconds: Number(micros / 694n) };
  });
  if (request.headers.accept === "text/csv") {
    response
      .writeHead(200, { "Content-Type": "text/csv" })
      .end(`${by},amount\n${items.map((item) => `${item.key ?? ""},${item.amount}`).join("\n")}\n`);
    return;
  }
  const sum = items.reduce((total, item) => total + BigInt(item.amount.replace(".", "")), 0n);
  const gpuSeconds = items.reduce((total, item) => total + item.gpuSeconds, 0);
  json(response, {
    by,
    since: query.get("since"),
    until: query.get("until"),
    currency: "USD",
    asOf: time(Date.now()),
    total: { amount: decimal(sum), perHour: "87.5", gpuSeconds },
    items,
  });
}

function session(request: IncomingMessage, text: string, response: ServerResponse): void {
  const cookie = (value: string) => `${value}; Path=/; Secure; HttpOnly; SameSite=Strict`;
  if (request.method === "DELETE") {
    response.writeHead(204, { "Set-Cookie": cookie("__Host-warpyard-session=; Max-Age=0") }).end();
  } else if ((JSON.parse(text) as { token: string }).token !== TOKEN) {
    problem(response, 401, "Unauthenticated", "the token is not valid", "get a new one");
  } else {
    response.writeHead(204, { "Set-Cookie": cookie(SESSION) }).end();
  }
}

function stream(world: World, response: ServerResponse): void {
  if (!world.streaming) return problem(response, 503, "Busy", "too many streams");
  response.writeHead(200, { "Content-Type": "text/event-stream", "Cache-Control": "no-store" });
  response.write("retry: 200\nevent: hello\ndata: {}\n\n");
  world.streams.add(response);
  response.on("close", () => world.streams.delete(response));
}

/** `/mock/run`, `/mock/node`, `/mock/queue`: put one and tell; `/mock/capacity`: put it; `/mock/fail?path=`, `/mock/hang?path=`, `/mock/streams?on=`; `/mock/reset`. */
function changeWorld(world: World, url: URL, text: string, response: ServerResponse): void {
  const what = url.pathname.slice("/mock/".length);
  if (what === "reset") {
    const { streams } = world;
    delete world.capacity;
    Object.assign(world, newWorld(), { streams });
  } else if (what === "run") setRun(world, JSON.parse(text) as RunSummary);
  else if (what === "node" || what === "queue") setNamed(world, what, text);
  else if (what === "capacity") world.capacity = JSON.parse(text) as CapacityView;
  else if (what === "fail") world.failing.add(url.searchParams.get("path") ?? "");
  else if (what === "hang") world.hanging.add(url.searchParams.get("path") ?? "");
  else if (what === "empty") Object.assign(world, { runs: [], nodes: [], queues: [] });
  else if (what === "streams") {
    world.streaming = url.searchParams.get("on") === "true";
    if (!world.streaming) for (const stream of world.streams) stream.destroy();
  }
  response.writeHead(204).end();
}

function setRun(world: World, run: RunSummary): void {
  const index = world.runs.findIndex((other) => other.name === run.name && other.namespace === run.namespace);
  if (index < 0) world.runs.unshift(run);
  else world.runs[index] = run;
  tell(world, "run", run);
}

function setNamed(world: World, kind: "node" | "queue", text: string): void {
  const list = (kind === "node" ? world.nodes : world.queues) as { name: string }[];
  const object = JSON.parse(text) as { name: string };
  const index = list.findIndex((other) => other.name === object.name);
  if (index >= 0) list[index] = object;
  tell(world, kind, object);
}

function tell(world: World, event: string, data: unknown): void {
  for (const stream of world.streams) stream.write(`event: ${event}\ndata: ${JSON.stringify(data)}\n\n`);
}

function serveFile(dist: string, path: string, response: ServerResponse): void {
  const name = extname(path) ? normalize(path) : "/index.html";
  try {
    const content = readFileSync(join(dist, name));
    response.writeHead(200, { "Content-Type": TYPES[extname(name)] ?? "application/octet-stream" }).end(content);
  } catch {
    response.writeHead(404).end();
  }
}

function json(response: ServerResponse, value: unknown): void {
  response.writeHead(200, { "Content-Type": "application/json" }).end(JSON.stringify(value));
}

function problem(response: ServerResponse, status: number, code: string, detail: string, hint?: string): void {
  response
    .writeHead(status, { "Content-Type": "application/problem+json" })
    .end(JSON.stringify({ status, code, detail, hint }));
}

async function body(request: IncomingMessage): Promise<string> {
  const chunks: Buffer[] = [];
  for await (const chunk of request) chunks.push(chunk as Buffer);
  return Buffer.concat(chunks).toString();
}
