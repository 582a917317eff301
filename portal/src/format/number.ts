const whole = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });
const tenths = new Intl.NumberFormat("en", { minimumFractionDigits: 1, maximumFractionDigits: 1 });

export function formatCount(count: number): string {
  return whole.format(count);
}

/** `1 GPU`, `1,024 GPUs`. */
export function counted(count: number, one: string, many = `${one}s`): string {
  return `${formatCount(count)} ${count === 1 ? one : many}`;
}

/** GPU seconds as hours with one place. */
export function formatGpuHours(gpuSeconds: number): string {
  return tenths.format(gpuSeconds / 3600);
}
