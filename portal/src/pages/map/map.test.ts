import { expect, test } from "vitest";

import type { NodeView } from "../../api/types";
import { aNode } from "../../testing/objects";
import { describeNode, nodeCells } from "./cells";
import { layOut, neighbour, nodeAt } from "./layout";
import { matchesMapSearch } from "./matches";
import { ownerLooks } from "./owners";
import { parseMapSearch } from "./search";

const held = (gpus: number, queue: string, state: "Running" | "Starting" = "Running") => ({
  gpus,
  queue,
  namespace: queue,
  state,
});
const states = (node: NodeView) => nodeCells(node).map((cell) => cell.owner ?? cell.state);

test("a node's squares are those that are held, then the rest", () => {
  expect(states(aNode({ gpus: 4, occupants: [held(2, "nlp"), held(1, "bio")] }))).toEqual([
    "nlp",
    "nlp",
    "bio",
    "Free",
  ]);
  expect(states(aNode({ gpus: 1, schedulable: false }))).toEqual(["Unschedulable"]);
  expect(states(aNode({ gpus: 1, ready: false }))).toEqual(["NotReady"]);
  expect(states(aNode({ gpus: 1, occupants: [{ gpus: 1, state: "Running" }] }))).toEqual(["others"]);
});

test("a node that holds more than it offers shows what it offers", () => {
  expect(nodeCells(aNode({ gpus: 2, occupants: [held(4, "nlp")] }))).toHaveLength(2);
});

test("a node in words has all that the squares have", () => {
  const node = aNode({
    name: "n1",
    rack: "r1",
    gpuType: "H100",
    schedulable: false,
    occupants: [held(2, "nlp", "Starting")],
  });
  expect(describeNode(node)).toBe("n1 in r1, takes no new pods: 2 of 8 H100 held; 2 starting for nlp");
});

test("owners look different from each other, up to 24 of them, and keep their look", () => {
  const names = Array.from({ length: 24 }, (_, index) => `queue-${index}`);
  const looks = ownerLooks(names.map((name) => aNode({ name, occupants: [held(1, name)] })));
  expect(new Set([...looks.values()].map(({ colour, pattern }) => `${colour} ${pattern}`)).size).toBe(24);
  const alone = ownerLooks([aNode({ occupants: [held(3, "nlp")] })]);
  const among = ownerLooks([aNode({ occupants: [held(3, "nlp"), held(1, "zzz")] })]);
  expect(among.get("nlp")).toEqual(alone.get("nlp"));
});

test("racks stand side by side, and every node is where the pointer finds it", () => {
  const nodes = Array.from({ length: 64 }, (_, index) =>
    aNode({ name: `node-${index}`, rack: `rack-${Math.floor(index / 8)}` }),
  );
  const layout = layOut(nodes, 600);
  expect(layout.racks).toHaveLength(8);
  expect(layout.racks.every((rack) => rack.x + rack.width <= 600)).toBe(true);
  layout.nodes.forEach((box, index) => expect(nodeAt(layout, box.x + 1, box.y + 1)).toBe(index));
  expect(nodeAt(layout, 0, 0)).toBe(-1);
});

test("arrow keys go to the node that is next in their direction", () => {
  const nodes = ["a1", "a2", "b1", "b2"].map((name) => aNode({ name, rack: name.charAt(0) }));
  const layout = layOut(nodes, 1000);
  const go = (from: string, key: string) => {
    const index = neighbour(
      layout,
      layout.nodes.findIndex((box) => box.node.name === from),
      key,
    );
    return index === undefined ? undefined : layout.nodes[index]?.node.name;
  };
  expect(go("a1", "ArrowDown")).toBe("a2");
  expect(go("a2", "ArrowRight")).toBe("b2");
  expect(go("b2", "ArrowUp")).toBe("b1");
  expect(go("b1", "ArrowLeft")).toBe("a1");
  expect(go("a1", "ArrowLeft")).toBeUndefined();
});

test("filters of the map come from its address", () => {
  const node = aNode({ rack: "r1", gpuType: "H100", occupants: [held(1, "nlp")] });
  expect(matchesMapSearch(node, parseMapSearch({ rack: "r1", type: "H100", queue: "nlp" }))).toBe(true);
  expect(matchesMapSearch(node, parseMapSearch({ queue: "bio" }))).toBe(false);
  expect(matchesMapSearch(aNode(), parseMapSearch({ rack: "no rack" }))).toBe(true);
  expect(parseMapSearch({ view: "table", colour: "state", rack: " " })).toEqual({ view: "table", colour: "state" });
});
