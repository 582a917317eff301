import js from "@eslint/js";
import a11y from "eslint-plugin-jsx-a11y";
import hooks from "eslint-plugin-react-hooks";
import ts from "typescript-eslint";

export default ts.config(
  { ignores: ["dist", "test-results", "src/api/schema.d.ts"] },
  js.configs.recommended,
  ts.configs.recommended,
  a11y.flatConfigs.recommended,
  {
    // The two rules of hooks. The plugin's others are for the React compiler, which is not used here.
    files: ["src/**"],
    plugins: { "react-hooks": hooks },
    rules: { "react-hooks/rules-of-hooks": "error", "react-hooks/exhaustive-deps": "error" },
    linterOptions: { reportUnusedDisableDirectives: "error" },
  },
  {
    // A region that scrolls must be reachable to be scrolled by keys; ours have the role `group` and a name.
    rules: { "jsx-a11y/no-noninteractive-tabindex": ["error", { tags: [], roles: ["tabpanel", "group"] }] },
  },
  { files: ["scripts/**"], languageOptions: { globals: { console: "readonly", process: "readonly" } } },
);
