/** Grey bars in the place and size of rows, so that nothing jumps when the rows load. */
export function SkeletonRows({ count, height = 20 }: { count: number; height?: number }) {
  return (
    <div className="skeleton-rows" role="status">
      <span className="visually-hidden">Loading</span>
      {Array.from({ length: count }, (_, index) => (
        <span key={index} className="skeleton" style={{ height, width: `${92 - ((index * 17) % 40)}%` }} />
      ))}
    </div>
  );
}
