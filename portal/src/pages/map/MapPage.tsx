import "./map.css";

import { useQuery } from "@tanstack/react-query";
import { useNavigate, useSearch } from "@tanstack/react-router";
import { useMemo } from "react";

import { nodesQuery } from "../../api/queries";
import { EmptyNote } from "../../components/EmptyNote";
import { PageHeading } from "../../components/PageHeading";
import { ProblemNote } from "../../components/ProblemNote";
import { Segmented } from "../../components/Segmented";
import { SkeletonRows } from "../../components/SkeletonRows";
import { ViewToggle } from "../../components/ViewToggle";
import { useLive } from "../../live/useLive";
import { ClusterMap } from "./ClusterMap";
import { MapFilters } from "./MapFilters";
import { MapLegend } from "./MapLegend";
import { matchesMapSearch } from "./matches";
import { NodeTable } from "./NodeTable";
import { ownerLooks } from "./owners";
import type { MapSearch } from "./search";

/** All GPUs and their occupants: rack, node, GPU. */
export function MapPage() {
  const search = useSearch({ from: "/shell/map" });
  const navigate = useNavigate({ from: "/map" });
  const nodes = useQuery(nodesQuery);
  useLive({ topics: ["nodes"] });
  const all = useMemo(() => nodes.data ?? [], [nodes.data]);
  // Looks are assigned from all nodes, so that a filter does not change a colour.
  const looks = useMemo(() => ownerLooks(all), [all]);
  const shown = useMemo(() => all.filter((node) => matchesMapSearch(node, search)), [all, search]);
  const colourBy = search.colour ?? "owner";

  const go = (next: MapSearch) => void navigate({ search: next, replace: true });
  const set = <K extends keyof MapSearch>(key: K, value: MapSearch[K]) => {
    const next = { ...search };
    delete next[key];
    go(value === undefined ? next : { ...next, [key]: value });
  };
  return (
    <div className="page page-full">
      <div className="page-head">
        <PageHeading title="Cluster" />
        <div className="page-head-actions">
          {search.view !== "table" && (
            <Segmented
              legend="Colour by"
              options={[
                ["owner", "By owner"],
                ["state", "By state"],
              ]}
              value={colourBy}
              onChange={(value) => set("colour", value === "state" ? "state" : undefined)}
            />
          )}
          <ViewToggle picture="Map" view={search.view} onChange={(view) => set("view", view)} />
        </div>
      </div>
      <MapFilters nodes={all} looks={looks} search={search} onChange={set} />
      {nodes.isPending ? (
        <SkeletonRows count={10} height={28} />
      ) : nodes.isError && !nodes.data ? (
        <ProblemNote error={nodes.error} onRetry={() => void nodes.refetch()} />
      ) : shown.length === 0 ? (
        <EmptyNote title={all.length === 0 ? "No nodes" : "No node matches"}>
          {all.length > 0 && (
            <button type="button" className="button" onClick={() => go({})}>
              Clear the filters
            </button>
          )}
        </EmptyNote>
      ) : search.view === "table" ? (
        <NodeTable nodes={shown} />
      ) : (
        <>
          <MapLegend nodes={shown} looks={looks} colourBy={colourBy} />
          <ClusterMap nodes={shown} looks={looks} colourBy={colourBy} />
        </>
      )}
    </div>
  );
}
