import type { Spend } from "../../api/types";
import { formatMoney, parseMicros } from "../../format/money";

/** What was spent this month; nothing is said until a ledger has. */
export function SpendText({ spend }: { spend: Spend | null | undefined }) {
  if (!spend) return <span className="soft">–</span>;
  return <span className="tabular">{formatMoney(parseMicros(spend.amount), spend.currency)}</span>;
}
