import { type RefObject, useEffect, useLayoutEffect, useRef, useState, useSyncExternalStore } from "react";

import { useTheme } from "../../settings/theme";
import { paint, type Scene } from "./paint";
import { type Palette, readPalette } from "./palette";
import type { Size } from "./useSize";

const dark = window.matchMedia("(prefers-color-scheme: dark)");

function subscribeDark(listener: () => void): () => void {
  dark.addEventListener("change", listener);
  return () => dark.removeEventListener("change", listener);
}

/** A canvas as large as the window onto the map. It is redrawn once a frame at most, when the scene, size or theme change. */
export function useCanvas(scroller: RefObject<HTMLElement | null>, scene: Omit<Scene, "palette">, size: Size) {
  const canvas = useRef<HTMLCanvasElement>(null);
  const palette = useRef<Palette>(undefined);
  const [scrollTop, setScrollTop] = useState(0);
  const [theme] = useTheme();
  const isDark = useSyncExternalStore(subscribeDark, () => dark.matches);

  useEffect(() => {
    const element = scroller.current;
    const onScroll = () => setScrollTop(element?.scrollTop ?? 0);
    element?.addEventListener("scroll", onScroll, { passive: true });
    return () => element?.removeEventListener("scroll", onScroll);
  }, [scroller]);
  useLayoutEffect(() => {
    palette.current = undefined;
  }, [theme, isDark]);
  useLayoutEffect(() => {
    const frame = requestAnimationFrame(() => {
      if (canvas.current && scroller.current && size.width > 0) {
        palette.current ??= readPalette(scroller.current);
        draw(canvas.current, { ...scene, palette: palette.current }, size, scrollTop);
      }
    });
    return () => cancelAnimationFrame(frame);
  });
  return { canvas, scrollTop };
}

function draw(canvas: HTMLCanvasElement, scene: Scene, size: Size, scrollTop: number): void {
  const began = performance.now();
  const scale = window.devicePixelRatio;
  const [width, height] = [Math.round(size.width * scale), Math.round(size.height * scale)];
  // Setting the size clears the canvas and its memory, so it is set only when it changes.
  if (canvas.width !== width || canvas.height !== height) {
    canvas.width = width;
    canvas.height = height;
    canvas.style.width = `${size.width}px`;
    canvas.style.height = `${size.height}px`;
  }
  const context = canvas.getContext("2d");
  if (!context) return;
  context.setTransform(scale, 0, 0, scale, 0, 0);
  paint(context, scene, { top: scrollTop, ...size });
  // For tests: drawn, and in how many milliseconds.
  canvas.dataset["drawn"] = (performance.now() - began).toFixed(1);
}
