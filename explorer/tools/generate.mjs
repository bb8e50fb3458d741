// Write the types of the client from the OpenAPI document, into the package that the explorer shares with others.
import { mkdir, readFile, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import openapiTS, { astToString } from "openapi-typescript";

export const explorer = dirname(dirname(fileURLToPath(import.meta.url)));
export const client = join(explorer, "..", "clients", "typescript");

export async function generate() {
  const api = process.env.EXPLORER_API ?? join(explorer, "..", "tests", "contracts", "snapshots", "openapi.json");
  // Streams are read as bytes where they are asked for; the types are those of the JSON documents.
  const document = JSON.parse(await readFile(api, "utf8"));
  for (const operations of Object.values(document.paths)) {
    for (const { responses } of Object.values(operations)) {
      for (const { content } of Object.values(responses ?? {})) {
        if (content?.["application/json"]) for (const name of Object.keys(content)) if (name !== "application/json") delete content[name];
      }
    }
  }
  const types = astToString(await openapiTS(document, { defaultNonNullable: false, emptyObjectsUnknown: true }));
  const directory = join(client, "src", "generated");
  await mkdir(directory, { recursive: true });
  await writeFile(join(directory, "api.ts"), `// Written by explorer/tools/generate.mjs from the OpenAPI document.\n${types}`);
}
