import { type KeyboardEvent, type PointerEvent, useLayoutEffect, useMemo, useRef, useState } from "react";

import type { NodeView } from "../../api/types";
import { describeNode } from "./cells";
import { layOut, neighbour, nodeAt } from "./layout";
import { NodeCard } from "./NodeCard";
import { NodeDialog } from "./NodeDialog";
import type { OwnerLook } from "./owners";
import { useCanvas } from "./useCanvas";
import { useSize } from "./useSize";

interface Props {
  nodes: readonly NodeView[];
  looks: ReadonlyMap<string, OwnerLook>;
  colourBy: "owner" | "state";
}

/**
 * The cluster as one drawing. The pointer or the arrow keys highlight a node and show its card; a click or Enter opens
 * it. A live region says what is highlighted; the table twin has everything.
 */
export function ClusterMap({ nodes, looks, colourBy }: Props) {
  const scroller = useRef<HTMLDivElement>(null);
  const size = useSize(scroller);
  const layout = useMemo(() => layOut(nodes, size.width), [nodes, size.width]);
  const [name, setName] = useState<string>();
  const [isOpen, setOpen] = useState(false);
  // By name, because live changes move nodes about.
  const found = layout.nodes.findIndex((box) => box.node.name === name);
  const highlighted = found < 0 ? undefined : found;
  const box = highlighted === undefined ? undefined : layout.nodes[highlighted];
  const { canvas, scrollTop } = useCanvas(scroller, { layout, looks, colourBy, highlighted }, size);

  const highlight = (index: number | undefined) =>
    setName(index === undefined ? undefined : layout.nodes[index]?.node.name);
  const onPointerMove = (event: PointerEvent) => {
    const element = scroller.current;
    if (!element || isOpen) return;
    const bounds = element.getBoundingClientRect();
    const index = nodeAt(layout, event.clientX - bounds.left, event.clientY - bounds.top + element.scrollTop);
    highlight(index < 0 ? undefined : index);
  };
  const onKeyDown = (event: KeyboardEvent) => {
    if (event.key === "Enter" && box) return setOpen(true);
    if (event.key === "Escape") return highlight(undefined);
    if (!event.key.startsWith("Arrow")) return;
    event.preventDefault();
    const next = highlighted === undefined ? 0 : neighbour(layout, highlighted, event.key);
    if (next !== undefined) highlight(next);
  };
  // The highlighted node stays in sight.
  useLayoutEffect(() => {
    const element = scroller.current;
    if (!element || !box) return;
    if (box.y < element.scrollTop) element.scrollTop = box.y - 40;
    else if (box.y + box.height > element.scrollTop + element.clientHeight)
      element.scrollTop = box.y + box.height + 20 - element.clientHeight;
    // Only when another node is highlighted, not when one scrolls away from it.
    // eslint-disable-next-line react-hooks/exhaustive-deps
  }, [name]);

  return (
    <div className="map-frame">
      {/* A drawing that is moved over by keys is an application in ARIA's words. */}
      {/* eslint-disable jsx-a11y/no-noninteractive-element-interactions, jsx-a11y/no-noninteractive-tabindex */}
      <div
        ref={scroller}
        className="map-scroller"
        role="application"
        aria-label="Cluster map. Arrow keys move from node to node, Enter opens one."
        tabIndex={0}
        onPointerMove={onPointerMove}
        onPointerLeave={() => !isOpen && highlight(undefined)}
        onClick={() => box && setOpen(true)}
        onFocus={(event) => event.target.matches(":focus-visible") && highlighted === undefined && highlight(0)}
        onBlur={() => !isOpen && highlight(undefined)}
        onKeyDown={onKeyDown}
      >
        <div className="map-extent" style={{ height: layout.height }}>
          <canvas ref={canvas} className="map-canvas" aria-hidden="true" />
        </div>
      </div>
      {/* eslint-enable jsx-a11y/no-noninteractive-element-interactions, jsx-a11y/no-noninteractive-tabindex */}
      {box && !isOpen && <NodeCard box={box} scrollTop={scrollTop} size={size} />}
      <p className="visually-hidden" role="status">
        {box && describeNode(box.node)}
      </p>
      {box && isOpen && <NodeDialog node={box.node} onClose={() => setOpen(false)} />}
    </div>
  );
}
