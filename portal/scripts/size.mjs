// What a browser loads, gzipped: for the landing route, and for each further route on top of it. Fails over budget.
//
// The landing route is the entry with all that it imports statically, and the page of runs. Kilobytes are 1,000 bytes.
import { existsSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { gzipSync } from "node:zlib";

const LANDING_JS_KB_MAX = 200;
const LANDING_CSS_KB_MAX = 30;
const ROUTE_KB_MAX = 60;
const LANDING_PAGE = "src/pages/runs/RunsPage.tsx";

if (!existsSync("dist/.vite/manifest.json")) {
  console.error("there is no build to measure\n\nhint: run npm run build first");
  process.exit(1);
}
const manifest = JSON.parse(readFileSync("dist/.vite/manifest.json", "utf8"));
const gzipped = (file) => gzipSync(readFileSync(`dist/${file}`), { level: 9 }).length;
const kilobytes = (files) => Number(([...files].reduce((sum, file) => sum + gzipped(file), 0) / 1000).toFixed(1));

/** The files of a chunk and of all that it imports statically. */
function filesOf(key, found = new Set()) {
  const chunk = manifest[key];
  if (found.has(chunk.file)) return found;
  found.add(chunk.file);
  for (const css of chunk.css ?? []) found.add(css);
  for (const imported of chunk.imports ?? []) filesOf(imported, found);
  return found;
}

const entry = Object.keys(manifest).find((key) => manifest[key].isEntry);
const landing = new Set([...filesOf(entry), ...filesOf(LANDING_PAGE)]);
const js = kilobytes([...landing].filter((file) => file.endsWith(".js")));
const css = kilobytes([...landing].filter((file) => file.endsWith(".css")));
const isOver = [js > LANDING_JS_KB_MAX, css > LANDING_CSS_KB_MAX];
console.log(
  `landing route: ${js} KB JavaScript (most ${LANDING_JS_KB_MAX}), ${css} KB CSS (most ${LANDING_CSS_KB_MAX})`,
);

for (const key of Object.keys(manifest).filter((key) => manifest[key].isDynamicEntry && key !== LANDING_PAGE)) {
  const further = [...filesOf(key)].filter((file) => !landing.has(file));
  const size = kilobytes(further);
  console.log(`${key}: ${size} KB more (most ${ROUTE_KB_MAX})`);
  isOver.push(size > ROUTE_KB_MAX);
}

const figures = `figure portal.landing_js_kb ${js} KB\nfigure portal.landing_css_kb ${css} KB\n`;
process.stdout.write(figures);
mkdirSync("test-results", { recursive: true });
writeFileSync("test-results/size.txt", figures);
if (isOver.includes(true)) {
  console.error("over budget\n\nhint: load it on demand, or take a smaller library");
  process.exit(1);
}
