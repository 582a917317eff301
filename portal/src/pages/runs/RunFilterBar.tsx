import { useQuery } from "@tanstack/react-query";
import { useCallback, useRef } from "react";

import { queuesQuery, whoamiQuery } from "../../api/queries";
import { isFiltered, RUN_PHASES, type RunFilters } from "../../api/runFilters";
import type { RunPhase } from "../../api/types";
import { Icon } from "../../components/Icon";
import { useShortcuts } from "../../settings/shortcuts";
import { FilterField } from "./FilterField";

interface Props {
  filters: RunFilters;
  onChange: (filters: RunFilters) => void;
}

/** The filters in the page's address. `/` goes to the search. */
export function RunFilterBar({ filters, onChange }: Props) {
  const searchField = useRef<HTMLInputElement>(null);
  const { data: whoami } = useQuery(whoamiQuery);
  // Only for suggestions: without the right to list queues, people type the name.
  const { data: queues = [] } = useQuery({ ...queuesQuery, retry: false });
  const namespaces = [...new Set(queues.flatMap((queue) => queue.namespaces))].sort();

  useShortcuts(
    useCallback((key) => {
      if (key !== "/") return false;
      searchField.current?.focus();
      return true;
    }, []),
  );

  const set = (key: keyof RunFilters, text: string) => {
    const next: RunFilters = { ...filters };
    delete next[key];
    onChange(text.trim() ? { ...next, [key]: text.trim() } : next);
  };
  return (
    <form className="filters" role="search" aria-label="Runs" onSubmit={(event) => event.preventDefault()}>
      <div className="filters-search">
        <Icon name="search" />
        <FilterField
          ref={searchField}
          label="Search"
          placeholder="Search by name"
          value={filters.search}
          onChange={(text) => set("search", text)}
        />
      </div>
      <select
        className="input"
        aria-label="State"
        value={filters.phase ?? ""}
        onChange={(event) => set("phase", event.target.value as RunPhase | "")}
      >
        <option value="">Any state</option>
        {RUN_PHASES.map((phase) => (
          <option key={phase}>{phase}</option>
        ))}
      </select>
      <FilterField
        label="Queue"
        placeholder="Any queue"
        value={filters.queue}
        suggestions={queues.map((queue) => queue.name)}
        onChange={(text) => set("queue", text)}
      />
      <FilterField
        label="Namespace"
        placeholder="Any namespace"
        value={filters.namespace}
        suggestions={namespaces}
        onChange={(text) => set("namespace", text)}
      />
      <FilterField
        label="User"
        placeholder="Any user"
        value={filters.user}
        suggestions={whoami ? [whoami.username] : []}
        onChange={(text) => set("user", text)}
      />
      {isFiltered(filters) && (
        <button type="button" className="button button-plain" onClick={() => onChange({})}>
          <Icon name="close" />
          Clear
        </button>
      )}
    </form>
  );
}
