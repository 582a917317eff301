import { barEnd, describeUse, type GpuUse } from "./queueTree";

/** Used and borrowed GPUs of one type, with the quota as a mark. The text next to it says the same. */
export function GpuBar({ use }: { use: GpuUse }) {
  const end = barEnd(use);
  const percent = (count: number) => `${(100 * count) / end}%`;
  return (
    <div className="gpu-bar">
      <div className="gpu-track" aria-hidden="true">
        <span className="bar-used" style={{ width: percent(use.used - use.borrowed) }} />
        <span className="bar-borrowed" style={{ width: percent(use.borrowed) }} />
        {use.quota !== undefined && use.quota < end && (
          <span className="gpu-quota" style={{ left: percent(use.quota) }} />
        )}
      </div>
      <span className="gpu-text tabular">{describeUse(use)}</span>
    </div>
  );
}
