export function Brand() {
  return (
    <div className="brand">
      <img src="/favicon.svg" alt="" width="24" height="24" />
      Warpyard
    </div>
  );
}
