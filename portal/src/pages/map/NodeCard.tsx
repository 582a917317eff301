import type { NodeBox } from "./layout";
import { NodeFacts } from "./NodeFacts";
import type { Size } from "./useSize";

const CARD_WIDTH = 260;
// About the height of a card with four holders; the window's edge pushes a taller one up.
const CARD_HEIGHT = 170;

interface Props {
  box: NodeBox;
  scrollTop: number;
  size: Size;
}

/** A card about the highlighted node, next to it. */
export function NodeCard({ box, scrollTop, size }: Props) {
  const right = box.x + box.width + 12;
  const left = right + CARD_WIDTH <= size.width ? right : Math.max(0, box.x - CARD_WIDTH - 12);
  const top = Math.max(0, Math.min(box.y - scrollTop, size.height - CARD_HEIGHT));
  return (
    <div
      className="node-card"
      style={{ width: CARD_WIDTH, transform: `translate(${left}px, ${top}px)` }}
      aria-hidden="true"
    >
      <strong>{box.node.name}</strong>
      <NodeFacts node={box.node} />
    </div>
  );
}
