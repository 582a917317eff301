import type { CellState } from "./cells";
import { OWNER_COLOURS, OWNER_PATTERNS } from "./owners";

type Fill = string | CanvasPattern;

/** The page's colours as a canvas needs them: resolved for the theme, with patterns drawn. */
export interface Palette {
  text: string;
  textSoft: string;
  surface: string;
  line: string;
  lineMiddle: string;
  focus: string;
  failed: string;
  font: string;
  owners: Fill[][];
  /** Absent for squares that are only outlined. */
  states: Partial<Record<CellState, Fill>>;
}

/** Reads the style sheet's tokens through an element, so that light-dark() is resolved. */
export function readPalette(element: HTMLElement): Palette {
  const probe = document.createElement("span");
  element.append(probe);
  const resolve = (value: string) => {
    probe.style.color = value;
    return getComputedStyle(probe).color;
  };
  const colour = (token: string) => resolve(`var(--${token})`);
  const surface = colour("surface");
  const line = colour("line");
  const palette: Palette = {
    text: colour("text"),
    textSoft: colour("text-soft"),
    surface,
    line,
    lineMiddle: colour("line-middle"),
    focus: colour("focus"),
    failed: colour("failed"),
    font: getComputedStyle(element).fontFamily,
    owners: Array.from({ length: OWNER_COLOURS + 1 }, (_, index) => {
      const owner = colour(`owner-${index}`);
      // A lighter tone of itself: enough to tell patterns apart, calm enough for thousands of squares.
      const second = resolve(`color-mix(in oklab, var(--owner-${index}) 55%, var(--surface))`);
      return Array.from({ length: OWNER_PATTERNS }, (_, pattern) => patterned(pattern, owner, second));
    }),
    states: {
      Running: colour("running"),
      Starting: patterned(2, colour("starting"), surface),
      Ending: patterned(1, colour("stopped"), surface),
      NotReady: patterned(1, colour("failed"), surface),
      Unschedulable: patterned(1, line, surface),
    },
  };
  probe.remove();
  return palette;
}

/** Plain, striped or dotted. The style sheet draws the legend's swatches alike. */
function patterned(pattern: number, colour: string, background: string): Fill {
  if (pattern === 0) return colour;
  const tile = document.createElement("canvas");
  tile.width = tile.height = 6;
  const context = tile.getContext("2d");
  if (!context) return colour;
  context.fillStyle = colour;
  context.fillRect(0, 0, 6, 6);
  context.fillStyle = background;
  context.strokeStyle = background;
  if (pattern === 1) {
    context.lineWidth = 1.5;
    context.beginPath();
    for (const shift of [-6, 0, 6]) {
      context.moveTo(shift - 1, 7);
      context.lineTo(shift + 7, -1);
    }
    context.stroke();
  } else {
    context.fillRect(1, 1, 2, 2);
    context.fillRect(4, 4, 2, 2);
  }
  return context.createPattern(tile, "repeat") ?? colour;
}
