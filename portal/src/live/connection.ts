// One event stream for the page.
//
//   idle ──open──► connecting ──hello──► live ──lost──► reconnecting ──hello──► live
//                                                          │ 401
//                                                          └──► the session is over: login
//
// Changes are gathered and written to the cache together, ten times a second. `hello` and `reload` mean that something
// may have been missed: the page's data is fetched anew.
import type { QueryClient } from "@tanstack/react-query";

import { whoamiQuery } from "../api/queries";
import { applyChanges, refetchDetails } from "./cache";
import { type Changes, countChanges, mergeChanges, noChanges, readers } from "./changes";

export type Topic = "runs" | "queues" | "nodes";

/** The objects whose events a page wants. */
export interface Interest {
  topics: readonly Topic[];
  namespace?: string;
  run?: string;
}

export interface LiveState {
  status: "idle" | "connecting" | "live" | "reconnecting";
  /** Since when the stream is silent, in milliseconds; only while reconnecting. */
  lostAt?: number;
}

const FLUSH_MILLISECONDS = 100;
// Details are fetched once a second at most, however fast a run's members change.
const DETAILS_MILLISECONDS = 1000;
// Changes that arrive while a fetch is under way are kept and applied over its answer. If there are more of them
// than rows in the largest list (10,000 nodes), fetching again is cheaper.
const KEPT_CHANGES_MAX = 10_000;
// The browser retries lost streams by itself, but not refused ones (401, 503): those are retried here.
const RETRY_MILLISECONDS_MIN = 1_000;
const RETRY_MILLISECONDS_MAX = 30_000;

export class LiveConnection {
  #client: QueryClient;
  #source: EventSource | undefined;
  #address = "";
  #state: LiveState = { status: "idle" };
  #listeners = new Set<() => void>();
  #gathered = noChanges();
  #details = noChanges();
  #duringFetch = noChanges();
  #flushTimer: ReturnType<typeof setTimeout> | undefined;
  #detailsTimer: ReturnType<typeof setTimeout> | undefined;
  #retryTimer: ReturnType<typeof setTimeout> | undefined;
  #retryMilliseconds = RETRY_MILLISECONDS_MIN;

  constructor(client: QueryClient) {
    this.#client = client;
    client.getQueryCache().subscribe((event) => {
      const isAnswer = event.type === "updated" && event.action.type === "success" && !event.action.manual;
      if (isAnswer) this.#layOverAnswer();
    });
  }

  subscribe = (listener: () => void): (() => void) => {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  };

  state = (): LiveState => this.#state;

  open(interest: Interest): void {
    const address = eventsAddress(interest);
    if (this.#source && this.#address === address) return;
    this.close();
    this.#address = address;
    this.#become({ status: "connecting" });
    this.#connect();
  }

  close(): void {
    this.#source?.close();
    this.#source = undefined;
    for (const timer of [this.#flushTimer, this.#detailsTimer, this.#retryTimer]) clearTimeout(timer);
    this.#flushTimer = this.#detailsTimer = this.#retryTimer = undefined;
    this.#gathered = noChanges();
    this.#details = noChanges();
    this.#duringFetch = noChanges();
    this.#become({ status: "idle" });
  }

  #connect(): void {
    const source = new EventSource(this.#address);
    this.#source = source;
    for (const [name, read] of Object.entries(readers)) {
      source.addEventListener(name, (event: MessageEvent<string>) => {
        read(this.#gathered, event.data);
        this.#flushTimer ??= setTimeout(() => this.#flush(), FLUSH_MILLISECONDS);
      });
    }
    source.addEventListener("hello", () => {
      this.#retryMilliseconds = RETRY_MILLISECONDS_MIN;
      this.#become({ status: "live" });
      this.#refetch();
    });
    source.addEventListener("reload", () => this.#refetch());
    source.addEventListener("error", () => this.#lost(source));
  }

  #lost(source: EventSource): void {
    if (source !== this.#source) return;
    this.#become({ status: "reconnecting", lostAt: this.#state.lostAt ?? Date.now() });
    if (source.readyState !== EventSource.CLOSED) return;
    // An event stream hides the status of its refusal; asking who we are shows whether the session is over.
    void this.#client.fetchQuery({ ...whoamiQuery, staleTime: 0 }).catch(() => undefined);
    this.#retryTimer = setTimeout(() => this.#connect(), this.#retryMilliseconds);
    this.#retryMilliseconds = Math.min(this.#retryMilliseconds * 2, RETRY_MILLISECONDS_MAX);
  }

  #flush(): void {
    this.#flushTimer = undefined;
    const changes = this.#gathered;
    this.#gathered = noChanges();
    applyChanges(this.#client, changes);
    mergeChanges(this.#details, changes);
    this.#detailsTimer ??= setTimeout(() => this.#refetchDetails(), DETAILS_MILLISECONDS);
    if (this.#client.isFetching() > 0) this.#keep(changes);
  }

  #refetchDetails(): void {
    this.#detailsTimer = undefined;
    refetchDetails(this.#client, this.#details);
    this.#details = noChanges();
  }

  #keep(changes: Changes): void {
    mergeChanges(this.#duringFetch, changes);
    if (countChanges(this.#duringFetch) > KEPT_CHANGES_MAX) this.#refetch();
  }

  /** An answer may be older than events that came while it was under way. Later events follow, so the last one wins. */
  #layOverAnswer(): void {
    if (countChanges(this.#duringFetch) === 0) return;
    applyChanges(this.#client, this.#duringFetch);
    if (this.#client.isFetching() === 0) this.#duringFetch = noChanges();
  }

  #refetch(): void {
    this.#duringFetch = noChanges();
    for (const query of this.#client.getQueryCache().findAll({ type: "active" })) {
      if (query.queryKey[0] === "whoami" || query.queryKey[0] === "cost") continue;
      const first = query.state.data === undefined ? query.promise : undefined;
      const again = () => this.#client.invalidateQueries({ queryKey: query.queryKey, exact: true });
      // A first fetch cannot be restarted, and may have been answered before the stream began.
      if (first) void first.then(again, () => undefined);
      else void again();
    }
  }

  #become(state: LiveState): void {
    if (this.#state.status === state.status) return;
    this.#state = state;
    for (const listener of this.#listeners) listener();
  }
}

export function eventsAddress(interest: Interest): string {
  const query = new URLSearchParams({ topics: interest.topics.join(",") });
  if (interest.namespace) query.set("namespace", interest.namespace);
  if (interest.run) query.set("run", interest.run);
  return `/v1/events?${query}`;
}
