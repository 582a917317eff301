import { useQuery, useQueryClient } from "@tanstack/react-query";
import { useNavigate } from "@tanstack/react-router";

import { answer, api } from "../api/client";
import { whoamiQuery } from "../api/queries";
import { Icon } from "../components/Icon";
import { Segmented } from "../components/Segmented";
import { THEMES, useTheme } from "../settings/theme";
import { openShortcutHelp } from "./shortcutHelpState";

const THEME_LABELS = { light: "Light", dark: "Dark", system: "System" } as const;

/** The user, the theme, and the logout. */
export function Account() {
  const { data: whoami } = useQuery(whoamiQuery);
  const [theme, chooseTheme] = useTheme();
  const logOut = useLogOut();
  const username = whoami?.username ?? "";
  return (
    <>
      <button type="button" className="account-button" popoverTarget="account" aria-label={`Account of ${username}`}>
        <Icon name="person" size={17} />
        <span className="truncate">{shortName(username)}</span>
      </button>
      <div id="account" className="account" popover="auto">
        <div>
          <p className="soft">Logged in as</p>
          <p className="account-name">{username}</p>
        </div>
        <div>
          <p className="soft">Theme</p>
          <Segmented
            legend="Theme"
            options={THEMES.map((theme) => [theme, THEME_LABELS[theme]] as const)}
            value={theme}
            onChange={chooseTheme}
          />
        </div>
        <div className="account-actions">
          <button
            type="button"
            className="button"
            popoverTarget="account"
            popoverTargetAction="hide"
            onClick={openShortcutHelp}
          >
            Keyboard shortcuts
          </button>
          <button type="button" className="button" onClick={() => void logOut()}>
            Log out
          </button>
        </div>
      </div>
    </>
  );
}

/** Service accounts have long names; their last part tells them apart. */
function shortName(username: string): string {
  return username.split(":").at(-1) ?? username;
}

function useLogOut(): () => Promise<void> {
  const queryClient = useQueryClient();
  const navigate = useNavigate();
  return async () => {
    // If the session is over already, the logout is done.
    await answer(api.DELETE("/v1/session")).catch(() => undefined);
    await navigate({ to: "/login" });
    queryClient.clear();
  };
}
