import { Segmented } from "./Segmented";

interface Props {
  picture: string;
  view: "table" | undefined;
  onChange: (view: "table" | undefined) => void;
}

/** Picture or table: the same data. */
export function ViewToggle({ picture, view, onChange }: Props) {
  return (
    <Segmented
      legend="Show as"
      options={[
        ["picture", picture],
        ["table", "Table"],
      ]}
      value={view ?? "picture"}
      onChange={(next) => onChange(next === "table" ? "table" : undefined)}
    />
  );
}
