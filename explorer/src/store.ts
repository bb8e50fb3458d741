// What all views share: graphs, branches, commits and schema of one place, and the one commit at which all stand.
import { batch, computed, effect, signal } from "@preact/signals";
import { client, isAbort, take } from "./api";
import { branch, go, graph, place } from "./location";
import { returns } from "./reachable";
import { isOpen, token } from "./session";
import type { Branch, Catalog, Commit } from "./shapes";

export interface Graph {
  id: string;
  state: string;
  read_only: boolean;
}

export const graphs = signal<Graph[] | null>(null);
export const branches = signal<Branch[]>([]);
/** Commits of the branch, newest first. */
export const commits = signal<Commit[]>([]);
export const olderCursor = signal<string | null>(null);
export const catalog = signal<Catalog | null>(null);
export const actor = signal<string>("");
export const actions = signal<ReadonlyMap<string, ReadonlySet<string>>>(new Map());
export const storeError = signal<Error | undefined>(undefined);
/** Counts up after each write of this page and when a newer head is taken, so that everything is read again. */
export const epoch = signal(0);

/** The graph and branch that the commits are of. */
const commitsOf = signal("");
const here = computed(() => JSON.stringify([graph.value, branch.value]));
/** The commit that every view shows; null until the commits of the branch are known. */
export const commit = computed(() => (commitsOf.value === here.value ? (place.value.commit ?? commits.value[0]?.id ?? null) : null));
export const isPinned = computed(() => place.value.commit !== null);
/** The state for a request: the same for all views. */
export const state = computed(() => ({ branch: branch.value, snapshot: commit.value }));

export function mayI(action: string, ofBranch = branch.value): boolean {
  return actions.value.get(ofBranch)?.has(action) ?? false;
}

export function refresh(): void {
  epoch.value += 1;
}

const PAGE = 200;

/** Ask again whenever its signals change; a late answer of an earlier place is dropped. */
function keep(read: (abort: AbortSignal) => Promise<void> | undefined): void {
  let abort = new AbortController();
  effect(() => {
    abort.abort();
    abort = new AbortController();
    const mine = abort;
    read(mine.signal)?.then(
      () => undefined,
      (error: Error) => {
        if (!mine.signal.aborted && !isAbort(error)) storeError.value = error;
      },
    );
  });
}

/** Pages of a list, all of them up to a limit. */
async function readAll<T>(limit: number, ask: (cursor: string | undefined) => Promise<{ items: T[]; next: string | null }>): Promise<T[]> {
  const found: T[] = [];
  let cursor: string | undefined;
  do {
    const page = await ask(cursor);
    found.push(...page.items);
    cursor = page.next ?? undefined;
  } while (cursor && found.length < limit);
  return found;
}

export function startStore(): void {
  keep((signal) => {
    void [epoch.value, returns.value];
    if (!token.value && !isOpen.value) return undefined;
    return readGraphs(signal);
  });
  keep((signal) => {
    void [epoch.value, returns.value];
    if (!hasGraph()) return undefined;
    return readBranches(graph.value, signal);
  });
  keep((signal) => {
    void [epoch.value, returns.value];
    if (!hasGraph()) return undefined;
    return readCommits(graph.value, branch.value, signal);
  });
  keep((signal) => {
    if (!hasGraph() || !commit.value) return undefined;
    return readCatalog(graph.value, branch.value, commit.value, signal);
  });
}

function hasGraph(): boolean {
  return graph.value !== "" && (graphs.value?.some((one) => one.id === graph.value) ?? false);
}

async function readGraphs(abort: AbortSignal): Promise<void> {
  const found = await take(client.GET("/graphs", { signal: abort }));
  const me = await take(client.GET("/me", { signal: abort }));
  batch(() => {
    storeError.value = undefined;
    graphs.value = found.graphs as Graph[];
    actor.value = me.actor ?? "";
    const first = graphs.value[0];
    if (!place.value.graph && first) go({ graph: first.id }, true);
  });
}

async function readBranches(name: string, abort: AbortSignal): Promise<void> {
  const path = { graph: name };
  const found = await readAll(1000, async (cursor) => {
    const page = await take(client.GET("/graphs/{graph}/branches", { params: { path, query: { limit: 500, cursor } }, signal: abort }));
    return { items: page.branches, next: page.next_cursor };
  });
  const allowed = await readAll(1000, async (cursor) => {
    const page = await take(client.GET("/graphs/{graph}/me", { params: { path, query: { limit: 500, cursor } }, signal: abort }));
    return { items: page.branches as unknown as { name: string; actions: string[] }[], next: page.next_cursor };
  });
  batch(() => {
    branches.value = found;
    actions.value = new Map(allowed.map((one) => [one.name, new Set(one.actions)]));
  });
}

async function readCommits(name: string, ofBranch: string, abort: AbortSignal): Promise<void> {
  const page = await askCommits(name, ofBranch, undefined, abort);
  batch(() => {
    storeError.value = undefined;
    commits.value = page.items;
    olderCursor.value = page.next;
    commitsOf.value = JSON.stringify([name, ofBranch]);
  });
}

async function askCommits(name: string, ofBranch: string, cursor: string | undefined, abort?: AbortSignal) {
  const params = { path: { graph: name }, query: { branch: ofBranch, limit: PAGE, cursor } };
  const page = await take(client.GET("/graphs/{graph}/commits", { params, signal: abort ?? null }));
  return { items: page.commits as unknown as Commit[], next: page.next_cursor };
}

/** Read older commits of the branch, for the slider and the log. */
export async function readOlder(): Promise<void> {
  if (!olderCursor.value) return;
  const page = await askCommits(graph.value, branch.value, olderCursor.value);
  batch(() => {
    commits.value = [...commits.value, ...page.items];
    olderCursor.value = page.next;
  });
}

async function readCatalog(name: string, ofBranch: string, at: string, abort: AbortSignal): Promise<void> {
  const query = { as: "catalog" as const, branch: ofBranch, snapshot: at };
  const found = await take(client.GET("/graphs/{graph}/schema", { params: { path: { graph: name }, query }, signal: abort }));
  catalog.value = found as unknown as Catalog;
}
