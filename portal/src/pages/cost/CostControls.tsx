import { Segmented } from "../../components/Segmented";
import { type CostSearch, GROUPINGS } from "./search";

const LABELS = {
  run: "Run",
  user: "User",
  queue: "Queue",
  namespace: "Namespace",
  day: "Day",
  class: "Class",
} as const;

interface Props {
  query: Required<CostSearch>;
  onChange: (next: CostSearch) => void;
}

export function CostControls({ query, onChange }: Props) {
  return (
    <div className="cost-controls">
      <Segmented
        legend="Sum by"
        options={GROUPINGS.map((grouping) => [grouping, LABELS[grouping]] as const)}
        value={query.by}
        onChange={(by) => onChange({ ...query, by })}
      />
      <div className="cost-days">
        <Day label="From" value={query.since} max={query.until} onChange={(since) => onChange({ ...query, since })} />
        <Day label="to" value={query.until} min={query.since} onChange={(until) => onChange({ ...query, until })} />
        <span className="soft">days in UTC</span>
      </div>
    </div>
  );
}

interface DayProps {
  label: string;
  value: string;
  min?: string;
  max?: string;
  onChange: (day: string) => void;
}

function Day({ label, value, onChange, ...bounds }: DayProps) {
  return (
    <label className="cost-day">
      <span className="soft">{label}</span>
      <input
        className="input tabular"
        type="date"
        required
        value={value}
        {...bounds}
        onChange={(event) => event.target.value && onChange(event.target.value)}
      />
    </label>
  );
}
