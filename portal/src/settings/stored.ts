/** A small choice of the reader, kept in this browser. A browser that refuses storage just forgets it. */
export interface Stored<T extends string> {
  get: () => T;
  set: (next: T) => void;
  subscribe: (listener: () => void) => () => void;
}

export function stored<T extends string>(key: string, initial: T, parse: (text: string) => T | undefined): Stored<T> {
  const listeners = new Set<() => void>();
  let value = read(key, parse) ?? initial;
  return {
    get: () => value,
    set: (next) => {
      value = next;
      try {
        localStorage.setItem(key, next);
      } catch {
        // Full or forbidden: the choice holds until the page is closed.
      }
      for (const listener of listeners) listener();
    },
    subscribe: (listener) => {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
  };
}

function read<T extends string>(key: string, parse: (text: string) => T | undefined): T | undefined {
  try {
    const text = localStorage.getItem(key);
    return text === null ? undefined : parse(text);
  } catch {
    return undefined;
  }
}
