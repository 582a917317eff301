import { QueryClientProvider } from "@tanstack/react-query";
import { createMemoryHistory, RouterProvider } from "@tanstack/react-router";
import { render } from "@testing-library/react";

import { createApp } from "../app";
import { LiveContext } from "../live/useLive";

/** The whole portal, at an address. Failed requests are not tried again, so that tests need not wait for it. */
export function open(address: string) {
  const app = createApp(createMemoryHistory({ initialEntries: [address] }));
  const { queries } = app.queryClient.getDefaultOptions();
  app.queryClient.setDefaultOptions({ queries: { ...queries, retry: false } });
  render(
    <QueryClientProvider client={app.queryClient}>
      <LiveContext value={app.live}>
        <RouterProvider router={app.router} />
      </LiveContext>
    </QueryClientProvider>,
  );
  return app;
}
