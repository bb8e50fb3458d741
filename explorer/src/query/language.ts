// Colours of the query language. The server checks it; this only tells words apart.
import { HighlightStyle, StreamLanguage, syntaxHighlighting } from "@codemirror/language";
import { tags } from "@lezer/highlight";

const KEYWORDS = new Set(
  "query match return distinct order limit offset asc desc as and or not in is null true false insert update delete set where contains starts_with let each optional either exists path shortest cheapest along through with having union per case else returning pattern by".split(" "),
);

interface Memory {
  isComment: boolean;
}

export const graphQuery = StreamLanguage.define<Memory>({
  name: "gq",
  startState: () => ({ isComment: false }),
  token(stream, memory) {
    if (memory.isComment || stream.match("/*")) {
      memory.isComment = !stream.match(/^.*?\*\//);
      if (memory.isComment) stream.skipToEnd();
      return "comment";
    }
    if (stream.eatSpace()) return null;
    if (stream.match(/^\/\/.*/)) return "comment";
    if (stream.match(/^"(?:[^"\\]|\\.)*"?/)) return "string";
    if (stream.match(/^\$[A-Za-z_]\w*/)) return "variableName";
    if (stream.match(/^-?\d+(?:\.\d+)?(?:e[+-]?\d+)?/i)) return "number";
    if (stream.match(/^@\w+/)) return "meta";
    const word = stream.match(/^[A-Za-z_]\w*/);
    if (word && Array.isArray(word)) {
      const text = word[0] ?? "";
      if (KEYWORDS.has(text)) return "keyword";
      if (/^[A-Z]/.test(text)) return "typeName";
      return stream.match(/^\s*\(/, false) ? "function" : "propertyName";
    }
    stream.next();
    return "operator";
  },
  languageData: { commentTokens: { line: "//", block: { open: "/*", close: "*/" } }, closeBrackets: { brackets: ["(", "[", "{", '"'] } },
  tokenTable: { function: tags.function(tags.variableName) },
});

export const colours = syntaxHighlighting(
  HighlightStyle.define([
    { tag: tags.keyword, color: "var(--code-keyword)", fontWeight: "600" },
    { tag: tags.typeName, color: "var(--code-type)" },
    { tag: tags.variableName, color: "var(--code-variable)" },
    { tag: tags.string, color: "var(--code-string)" },
    { tag: tags.number, color: "var(--code-number)" },
    { tag: tags.comment, color: "var(--code-comment)", fontStyle: "italic" },
    { tag: tags.meta, color: "var(--code-number)" },
    { tag: tags.function(tags.variableName), color: "var(--code-type)" },
  ]),
);
