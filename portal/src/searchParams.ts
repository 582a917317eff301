// The part of an address behind `?`, as plain text: `?queue=nlp&phase=Running`, which people can read and write.

export function parseAddress(search: string): Record<string, string> {
  return Object.fromEntries(new URLSearchParams(search));
}

export function stringifyAddress(search: Record<string, unknown>): string {
  const query = new URLSearchParams();
  for (const [key, value] of Object.entries(search)) {
    if (typeof value === "string" && value !== "") query.set(key, value);
  }
  const text = query.toString();
  return text && `?${text}`;
}
