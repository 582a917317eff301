// The real platform, as any REST client sees it: with a bearer token, from Node. What it needs comes from the
// environment; without it the tests fail, they are not skipped.
import type { NodeView, Page, RunView } from "../../src/api/types.ts";

function wanted(name: string): string {
  const value = process.env[name];
  if (!value)
    throw new Error(
      `${name} is not set\n\nhint: the project "real" needs WARPYARD_URL, WARPYARD_TOKEN and WARPYARD_NAMESPACE`,
    );
  return value;
}

/** A job file, as `POST …/runs` takes it. */
export interface Job {
  name: string;
  gpus: string;
  nodes: number;
  run: string;
  annotations?: Record<string, string>;
}

export class Platform {
  readonly url = wanted("WARPYARD_URL").replace(/\/$/, "");
  readonly token = wanted("WARPYARD_TOKEN");
  readonly namespace = wanted("WARPYARD_NAMESPACE");

  submit(job: Job): Promise<RunView> {
    return this.#call("POST", `/v1/namespaces/${this.namespace}/runs`, job);
  }

  stop(name: string): Promise<RunView> {
    return this.#call("POST", `/v1/namespaces/${this.namespace}/runs/${name}/stop`);
  }

  run(name: string): Promise<RunView> {
    return this.#call("GET", `/v1/namespaces/${this.namespace}/runs/${name}`);
  }

  async nodes(): Promise<NodeView[]> {
    return (await this.#call<Page<NodeView>>("GET", "/v1/nodes?limit=250")).items;
  }

  async #call<T>(method: string, path: string, body?: unknown): Promise<T> {
    const response = await fetch(this.url + path, {
      method,
      headers: { Authorization: `Bearer ${this.token}`, ...(body ? { "Content-Type": "application/json" } : {}) },
      ...(body ? { body: JSON.stringify(body) } : {}),
    });
    if (!response.ok)
      throw new Error(`${method} ${path} was answered with ${response.status}: ${await response.text()}`);
    return (await response.json()) as T;
  }
}

/** A job that takes every GPU of one type, so that another one of that type has to wait. */
export function jobThatFills(nodes: readonly NodeView[], name: string): Job {
  const usable = nodes.filter((node) => node.ready && node.schedulable && node.gpus > 0);
  const byShape = new Map<string, number>();
  for (const node of usable) {
    const shape = `${node.gpus}${node.gpuType ? `x ${node.gpuType}` : ""}`;
    byShape.set(shape, (byShape.get(shape) ?? 0) + 1);
  }
  const [fewest] = [...byShape].sort(([, a], [, b]) => a - b);
  if (!fewest) throw new Error("no node has GPUs");
  const [gpus, count] = fewest;
  return { name, gpus, nodes: count, run: "sleep infinity" };
}
