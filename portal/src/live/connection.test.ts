import { QueryClient, QueryObserver } from "@tanstack/react-query";
import { afterEach, beforeEach, expect, test, vi } from "vitest";

import { keys } from "../api/queries";
import type { QueueView } from "../api/types";
import { FakeEventSource } from "../testing/FakeEventSource";
import { aQueue } from "../testing/objects";
import { eventsAddress, LiveConnection } from "./connection";

let client: QueryClient;
let live: LiveConnection;

beforeEach(() => {
  vi.useFakeTimers();
  client = new QueryClient();
  live = new LiveConnection(client);
});
afterEach(() => {
  live.close();
  client.clear();
  vi.useRealTimers();
});

const shown = () => client.getQueryData<QueueView[]>(keys.queues)?.map((queue) => queue.weight);

test("a page's interest is in the stream's address", () => {
  expect(eventsAddress({ topics: ["runs"], namespace: "nlp", run: "llama" })).toBe(
    "/v1/events?topics=runs&namespace=nlp&run=llama",
  );
});

test("changes are written to the cache together", async () => {
  client.setQueryData(keys.queues, [aQueue({ weight: 1 })]);
  live.open({ topics: ["queues"] });
  FakeEventSource.last().say("hello");
  FakeEventSource.last().say("queue", aQueue({ weight: 2 }));
  FakeEventSource.last().say("queue", aQueue({ weight: 3 }));
  expect(shown()).toEqual([1]);
  await vi.advanceTimersByTimeAsync(100);
  expect(shown()).toEqual([3]);
  FakeEventSource.last().say("queue-gone", { name: "nlp" });
  await vi.advanceTimersByTimeAsync(100);
  expect(shown()).toEqual([]);
});

test("hello and reload fetch what is shown anew, because something may have been missed", async () => {
  const fetched = vi.fn(() => Promise.resolve([aQueue()]));
  const stop = new QueryObserver(client, { queryKey: keys.queues, queryFn: fetched }).subscribe(() => undefined);
  await vi.advanceTimersByTimeAsync(0);
  live.open({ topics: ["queues"] });
  for (const event of ["hello", "reload"]) {
    FakeEventSource.last().say(event);
    await vi.advanceTimersByTimeAsync(0);
  }
  expect(fetched).toHaveBeenCalledTimes(3);
  stop();
});

test("an answer that is older than an event does not undo it", async () => {
  let answer: (queues: QueueView[]) => void = () => undefined;
  const fetched = () => new Promise<QueueView[]>((resolve) => (answer = resolve));
  client.setQueryData(keys.queues, [aQueue({ weight: 1 })]);
  live.open({ topics: ["queues"] });
  const fetching = client.fetchQuery({ queryKey: keys.queues, queryFn: fetched });
  await vi.advanceTimersByTimeAsync(0);
  FakeEventSource.last().say("queue", aQueue({ weight: 2 }));
  await vi.advanceTimersByTimeAsync(100);
  answer([aQueue({ weight: 1 }), aQueue({ name: "vision", weight: 7 })]);
  await fetching;
  await vi.advanceTimersByTimeAsync(0);
  expect(shown()).toEqual([2, 7]);
});

test("a lost stream is told, with the moment it was lost, until it is back", () => {
  const states: string[] = [];
  live.subscribe(() => states.push(live.state().status));
  live.open({ topics: ["runs"] });
  FakeEventSource.last().say("hello");
  FakeEventSource.last().lose();
  expect(live.state().lostAt).toBe(Date.now());
  FakeEventSource.last().lose();
  FakeEventSource.last().say("hello");
  expect(states).toEqual(["connecting", "live", "reconnecting", "live"]);
  expect(live.state().lostAt).toBeUndefined();
});

test("a stream that is refused is tried again, ever less often", async () => {
  client.setQueryDefaults(keys.whoami, { retry: false });
  live.open({ topics: ["runs"] });
  for (const milliseconds of [1000, 2000, 4000]) {
    const refused = FakeEventSource.last();
    refused.close();
    refused.dispatchEvent(new Event("error"));
    const before = FakeEventSource.all.length;
    await vi.advanceTimersByTimeAsync(milliseconds - 1);
    expect(FakeEventSource.all).toHaveLength(before);
    await vi.advanceTimersByTimeAsync(1);
    expect(FakeEventSource.all).toHaveLength(before + 1);
  }
});
