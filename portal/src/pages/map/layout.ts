import type { NodeView } from "../../api/types";

/** Where everything on the map is, in CSS pixels from its top left. */
export interface Layout {
  cell: number;
  racks: RackBox[];
  nodes: NodeBox[];
  height: number;
}

export interface RackBox {
  name: string;
  x: number;
  y: number;
  width: number;
  height: number;
}

export interface NodeBox {
  node: NodeView;
  x: number;
  y: number;
  width: number;
  height: number;
}

export const CELLS_PER_LINE = 8;
export const CELL_GAP = 2;
export const NO_RACK = "no rack";
export const RACK_TITLE = 22;
const RACK_PADDING = 10;
const RACK_GAP = 12;
const NODE_GAP = 4;
/** From this size of a square on, names are written above nodes. */
export const NAMED_CELL = 16;
export const NODE_TITLE = 17;

/** Fewer nodes get larger squares. */
export function cellSize(nodes: number): number {
  return nodes <= 48 ? 20 : nodes <= 300 ? 13 : 9;
}

/** Racks side by side, as many as fit; in each its nodes from the top, by name. */
export function layOut(nodes: readonly NodeView[], width: number): Layout {
  const cell = cellSize(nodes.length);
  const columns = Math.min(CELLS_PER_LINE, Math.max(1, ...nodes.map((node) => node.gpus)));
  const nodeWidth = columns * (cell + CELL_GAP) - CELL_GAP;
  const rackWidth = nodeWidth + 2 * RACK_PADDING;
  const perRow = Math.max(1, Math.floor((width + RACK_GAP) / (rackWidth + RACK_GAP)));
  // The rest of the width goes between the racks, so that they fill the page.
  const left = width - perRow * rackWidth;
  const gap = perRow > 1 ? Math.min(left / (perRow - 1), 3 * RACK_GAP) : RACK_GAP;
  const layout: Layout = { cell, racks: [], nodes: [], height: 0 };
  let y = 0;
  let rowHeight = 0;
  racksOf(nodes).forEach(([name, members], index) => {
    const column = index % perRow;
    if (column === 0 && index > 0) {
      y += rowHeight + RACK_GAP;
      rowHeight = 0;
    }
    const x = Math.round(column * (rackWidth + gap));
    const boxes = placeNodes(members, x + RACK_PADDING, y + RACK_TITLE + RACK_PADDING, nodeWidth, cell);
    const last = boxes.at(-1);
    const height = (last ? last.y + last.height - y : RACK_TITLE) + RACK_PADDING;
    layout.racks.push({ name, x, y, width: rackWidth, height });
    layout.nodes.push(...boxes);
    rowHeight = Math.max(rowHeight, height);
  });
  layout.height = y + rowHeight;
  return layout;
}

function placeNodes(nodes: readonly NodeView[], x: number, top: number, width: number, cell: number): NodeBox[] {
  let y = top;
  return nodes.map((node) => {
    const lines = Math.max(1, Math.ceil(node.gpus / CELLS_PER_LINE));
    const title = cell >= NAMED_CELL ? NODE_TITLE : 0;
    const height = title + lines * (cell + CELL_GAP) - CELL_GAP;
    const box = { node, x, y, width, height };
    y += height + (title ? 2 * NODE_GAP : NODE_GAP);
    return box;
  });
}

/** Racks by name, those without one last. */
function racksOf(nodes: readonly NodeView[]): [string, NodeView[]][] {
  const racks = new Map<string, NodeView[]>();
  for (const node of nodes) {
    const rack = node.rack ?? NO_RACK;
    const members = racks.get(rack);
    if (members) members.push(node);
    else racks.set(rack, [node]);
  }
  const isLast = (name: string) => (name === NO_RACK ? 1 : 0);
  return [...racks].sort(([a], [b]) => isLast(a) - isLast(b) || (a < b ? -1 : 1));
}

/** The node at a point, with half the gap around it. */
export function nodeAt(layout: Layout, x: number, y: number): number {
  const edge = NODE_GAP / 2;
  return layout.nodes.findIndex(
    (box) => x >= box.x - edge && x < box.x + box.width + edge && y >= box.y - edge && y < box.y + box.height + edge,
  );
}

const DIRECTIONS: Record<string, [number, number]> = {
  ArrowLeft: [-1, 0],
  ArrowRight: [1, 0],
  ArrowUp: [0, -1],
  ArrowDown: [0, 1],
};

/** The nearest node in the direction of an arrow key; straight on counts more than near. */
export function neighbour(layout: Layout, from: number, key: string): number | undefined {
  const direction = DIRECTIONS[key];
  const start = layout.nodes[from];
  if (!direction || !start) return undefined;
  const [dx, dy] = direction;
  let best: number | undefined;
  let bestCost = Infinity;
  layout.nodes.forEach((box, index) => {
    const along = (box.x - start.x) * dx + (box.y - start.y) * dy;
    const across = Math.abs((box.x - start.x) * dy) + Math.abs((box.y - start.y) * dx);
    const cost = along + 4 * across;
    if (along > 0 && cost < bestCost) {
      best = index;
      bestCost = cost;
    }
  });
  return best;
}
