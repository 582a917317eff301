import { expect, test } from "vitest";

import { aQueue } from "../../testing/objects";
import { barEnd, describeUse, gpuUses, queueTree } from "./queueTree";

test("queues follow the one above them, and one whose parent is hidden is at the top", () => {
  const queues = [
    aQueue({ name: "applied", parent: "research" }),
    aQueue({ name: "bio", parent: "research" }),
    aQueue({ name: "nlp", parent: "applied" }),
    aQueue({ name: "research" }),
    aQueue({ name: "seen", parent: "hidden" }),
  ];
  expect(queueTree(queues).map(({ queue, depth }) => `${depth} ${queue.name}`)).toEqual([
    "0 research",
    "1 applied",
    "2 nlp",
    "1 bio",
    "0 seen",
  ]);
});

test("queues in a circle are shown all the same", () => {
  const queues = [aQueue({ name: "a", parent: "b" }), aQueue({ name: "b", parent: "a" })];
  expect(queueTree(queues).map(({ queue }) => queue.name)).toEqual(["a", "b"]);
});

test("every GPU type that a queue uses, owns or may have gets its bar", () => {
  const [a100, h100] = gpuUses(
    aQueue({
      usedGpus: { H100: 40 },
      quotaGpus: { H100: 32 },
      limitGpus: { H100: 64, A100: 8 },
      borrowedGpus: { H100: 8 },
    }),
  );
  expect(a100).toEqual({ type: "A100", used: 0, borrowed: 0, quota: undefined, limit: 8 });
  expect(h100 && describeUse(h100)).toBe("40 of 32 H100, 8 borrowed, at most 64");
  expect(h100 && barEnd(h100)).toBe(64);
});
