import type { NodeView } from "../../api/types";
import { NO_RACK } from "./layout";
import type { OwnerLook } from "./owners";
import type { MapSearch } from "./search";

interface Props {
  nodes: readonly NodeView[];
  looks: ReadonlyMap<string, OwnerLook>;
  search: MapSearch;
  onChange: (key: "queue" | "rack" | "type", value: string | undefined) => void;
}

export function MapFilters({ nodes, looks, search, onChange }: Props) {
  const racks = distinct(nodes.map((node) => node.rack ?? NO_RACK));
  const types = distinct(nodes.flatMap((node) => node.gpuType ?? []));
  return (
    <div className="map-filters">
      <Choice
        label="Queue"
        any="Any queue"
        options={[...looks.keys()]}
        value={search.queue}
        onChange={(value) => onChange("queue", value)}
      />
      <Choice
        label="Rack"
        any="Any rack"
        options={racks}
        value={search.rack}
        onChange={(value) => onChange("rack", value)}
      />
      <Choice
        label="GPU type"
        any="Any type"
        options={types}
        value={search.type}
        onChange={(value) => onChange("type", value)}
      />
    </div>
  );
}

interface ChoiceProps {
  label: string;
  any: string;
  options: readonly string[];
  value: string | undefined;
  onChange: (value: string | undefined) => void;
}

function Choice({ label, any, options, value, onChange }: ChoiceProps) {
  // The address may name something that does not exist now; it is still the selected value.
  const all = value && !options.includes(value) ? [...options, value] : options;
  return (
    <select
      className="input"
      aria-label={label}
      value={value ?? ""}
      onChange={(event) => onChange(event.target.value || undefined)}
    >
      <option value="">{any}</option>
      {all.map((option) => (
        <option key={option}>{option}</option>
      ))}
    </select>
  );
}

function distinct(values: readonly string[]): string[] {
  return [...new Set(values)].sort();
}
