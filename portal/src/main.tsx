import "./styles/index.css";

import { QueryClientProvider } from "@tanstack/react-query";
import { RouterProvider } from "@tanstack/react-router";
import { StrictMode } from "react";
import { createRoot } from "react-dom/client";

import { createApp } from "./app";
import { LiveContext } from "./live/useLive";
import { applyTheme } from "./settings/theme";

applyTheme();
const { queryClient, live, router } = createApp();

createRoot(document.getElementById("root")!).render(
  <StrictMode>
    <QueryClientProvider client={queryClient}>
      <LiveContext value={live}>
        <RouterProvider router={router} />
      </LiveContext>
    </QueryClientProvider>
  </StrictMode>,
);
