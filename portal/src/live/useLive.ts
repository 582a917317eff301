import { createContext, useContext, useEffect, useSyncExternalStore } from "react";

import { eventsAddress, type Interest, type LiveConnection, type LiveState } from "./connection";

export const LiveContext = createContext<LiveConnection | null>(null);

/** Keeps this page's data up to date by events, as long as the page is open. */
export function useLive(interest: Interest): void {
  const connection = useConnection();
  const address = eventsAddress(interest);
  useEffect(() => {
    connection.open(interest);
    return () => connection.close();
    // The address has the same information as the interest.
    // eslint-disable-next-line react-hooks/exhaustive-deps
  }, [connection, address]);
}

export function useLiveState(): LiveState {
  const connection = useConnection();
  return useSyncExternalStore(connection.subscribe, connection.state);
}

function useConnection(): LiveConnection {
  const connection = useContext(LiveContext);
  if (!connection) throw new Error("LiveContext is missing above this component");
  return connection;
}
