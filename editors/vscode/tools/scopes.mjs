// Reads {"query": [text, …], "schema": [text, …]} from stdin, and prints the scopes of each text: [[start, end, scope], …].
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";

const require = createRequire(import.meta.url);
const oniguruma = require("vscode-oniguruma");
const { INITIAL, Registry, parseRawGrammar } = require("vscode-textmate");

const wasm = readFileSync(require.resolve("vscode-oniguruma/release/onig.wasm"));
await oniguruma.loadWASM(wasm.buffer.slice(wasm.byteOffset, wasm.byteOffset + wasm.byteLength));

const registry = new Registry({
  onigLib: Promise.resolve({
    createOnigScanner: (patterns) => new oniguruma.OnigScanner(patterns),
    createOnigString: (text) => new oniguruma.OnigString(text),
  }),
  loadGrammar: async (scope) => {
    const path = new URL(`../syntaxes/${scope.split(".").at(-1)}.tmLanguage.json`, import.meta.url);
    return parseRawGrammar(readFileSync(path, "utf-8"), path.pathname);
  },
});

const answer = {};
for (const [language, texts] of Object.entries(JSON.parse(readFileSync(0, "utf-8")))) {
  const grammar = await registry.loadGrammar(`source.omnigraph.${language}`);
  answer[language] = texts.map((text) => {
    const scopes = [];
    let stack = INITIAL;
    let start = 0;
    for (const line of text.split("\n")) {
      const found = grammar.tokenizeLine(line, stack);
      stack = found.ruleStack;
      for (const token of found.tokens) {
        const scope = token.scopes.at(-1);
        // The end of a line counts a line break that is not there.
        const end = Math.min(token.endIndex, line.length);
        if (token.startIndex < end) scopes.push([start + token.startIndex, start + end, scope]);
      }
      start += line.length + 1;
    }
    return scopes;
  });
}
process.stdout.write(JSON.stringify(answer));
