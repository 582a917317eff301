// Machines in words and in parts. Pure.
import type { BoughtMachines, CapacityView, GangName, OrderedMachines, SpendingView } from "../../api/types";
import { formatDuration } from "../../format/duration";
import { formatMoney, parseMicros } from "../../format/money";
import { counted } from "../../format/number";

export const PARTS = ["starting", "busy", "idle", "leaving"] as const;
export type Part = (typeof PARTS)[number];

/** The states of the machines of one type: each machine counts once. */
export function partsOf({ count, starting, idle, leaving }: BoughtMachines): Record<Part, number> {
  return { starting, busy: Math.max(0, count - starting - idle - leaving), idle, leaving };
}

/** `3 × h100 spot in a/r1`. */
export function orderedText({ count, machineType, capacityType, zone, block, rack }: OrderedMachines): string {
  const place = [zone, block, rack].filter(Boolean).join("/");
  return `${count} × ${machineType} ${capacityType} in ${place}`;
}

/** The run's name if there is a run: that is what people submitted. */
export function gangText(gang: GangName): string {
  return `${gang.namespace}/${gang.run ?? gang.name}`;
}

/** `in 1m 30s`, or how late it is: machines may take longer than they should. */
export function readyText(readyBy: string, now: number): string {
  const seconds = Math.floor((Date.parse(readyBy) - now) / 1000);
  return seconds >= 0 ? `in ${formatDuration(seconds)}` : `${formatDuration(-seconds)} late`;
}

/** `12 of at most 16 machines, 352.80 of at most 500.00 an hour.` */
export function spendingText({ machines, mostMachines, perHour, mostPerHour }: SpendingView): string {
  const money = (amount: string) => formatMoney(parseMicros(amount), undefined);
  return `${machines} of at most ${mostMachines} machines, ${money(perHour)} of at most ${money(mostPerHour)} an hour.`;
}

/** Sentences about entries that are not shown. */
export function unshownTexts({ buying, buyingInAll, refused, refusedInAll, fromPools }: CapacityView): string[] {
  const texts: string[] = [];
  if (fromPools > 0) {
    const wait = fromPools === 1 ? "waits" : "wait";
    texts.push(`${counted(fromPools, "gang")} of one ${wait} for a pool of Karpenter to buy a node.`);
  }
  const launches = Math.max(0, buyingInAll - buying.length);
  const refusals = Math.max(0, refusedInAll - refused.length);
  const hidden = [
    ...(launches > 0 ? [counted(launches, "more launch", "more launches")] : []),
    ...(refusals > 0 ? [`${counted(refusals, "more gang")} for which nothing is bought`] : []),
  ];
  if (hidden.length > 0) {
    const are = launches + refusals === 1 ? "is" : "are";
    texts.push(`${hidden.join(" and ")} ${are} not shown: too many, or of teams that you may not see.`);
  }
  return texts;
}
