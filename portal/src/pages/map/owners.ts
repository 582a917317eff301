import type { NodeView } from "../../api/types";
import { OTHERS, ownerOf } from "./cells";

/** Colours for owners; one more, the last, is for those whose names are hidden. */
export const OWNER_COLOURS = 8;
export const OWNER_PATTERNS = 3;
const SLOTS = OWNER_COLOURS * OWNER_PATTERNS;

/** How an owner is drawn: a colour and a pattern, so that colour is never alone. */
export interface OwnerLook {
  colour: number;
  pattern: number;
  gpus: number;
}

/** The looks of all owners on the map. A name keeps its look, unless two names want the same one. */
export function ownerLooks(nodes: readonly NodeView[]): Map<string, OwnerLook> {
  const gpus = new Map<string, number>();
  for (const node of nodes) {
    for (const occupant of node.occupants) {
      const owner = ownerOf(occupant);
      gpus.set(owner, (gpus.get(owner) ?? 0) + occupant.gpus);
    }
  }
  const taken = new Set<number>();
  const looks = new Map<string, OwnerLook>();
  for (const owner of [...gpus.keys()].sort()) {
    if (owner === OTHERS) {
      looks.set(owner, { colour: OWNER_COLOURS, pattern: 0, gpus: gpus.get(owner) ?? 0 });
      continue;
    }
    let slot = hash(owner) % SLOTS;
    // More owners than slots share looks; the cards and the table tell them apart.
    while (taken.has(slot) && taken.size < SLOTS) slot = (slot + 1) % SLOTS;
    taken.add(slot);
    looks.set(owner, { ...lookOf(slot), gpus: gpus.get(owner) ?? 0 });
  }
  return looks;
}

/** Every slot is another pair: neighbours differ in both, and a colour comes back with another pattern. */
function lookOf(slot: number): { colour: number; pattern: number } {
  const colour = slot % OWNER_COLOURS;
  const round = Math.floor(slot / OWNER_COLOURS);
  return { colour, pattern: (colour + round) % OWNER_PATTERNS };
}

/** FNV-1a. */
function hash(text: string): number {
  let value = 2_166_136_261;
  for (let index = 0; index < text.length; index += 1) value = Math.imul(value ^ text.charCodeAt(index), 16_777_619);
  return value >>> 0;
}
