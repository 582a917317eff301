import type { Spend } from "../../api/types";
import { formatMoney, parseMicros } from "../../format/money";

/** The spend of this month; nothing if there is none in a ledger. */
export function SpendText({ spend }: { spend: Spend | null | undefined }) {
  if (!spend) return <span className="soft">–</span>;
  return <span className="tabular">{formatMoney(parseMicros(spend.amount), spend.currency)}</span>;
}
