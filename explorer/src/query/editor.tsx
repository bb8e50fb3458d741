// The editor: completion and diagnostics come from the server, as somebody types.
import { autocompletion, closeBrackets, closeBracketsKeymap, completionKeymap, type CompletionContext, type CompletionResult } from "@codemirror/autocomplete";
import { defaultKeymap, history, historyKeymap, indentWithTab } from "@codemirror/commands";
import { bracketMatching, indentOnInput } from "@codemirror/language";
import { linter, lintGutter, lintKeymap, type Diagnostic as Mark } from "@codemirror/lint";
import { EditorState } from "@codemirror/state";
import { drawSelection, EditorView, highlightActiveLine, keymap, lineNumbers, placeholder } from "@codemirror/view";
import { useEffect, useRef } from "preact/hooks";
import { client, take } from "../api";
import { graph } from "../location";
import type { Lint } from "../shapes";
import { state } from "../store";
import { colours, graphQuery } from "./language";

interface Props {
  /** A text to start with; another object replaces what was written. What somebody types only goes out. */
  given: { text: string };
  onText: (text: string) => void;
  onLint: (lint: Lint | null) => void;
  onRun: () => void;
}

const KINDS: Record<string, string> = { type: "class", property: "property", edge: "interface", variable: "variable", function: "function", keyword: "keyword" };

async function complete(context: CompletionContext): Promise<CompletionResult | null> {
  const word = context.matchBefore(/[\w$.@"]+$/);
  if (!word && !context.explicit) return null;
  const abort = new AbortController();
  context.addEventListener("abort", () => abort.abort());
  const query = context.state.doc.toString();
  const body = { query, position: countPoints(query, context.pos), ...state.peek() };
  const found = await client.POST("/graphs/{graph}/complete", { params: { path: { graph: graph.peek() } }, body, signal: abort.signal }).catch(() => null);
  if (!found?.data) return null;
  return {
    from: toUnits(query, found.data.start),
    to: toUnits(query, found.data.end),
    options: found.data.proposals.map((one) => ({ label: one.text, type: KINDS[one.kind] ?? "text", detail: one.detail })),
    validFor: /^\w*$/,
  };
}

/** The server counts characters, the editor UTF-16 units. */
function countPoints(text: string, unit: number): number {
  return [...text.slice(0, unit)].length;
}
function toUnits(text: string, point: number): number {
  return /[\ud800-\udfff]/.test(text) ? [...text].slice(0, point).join("").length : point;
}

export function askLint(query: string): Promise<Lint> {
  return take(client.POST("/graphs/{graph}/lint", { params: { path: { graph: graph.peek() } }, body: { query, ...state.peek() } })) as unknown as Promise<Lint>;
}

function markMistakes(onLint: (lint: Lint | null) => void) {
  return linter(
    async (editor): Promise<Mark[]> => {
      const query = editor.state.doc.toString();
      if (query.trim() === "") {
        onLint(null);
        return [];
      }
      const lint = await askLint(query).catch(() => null);
      onLint(lint);
      const end = editor.state.doc.length;
      return (lint?.diagnostics ?? []).map((one) => {
        const from = Math.min(toUnits(query, one.start.offset), end);
        return {
          from,
          to: Math.min(Math.max(toUnits(query, one.end.offset), from), end),
          severity: one.severity === "error" ? "error" : "warning",
          message: one.help ? `${one.message}\n${one.help}` : one.message,
          source: one.code,
        };
      });
    },
    { delay: 350 },
  );
}

const LOOK = EditorView.theme({
  "&": { fontSize: "13.5px", backgroundColor: "var(--paper)", color: "var(--ink)", maxHeight: "46vh", minHeight: "132px" },
  "&.cm-focused": { outline: "2px solid var(--accent)", outlineOffset: "-2px" },
  ".cm-scroller": { fontFamily: "var(--mono)", lineHeight: "1.55", overflow: "auto" },
  ".cm-gutters": { backgroundColor: "var(--paper)", color: "var(--quiet)", border: "none" },
  ".cm-activeLine": { backgroundColor: "transparent" },
  ".cm-cursor": { borderLeftColor: "var(--ink)" },
  ".cm-placeholder": { color: "var(--quiet)" },
  "&.cm-focused > .cm-scroller > .cm-selectionLayer .cm-selectionBackground, .cm-selectionBackground": { backgroundColor: "var(--chosen)" },
  ".cm-tooltip": { backgroundColor: "var(--paper)", color: "var(--ink)", border: "1px solid var(--line)", borderRadius: "8px" },
  ".cm-tooltip-autocomplete > ul > li[aria-selected]": { backgroundColor: "var(--accent)", color: "var(--on-accent)" },
  // Its own marks are images in data: addresses, which the content security policy does not allow.
  ".cm-lint-marker-error, .cm-lint-marker-warning, .cm-lint-marker-info": { content: "normal", borderRadius: "50%", backgroundColor: "var(--bad)", width: "9px", height: "9px", marginTop: "6px" },
  ".cm-lint-marker-warning": { backgroundColor: "#e09b13" },
  ".cm-lintRange-error, .cm-lintRange-warning, .cm-lintRange-info": { backgroundImage: "none", textDecoration: "underline wavy var(--bad) 1px", textUnderlineOffset: "3px" },
  ".cm-lintRange-warning": { textDecorationColor: "#e09b13" },
  ".cm-completionDetail": { color: "var(--quiet)", fontStyle: "normal" },
  ".cm-tooltip-autocomplete > ul > li[aria-selected] .cm-completionDetail": { color: "inherit" },
});

export function Editor(props: Props) {
  const holder = useRef<HTMLDivElement>(null);
  const editor = useRef<EditorView | null>(null);
  const now = useRef(props);
  now.current = props;
  useEffect(() => {
    const host = holder.current as HTMLDivElement;
    // In a shadow root its styles are adopted sheets, which the content security policy allows.
    const root = host.shadowRoot ?? host.attachShadow({ mode: "open" });
    const run = () => {
      now.current.onRun();
      return true;
    };
    editor.current = new EditorView({
      parent: root,
      root,
      state: EditorState.create({
        doc: props.given.text,
        extensions: [
          keymap.of([{ key: "Mod-Enter", run, preventDefault: true }]),
          keymap.of([...closeBracketsKeymap, ...completionKeymap, ...lintKeymap, ...historyKeymap, ...defaultKeymap, indentWithTab]),
          lineNumbers(),
          history(),
          drawSelection(),
          indentOnInput(),
          bracketMatching(),
          closeBrackets(),
          highlightActiveLine(),
          autocompletion({ override: [complete], activateOnTyping: true }),
          markMistakes((lint) => now.current.onLint(lint)),
          lintGutter(),
          graphQuery,
          colours,
          LOOK,
          placeholder("match { $p: Person } return { $p }"),
          EditorView.lineWrapping,
          EditorView.contentAttributes.of({ "aria-label": "Query", spellcheck: "false" }),
          EditorView.updateListener.of((update) => update.docChanged && now.current.onText(update.state.doc.toString())),
        ],
      }),
    });
    return () => editor.current?.destroy();
  }, []);
  useEffect(() => {
    const shown = editor.current;
    const { text } = props.given;
    if (shown && shown.state.doc.toString() !== text) shown.dispatch({ changes: { from: 0, to: shown.state.doc.length, insert: text } });
  }, [props.given]);
  return <div class="editor" ref={holder} />;
}
