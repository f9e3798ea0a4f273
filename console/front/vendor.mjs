// Bundles the libraries of the page into static/vendor: `make vendor`, at upgrades only (CON-138).
// With --check it writes nothing and fails where the committed files are not what the lock gives.
import { build } from "esbuild";
import { mkdir, readFile, writeFile } from "node:fs/promises";
import path from "node:path";
import { fileURLToPath } from "node:url";

const here = path.dirname(fileURLToPath(import.meta.url));
const target = path.join(here, "..", "barnabas_console", "static", "vendor");
const packages = ["preact", "@preact/signals", "@preact/signals-core", "uplot"];

/** The bundles, by file name. */
async function bundles() {
  const made = new Map();
  for (const [entry, name] of [["vendor_core.js", "vendor.js"], ["vendor_charts.js", "charts.js"]]) {
    const built = await build({
      absWorkingDir: here,
      bundle: true,
      entryPoints: [entry],
      format: "esm",
      legalComments: "none",
      minify: true,
      outfile: path.join(target, name),
      sourcemap: "linked",
      sourcesContent: true,
      target: "es2022",
      write: false,
    });
    for (const file of built.outputFiles) made.set(path.basename(file.path), file.text);
  }
  made.set("uplot.css", await readFile(path.join(here, "node_modules", "uplot", "dist", "uPlot.min.css"), "utf8"));
  made.set("LICENSES.txt", await licences());
  return made;
}

async function licences() {
  const parts = [];
  for (const name of packages) {
    const folder = path.join(here, "node_modules", name);
    const { version } = JSON.parse(await readFile(path.join(folder, "package.json"), "utf8"));
    const licence = await readFile(path.join(folder, "LICENSE"), "utf8");
    parts.push(`${name} ${version}\n\n${licence.trim()}\n`);
  }
  return parts.join(`\n${"-".repeat(80)}\n\n`);
}

const made = await bundles();
if (process.argv.includes("--check")) {
  const changed = [];
  for (const [name, text] of made) {
    const committed = await readFile(path.join(target, name), "utf8").catch(() => "");
    if (committed !== text) changed.push(name);
  }
  if (changed.length) {
    console.error(`static/vendor is not what the lock gives: ${changed.join(", ")}; run: make vendor`);
    process.exit(1);
  }
} else {
  await mkdir(target, { recursive: true });
  for (const [name, text] of made) await writeFile(path.join(target, name), text);
}
