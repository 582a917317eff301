import type { NodeView } from "../../api/types";
import { Dialog } from "../../components/Dialog";
import { NodeFacts } from "./NodeFacts";

/** One node, with links to the runs on it. */
export function NodeDialog({ node, onClose }: { node: NodeView; onClose: () => void }) {
  return (
    <Dialog title={node.name} onClose={onClose}>
      <NodeFacts node={node} withLinks />
      <div className="dialog-actions">
        <button type="button" className="button" onClick={onClose}>
          Close
        </button>
      </div>
    </Dialog>
  );
}
