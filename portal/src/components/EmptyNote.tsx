import type { ReactNode } from "react";

import { Icon } from "./Icon";

/** Says that there is nothing, and what would change that. */
export function EmptyNote({ title, children }: { title: string; children?: ReactNode }) {
  return (
    <div className="note">
      <Icon name="empty" size={24} />
      <h2>{title}</h2>
      {children}
    </div>
  );
}
