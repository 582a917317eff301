import { Outlet } from "@tanstack/react-router";

import { Account } from "./Account";
import { Brand } from "./Brand";
import { LiveStatus } from "./LiveStatus";
import { Navigation } from "./Navigation";
import { ShortcutHelp } from "./ShortcutHelp";

/** The frame of every page: navigation, the user, and whether the data is current. */
export function Shell() {
  return (
    <div className="shell">
      <a className="button skip-link" href="#main">
        Skip to content
      </a>
      <header className="side">
        <div className="side-top">
          <Brand />
        </div>
        <Navigation />
        <div className="side-end">
          <LiveStatus />
          <Account />
        </div>
      </header>
      <main id="main" className="main" tabIndex={-1}>
        <Outlet />
      </main>
      <ShortcutHelp />
    </div>
  );
}
