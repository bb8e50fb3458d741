// Build the client package: its types from the OpenAPI document, one module without dependencies. tsc writes its declarations.
import { rm } from "node:fs/promises";
import { join } from "node:path";
import { build } from "esbuild";
import { client, explorer, generate } from "./generate.mjs";

await generate();
await rm(join(client, "dist"), { recursive: true, force: true });
await build({
  entryPoints: [join(client, "src", "index.ts")],
  outfile: join(client, "dist", "index.js"),
  bundle: true,
  format: "esm",
  target: "es2022",
  // The packages are those of the explorer's lock file.
  nodePaths: [join(explorer, "node_modules")],
});
