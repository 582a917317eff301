import { SkeletonRows } from "./SkeletonRows";

export function PageSkeleton() {
  return (
    <main className="page">
      <SkeletonRows count={8} />
    </main>
  );
}
