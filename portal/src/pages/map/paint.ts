// Draws the part of the map that is in sight. 8,000 squares are one element and about 2 ms this way; as elements of
// their own they took 357 ms to create and lay out, before React did anything.
import { type Cell, nodeCells } from "./cells";
import { CELL_GAP, CELLS_PER_LINE, type Layout, NAMED_CELL, NODE_TITLE, type NodeBox, RACK_TITLE } from "./layout";
import type { OwnerLook } from "./owners";
import type { Palette } from "./palette";

export interface Scene {
  layout: Layout;
  palette: Palette;
  looks: ReadonlyMap<string, OwnerLook>;
  colourBy: "owner" | "state";
  /** The node that has the focus or the pointer. */
  highlighted: number | undefined;
}

/** The window onto the map. */
export interface Sight {
  top: number;
  width: number;
  height: number;
}

export function paint(context: CanvasRenderingContext2D, scene: Scene, sight: Sight): void {
  const { layout, palette } = scene;
  const isInSight = (box: { y: number; height: number }) =>
    box.y + box.height >= sight.top && box.y <= sight.top + sight.height;
  context.clearRect(0, 0, sight.width, sight.height);
  context.save();
  context.translate(0, -sight.top);
  for (const rack of layout.racks) {
    if (!isInSight(rack)) continue;
    context.fillStyle = palette.surface;
    context.strokeStyle = palette.line;
    context.lineWidth = 1;
    context.beginPath();
    context.roundRect(rack.x + 0.5, rack.y + 0.5, rack.width - 1, rack.height - 1, 6);
    context.fill();
    context.stroke();
    context.fillStyle = palette.textSoft;
    context.font = `500 11px ${palette.font}`;
    context.fillText(fitted(context, rack.name, rack.width - 20), rack.x + 10, rack.y + RACK_TITLE - 2);
  }
  layout.nodes.forEach((box, index) => {
    if (isInSight(box)) paintNode(context, scene, box, index === scene.highlighted);
  });
  context.restore();
}

function paintNode(context: CanvasRenderingContext2D, scene: Scene, box: NodeBox, isHighlighted: boolean): void {
  const { palette, layout } = scene;
  const { cell } = layout;
  const title = cell >= NAMED_CELL ? NODE_TITLE : 0;
  if (title) {
    context.fillStyle = palette.text;
    context.font = `500 11px ${palette.font}`;
    context.fillText(fitted(context, box.node.name, box.width), box.x, box.y + 11);
  }
  const cells = nodeCells(box.node);
  cells.forEach((each, index) => {
    const x = box.x + (index % CELLS_PER_LINE) * (cell + CELL_GAP);
    const y = box.y + title + Math.floor(index / CELLS_PER_LINE) * (cell + CELL_GAP);
    paintCell(context, scene, each, x, y, cell);
  });
  if (cells.length === 0) {
    context.fillStyle = palette.line;
    context.fillRect(box.x, box.y + title + cell / 2, box.width, 1);
  }
  if (isHighlighted) {
    context.strokeStyle = palette.focus;
    context.lineWidth = 2;
    context.strokeRect(box.x - 3, box.y - 3, box.width + 6, box.height + 6);
  }
}

function paintCell(
  context: CanvasRenderingContext2D,
  scene: Scene,
  cell: Cell,
  x: number,
  y: number,
  size: number,
): void {
  const { palette } = scene;
  const look = cell.owner === undefined ? undefined : scene.looks.get(cell.owner);
  if (scene.colourBy === "owner" && look && cell.state !== "NotReady") {
    context.fillStyle = palette.owners[look.colour]?.[look.pattern] ?? palette.textSoft;
    context.fillRect(x, y, size, size);
    return;
  }
  const fill = palette.states[cell.state];
  if (fill) {
    context.fillStyle = fill;
    context.fillRect(x, y, size, size);
  }
  if (cell.state === "Free" || cell.state === "Unschedulable" || cell.state === "NotReady") {
    context.strokeStyle = cell.state === "NotReady" ? palette.failed : palette.lineMiddle;
    context.lineWidth = 1;
    context.strokeRect(x + 0.5, y + 0.5, size - 1, size - 1);
  }
}

/** The text, cut to the width. */
function fitted(context: CanvasRenderingContext2D, text: string, width: number): string {
  if (context.measureText(text).width <= width) return text;
  let end = text.length;
  while (end > 1 && context.measureText(`${text.slice(0, end)}…`).width > width) end -= 1;
  return `${text.slice(0, end)}…`;
}
