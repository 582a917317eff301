// Short names for the messages of the API. The shapes are generated; nothing is declared here.
import type { components } from "./schema";

type Schemas = components["schemas"];

export type RunSummary = Schemas["RunSummary"];
export type RunView = Schemas["RunView"];
export type RunPhase = Schemas["RunPhase"];
export type Reason = Schemas["Reason"];
export type Attempt = Schemas["Attempt"];
export type AttemptOutcome = Schemas["AttemptOutcome"];
export type LostWork = Schemas["LostWork"];
export type Progress = Schemas["Progress"];
export type Outlook = Schemas["Outlook"];
export type StartForecast = Schemas["StartForecast"];
export type Why = Schemas["Why"];
export type QueueView = Schemas["QueueView"];
export type Spend = Schemas["Spend"];
export type WhoAmI = Schemas["WhoAmI"];
export type Problem = Schemas["Problem"];
export type CapacityView = Schemas["CapacityView"];
export type LaunchView = Schemas["LaunchView"];
export type GangName = Schemas["GangName"];
export type BoughtMachines = Schemas["BoughtMachines"];
export type SpendingView = Schemas["SpendingView"];
export type OrderedMachines = Schemas["OrderedMachines"];
export type Cost = Schemas["Cost"];
export type CostGrouping = Schemas["CostGrouping"];
export type CostReport = Schemas["CostReport"];
export type MemberState = Schemas["MemberState"];
export type MemberView = Schemas["MemberView"];
export type NodeView = Schemas["NodeView"];
export type Occupant = Schemas["Occupant"];
export type RunCostView = Schemas["RunCostView"];
export type UsageClass = Schemas["UsageClass"];

/** One page of a list. */
export interface Page<T> {
  items: T[];
  continue?: string | null;
}
