// The frame around the views: who and where, the slider, the footer.
import type { FunctionComponent } from "preact";
import { useEffect, useState } from "preact/hooks";
import { EditView } from "./edit/edit";
import { Footer } from "./footer";
import { GraphView } from "./graph/graph";
import { branch, go, graph, view, VIEWS, type View } from "./location";
import { QueryView } from "./query/query";
import { reachable } from "./reachable";
import { ReviewView } from "./review/review";
import { SchemaView } from "./schema/schema";
import { isOpen, signedOutBecause, signIn, signOut, token } from "./session";
import { actor, branches, commit, graphs, storeError } from "./store";
import { Timeline } from "./timeline";
import { Button, Busy, Dialog, Problem, Select, submitting } from "./ui/parts";

const VIEW_OF: Record<View, FunctionComponent> = { review: ReviewView, query: QueryView, graph: GraphView, schema: SchemaView, edit: EditView };

export function App() {
  if (!token.value && !isOpen.value) return <SignIn />;
  return <Page />;
}

function Page() {
  const [showsKeys, setShowsKeys] = useState(false);
  useShortcuts(() => setShowsKeys(true));
  const Shown = VIEW_OF[view.value];
  const isKnown = graphs.value?.some((one) => one.id === graph.value);
  return (
    <div class="page" data-commit={commit.value} data-view={view.value}>
      <a class="skip" href="#main" onClick={focusMain}>
        Skip to the content
      </a>
      <Header onKeys={() => setShowsKeys(true)} />
      {!reachable.value && (
        <p class="banner" role="alert">
          The server does not answer. What you see may be old; the page goes on when it is back.
        </p>
      )}
      <main id="main" tabIndex={-1}>
        <Problem error={storeError.value} />
        {!graphs.value && !storeError.value && <Busy />}
        {graphs.value && !isKnown && <NoGraph />}
        {isKnown && !commit.value && !storeError.value && <Busy />}
        {isKnown && commit.value && <Shown key={`${graph.value}/${view.value}`} />}
      </main>
      <Footer />
      {showsKeys && <Keys onClose={() => setShowsKeys(false)} />}
    </div>
  );
}

function focusMain(event: MouseEvent) {
  event.preventDefault();
  document.getElementById("main")?.focus();
}

function Header({ onKeys }: { onKeys: () => void }) {
  const names = branches.value.map((one) => one.name);
  return (
    <header class="top">
      <div class="brand">
        <span class="mark" aria-hidden="true" />
        <h1>omnigraph</h1>
      </div>
      {(graphs.value?.length ?? 0) > 0 && (
        <div class="where">
          <Select label="Graph" value={graph.value} options={(graphs.value ?? []).map((one) => one.id)} onChange={(name) => go({ graph: name, branch: "main", commit: null })} />
          <Select
            label="Branch"
            value={branch.value}
            options={names.includes(branch.value) ? names : [branch.value, ...names]}
            onChange={(name) => go({ branch: name, commit: null })}
          />
        </div>
      )}
      <nav aria-label="Views">
        {VIEWS.map((name, place) => (
          <button key={name} type="button" aria-current={view.value === name ? "page" : undefined} aria-keyshortcuts={String(place + 1)} onClick={() => go({ view: name })}>
            {name}
          </button>
        ))}
      </nav>
      <div class="who">
        {actor.value && <span title="You are signed in as this actor">{actor.value}</span>}
        <Button label="Keyboard shortcuts" onClick={onKeys}>
          ?
        </Button>
        {token.value && <Button onClick={signOut}>Sign out</Button>}
      </div>
      {graphs.value && <Timeline />}
    </header>
  );
}

function NoGraph() {
  return (
    <div class="empty">
      <h2>{graph.value ? "Nothing to see here" : "No graphs"}</h2>
      <p>
        {graph.value
          ? "There is no such graph, or this token may not see it."
          : "This server shows no graph to your token. Ask whoever runs it for the permission `graph_list`."}
      </p>
    </div>
  );
}

function SignIn() {
  const [text, setText] = useState("");
  return (
    <main class="sign-in" id="main">
      <form onSubmit={submitting(() => text.trim() && signIn(text.trim()))}>
        <span class="mark" aria-hidden="true" />
        <h1>omnigraph explorer</h1>
        {signedOutBecause.value && (
          <p class="problem" role="alert">
            {signedOutBecause.value}
          </p>
        )}
        <label>
          <span>Token</span>
          <input type="password" autoComplete="off" spellcheck={false} value={text} onInput={(event) => setText(event.currentTarget.value)} />
        </label>
        <Button kind="primary" type="submit" disabled={!text.trim()}>
          Sign in
        </Button>
        <p class="hint">
          The token stays in this tab and is gone when you close it. <code>omnigraph explore GRAPH</code> opens this page without one.
        </p>
      </form>
    </main>
  );
}

const KEYS: readonly (readonly [string, string])[] = [
  ["1 … 5", "Review, Query, Graph, Schema, Edit"],
  ["[ and ]", "One commit back, one commit on"],
  ["n", "Follow the newest commit"],
  ["/", "Search, in Graph"],
  ["Ctrl Enter", "Run the query"],
  ["Arrow keys", "In a picture: walk to the next node; in a table: to the next cell"],
  ["Enter", "In a picture: open or expand"],
  ["p, Delete", "In a picture: pin, hide"],
  ["+ − 0", "In a picture: zoom in, zoom out, show all"],
  ["?", "This list"],
];

function Keys({ onClose }: { onClose: () => void }) {
  return (
    <Dialog title="Keyboard" onClose={onClose}>
      <dl class="keys">
        {KEYS.map(([key, what]) => (
          <div key={key}>
            <dt>
              <kbd>{key}</kbd>
            </dt>
            <dd>{what}</dd>
          </div>
        ))}
      </dl>
    </Dialog>
  );
}

function useShortcuts(onHelp: () => void) {
  useEffect(() => {
    const listen = (event: KeyboardEvent) => {
      const target = event.composedPath()[0];
      const isTyping = target instanceof HTMLElement && (target.isContentEditable || /^(INPUT|TEXTAREA|SELECT)$/.test(target.tagName));
      if (isTyping || event.ctrlKey || event.metaKey || event.altKey || document.querySelector("dialog[open]")) return;
      const wanted = VIEWS[Number(event.key) - 1];
      if (wanted) go({ view: wanted });
      else if (event.key === "?") onHelp();
      else if (event.key === "/") {
        go({ view: "graph" });
        requestAnimationFrame(() => document.querySelector<HTMLInputElement>("input[type=search]")?.focus());
      } else return;
      event.preventDefault();
    };
    addEventListener("keydown", listen);
    return () => removeEventListener("keydown", listen);
  }, []);
}
