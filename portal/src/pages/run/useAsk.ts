import { useMutation, useQueryClient } from "@tanstack/react-query";

import { answer, api } from "../../api/client";
import { keys } from "../../api/queries";
import type { RunView } from "../../api/types";

export type Ask = "stop" | "pause" | "resume" | "retry";

/** Sends a request to change a run; the answer is shown at once. */
export function useAsk({ namespace, name }: RunView, ask: Ask, onDone: () => void = () => undefined) {
  const queryClient = useQueryClient();
  return useMutation({
    mutationFn: () =>
      answer(api.POST(`/v1/namespaces/{namespace}/runs/{name}/${ask}`, { params: { path: { namespace, name } } })),
    onSuccess: (run) => {
      queryClient.setQueryData(keys.run(namespace, name), run);
      onDone();
    },
  });
}
