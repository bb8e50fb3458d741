// What the page shows, kept in the fragment of the address: a link reproduces it, and no token is ever in it.
import { computed, signal } from "@preact/signals";

export const VIEWS = ["review", "query", "graph", "schema", "edit"] as const;
export type View = (typeof VIEWS)[number];

export interface Place {
  graph: string;
  view: View;
  branch: string;
  /** The commit at which all views stand; null follows the newest. */
  commit: string | null;
  /** What only one view knows: the query, the entity, the branch to merge into. */
  more: ReadonlyMap<string, string>;
}

const NOWHERE: Place = { graph: "", view: "review", branch: "main", commit: null, more: new Map() };

export function readPlace(hash: string): Place {
  const [path = "", search = ""] = hash.replace(/^#\/?/, "").split("?", 2);
  const [graph = "", view = ""] = path.split("/");
  const found = new URLSearchParams(search);
  const more = new Map(found);
  more.delete("branch");
  more.delete("commit");
  return {
    graph: decode(graph),
    view: VIEWS.find((one) => one === view) ?? "review",
    branch: found.get("branch") || "main",
    commit: found.get("commit") || null,
    more,
  };
}

export function formatPlace(one: Place): string {
  const search = new URLSearchParams([["branch", one.branch]]);
  if (one.commit) search.set("commit", one.commit);
  for (const [name, value] of one.more) if (value) search.set(name, value);
  return `#/${encodeURIComponent(one.graph)}/${one.view}?${search}`;
}

function decode(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

export const place = signal<Place>(NOWHERE);
export const graph = computed(() => place.value.graph);
export const view = computed(() => place.value.view);
export const branch = computed(() => place.value.branch);

/** What the query view knew when it was left: who looks at the schema in between finds the query again. */
let left: Place = NOWHERE;

/** Go to another place. The browser's back button returns, unless the step only refines the place. */
export function go(change: Partial<Omit<Place, "more">> & { more?: Record<string, string | null> }, replaces = false): void {
  const now = place.peek();
  const leaves = (change.view !== undefined && change.view !== now.view) || (change.graph !== undefined && change.graph !== now.graph);
  if (leaves && now.view === "query") left = now;
  const isBack = leaves && change.view === "query" && !change.more && left.graph === (change.graph ?? now.graph);
  const more = new Map(isBack ? left.more : leaves ? [] : now.more);
  for (const [name, value] of Object.entries(change.more ?? {})) value === null ? more.delete(name) : more.set(name, value);
  const next: Place = { ...now, ...change, more };
  const address = formatPlace(next);
  if (address === formatPlace(now)) return;
  history[replaces ? "replaceState" : "pushState"](null, "", address);
  place.value = next;
}

export function followAddress(): void {
  const follow = () => (place.value = readPlace(location.hash));
  addEventListener("popstate", follow);
  addEventListener("hashchange", follow);
  follow();
}
