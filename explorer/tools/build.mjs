// Build the page into the Python package: types of the API, one bundle, one worker, one style sheet, hashed names.
// `npm run build`; `make dist` and the tests call it through tools/build_explorer.py.
import { readFile, rm, mkdir, writeFile } from "node:fs/promises";
import { dirname, join, relative } from "node:path";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";
import openapiTS, { astToString } from "openapi-typescript";

const here = dirname(dirname(fileURLToPath(import.meta.url)));
const out = process.env.EXPLORER_OUT ?? join(here, "..", "src", "omnigraph", "server", "explorer");
const api = process.env.EXPLORER_API ?? join(here, "..", "tests", "contracts", "snapshots", "openapi.json");

// Streams are read as bytes where they are asked for; the types are those of the JSON documents.
const api_document = JSON.parse(await readFile(api, "utf8"));
for (const operations of Object.values(api_document.paths)) {
  for (const { responses } of Object.values(operations)) {
    for (const { content } of Object.values(responses ?? {})) {
      if (content?.["application/json"]) for (const name of Object.keys(content)) if (name !== "application/json") delete content[name];
    }
  }
}
const types = astToString(await openapiTS(api_document, { defaultNonNullable: false, emptyObjectsUnknown: true }));
await mkdir(join(here, "src", "generated"), { recursive: true });
await writeFile(join(here, "src", "generated", "api.ts"), `// Written by tools/build.mjs from the OpenAPI document.\n${types}`);

await rm(out, { recursive: true, force: true });
await mkdir(join(out, "assets"), { recursive: true });
const common = { bundle: true, minify: true, format: "esm", target: "es2022", legalComments: "linked", metafile: true, absWorkingDir: here };

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
