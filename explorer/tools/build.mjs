// Build the page into the Python package: types of the API, one bundle, one worker, one style sheet, hashed names.
// `npm run build`; `make dist` and the tests call it through tools/build_explorer.py.
import { readFile, rm, mkdir, writeFile } from "node:fs/promises";
import { dirname, join, relative } from "node:path";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";
import { generate } from "./generate.mjs";

const here = dirname(dirname(fileURLToPath(import.meta.url)));
const out = process.env.EXPLORER_OUT ?? join(here, "..", "src", "omnigraph", "server", "explorer");

await generate();
await rm(out, { recursive: true, force: true });
await mkdir(join(out, "assets"), { recursive: true });
const common = { bundle: true, minify: true, format: "esm", target: "es2022", legalComments: "linked", metafile: true, absWorkingDir: here, nodePaths: [join(here, "node_modules")] };

async function emit(entry, options = {}) {
  const result = await build({ ...common, entryPoints: [entry], outdir: join(out, "assets"), entryNames: "[name]-[hash]", ...options });
  const names = Object.entries(result.metafile.outputs).filter(([, output]) => output.entryPoint);
  return relative(out, join(here, names[0][0]));
}

// The bundle learns the worker's name, which changes with its contents, as a constant.
const worker = await emit("src/draw/layout_worker.ts");
const script = await emit("src/main.tsx", {
  jsx: "automatic",
  jsxImportSource: "preact",
  define: { LAYOUT_WORKER: JSON.stringify(worker), "process.env.NODE_ENV": '"production"' },
});
const style = await emit("src/style.css");
const icon = await emit("src/icon.svg", { loader: { ".svg": "copy" } });
const page = await readFile(join(here, "src", "index.html"), "utf8");
await writeFile(
  join(out, "index.html"),
  page.replace("SCRIPT", script).replace("STYLE", style).replace("ICON", icon),
);
