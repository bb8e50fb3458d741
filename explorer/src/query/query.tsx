// Query: write, check, run, look.
import { useEffect, useRef, useState } from "preact/hooks";
import { ApiError, client, isAbort, take } from "../api";
import { formatPlace, go, graph, place } from "../location";
import { OutcomeNote } from "../review/outcome_note";
import { createWrite } from "../review/writes";
import type { Json, Lint, Parameter, Rows, StoredQuery } from "../shapes";
import { catalog, commit, isPinned, mayI, state } from "../store";
import { useLoad } from "../ui/load";
import { ChangePreview, type Previewed } from "../ui/change_preview";
import { Button, Panel, Problem } from "../ui/parts";
import { saveBlob } from "../ui/save";
import { formatCsv, saveArrow, saveCsv } from "./download";
import { Editor, askLint } from "./editor";
import { forget, readPast, remember } from "./past_queries";
import { createStop, PagedRows, stopNow, WholeRows, type Asked, type RowSource, type Sort, type Stop } from "./paged_rows";
import { ParameterForm, readParameters } from "./parameters";
import { Results } from "./results";

type Texts = ReadonlyMap<string, string>;

function readTexts(text: string | undefined): Texts {
  try {
    const found: unknown = JSON.parse(text ?? "{}");
    return new Map(Object.entries(found as Record<string, string>));
  } catch {
    return new Map();
  }
}

const write = createWrite();

export function QueryView() {
  const given = place.value.more.get("query");
  const givenStored = place.value.more.get("stored");
  const [text, setText] = useState(given ?? "");
  const [written, setWritten] = useState({ text });
  const replace = (next: string) => {
    setText(next);
    setWritten({ text: next });
  };
  /** Go from a stored query to a text. */
  const writeText = (next: string) => {
    go({ more: { stored: null } }, true);
    setStored(null);
    replace(next);
  };
  const [texts, setTexts] = useState<Texts>(() => readTexts(place.value.more.get("params")));
  const [lint, setLint] = useState<Lint | null>(null);
  const [stored, setStored] = useState<StoredQuery | null>(null);
  const [chosen, setChosen] = useState("");
  const [source, setSource] = useState<RowSource | null>(null);
  const [sort, setSort] = useState<Sort | null>(null);
  const [plan, setPlan] = useState<string>();
  const [preview, setPreview] = useState<Previewed>();
  const whole = source instanceof WholeRows ? source : null;
  const [isCancelled, setCancelled] = useState(false);
  const [error, setError] = useState<Error>();
  const [startedAt, setStartedAt] = useState<number | null>(null);
  const shown = useRef<PagedRows | null>(null);
  const stop = useRef<Stop | null>(null);
  const queries = lint?.queries ?? [];
  const query = queries.find((one) => one.name === chosen) ?? queries[0];
  const parameters: readonly Parameter[] = stored ? stored.params : (query?.params ?? []);
  const read = readParameters(parameters, texts);
  const asked = (): Asked => ({ graph: graph.value, ...state.value, query: text, name: queries.length > 1 ? (query?.name ?? null) : null, params: read.params, stored: stored?.name ?? null });
  // A link names a stored query, whose parameters the server tells.
  const list = useLoad(mayI("invoke_query") ? (abort) => take(client.GET("/graphs/{graph}/queries", { params: { path: { graph: graph.value } }, signal: abort })) : null, [graph.value]);
  const wanted = stored === null && givenStored ? list.value?.queries.find((one) => one.name === givenStored) : undefined;
  useEffect(() => {
    if (!wanted) return;
    setStored(wanted);
    if (readParameters(wanted.params, texts).isComplete) void run(null, wanted);
  }, [wanted]);

  // The address has what the link needs: text, parameters, commit.
  useEffect(() => {
    if (wanted || (givenStored && !list.value && !list.error)) return;
    go({ more: { query: stored ? null : text || null, stored: stored?.name ?? null, params: texts.size > 0 ? JSON.stringify(Object.fromEntries(texts)) : null } }, true);
  }, [text, texts, stored, wanted, list.isLoading]);

  // The page's commit moved, or the page was opened with a query: what is shown follows.
  useEffect(() => {
    if (source || given) void run(sort, stored, false);
  }, [commit.value]);

  async function start(work: (stop: Stop) => Promise<void>) {
    const mine = createStop();
    // What ran before is replaced; what is shown goes on reading its rows.
    stop.current?.abort.abort();
    stop.current = mine;
    setError(undefined);
    setPlan(undefined);
    setPreview(undefined);
    setCancelled(false);
    setStartedAt(performance.now());
    try {
      await work(mine);
    } catch (failed) {
      if (stop.current !== mine) return;
      if (isAbort(failed) || (failed instanceof ApiError && failed.code === "query_cancelled")) setCancelled(true);
      else setError(failed as Error);
    }
    if (stop.current !== mine) return;
    stop.current = null;
    setStartedAt(null);
  }

  /** Run what is written. `isAsked` is false where nobody pressed a button: then only what is whole and reads is run. */
  function run(order: Sort | null, known = stored, isAsked = true) {
    return start(async (mine) => {
      if (known) {
        setSource(await runStored(known, readParameters(known.params, texts).params, mine));
        return setSort(null);
      }
      if (!text.trim()) return;
      const checked = lint ?? (await askLint(text).catch(() => null));
      const wanted = checked?.queries.find((one) => one.name === chosen) ?? checked?.queries[0];
      const { params, isComplete } = checked ? readParameters(wanted?.params ?? [], texts) : read;
      if (!isAsked && (wanted?.kind !== "read" || !isComplete)) return;
      if (wanted?.kind === "mutation") return void setPreview((await askMutation(asked(), { dry_run: true })) as unknown as Previewed);
      remember(graph.value, text);
      const rows = new PagedRows({ ...asked(), params }, order, mine);
      await rows.open();
      shown.current?.close();
      shown.current = rows;
      setSource(rows);
      setSort(order);
    });
  }

  const onSort = (column: string) => {
    const next = sort?.column !== column ? { column, descending: false } : sort.descending ? null : { column, descending: true };
    if (!whole) return void run(next);
    setSort(next);
    setSource(whole.sorted(next));
  };
  const explain = () =>
    start(async ({ abort, id }) => {
      const { graph: name, stored: _, ...body } = asked();
      const options = { params: { path: { graph: name } }, body: { ...body, analyze: true, query_id: id }, signal: abort.signal };
      setPlan((await take(client.POST("/graphs/{graph}/explain", options))).text);
    });
  const said = (done: unknown) => ({ commit: (done as { commit_id: string | null }).commit_id, text: "Committed." });
  const commitMutation = () => write.run(state.value.branch, asked(), ({ idempotency_key }) => (stored ? invokeMutation(stored, asked(), idempotency_key) : askMutation(asked(), { idempotency_key })), said).then(() => setPreview(undefined));
  const isMutation = (stored ?? query)?.kind === "mutation";
  const canRun = read.isComplete && (stored ? true : text.trim() !== "" && (lint?.errors ?? 0) === 0) && !(isMutation && isPinned.value);
  const guard = (work: Promise<void>) => void work.catch((failed: Error) => setError(failed));
  return (
    <div class="query" data-commit={source?.commit ?? commit.value ?? ""} data-state={startedAt === null ? "ready" : "loading"}>
      <Panel title={stored ? `Stored query ${stored.name}` : "Query"} aside={<QueryList stored={list.value?.queries ?? []} onStored={(one) => (setStored(one), setTexts(new Map()))} onText={writeText} />}>
        {stored ? (
          <p>
            {stored.description ?? "Its text is kept by the server."} <Button onClick={() => writeText(text)}>Write a query instead</Button>
          </p>
        ) : (
          <Editor given={written} onText={setText} onLint={setLint} onRun={() => void run(null)} />
        )}
        {!stored && text === "" && <Examples onText={replace} />}
        {!stored && <Mistakes lint={lint} />}
        <ParameterForm parameters={parameters} texts={texts} onTexts={setTexts} />
        <div class="bar">
          {!stored && queries.length > 1 && (
            <label class="select">
              <span>Query</span>
              <select value={query?.name ?? ""} onChange={(event) => setChosen(event.currentTarget.value)}>
                {queries.map((one) => (
                  <option key={one.name}>{one.name}</option>
                ))}
              </select>
            </label>
          )}
          <Button kind="primary" icon="play" disabled={startedAt !== null || !canRun} onClick={() => void (isMutation && stored ? commitMutation() : run(null))} title={stored ? undefined : "Ctrl Enter"}>
            {isMutation ? (stored ? `Run and commit to ${state.value.branch}` : "Preview") : "Run"}
          </Button>
          {!stored && !isMutation && (
            <Button disabled={startedAt !== null || !text.trim()} onClick={() => void explain()}>
              Explain
            </Button>
          )}
          {startedAt !== null && <Running from={startedAt} onCancel={() => stop.current && void stopNow(graph.value, stop.current)} />}
          {isCancelled && <span role="status">Cancelled.</span>}
          {isMutation && isPinned.value && <span class="quiet">An earlier state can't be changed: go back to the newest.</span>}
        </div>
        <Problem error={error} />
        {preview !== undefined && (
          <div class="merge-bar">
            <p>This is what it would change on {state.value.branch}:</p>
            <ChangePreview found={preview} />
            {mayI("change") && (
              <Button kind="primary" onClick={() => void commitMutation()}>
                Commit to {state.value.branch}
              </Button>
            )}
          </div>
        )}
        <OutcomeNote outcome={write.outcome.value} branch={state.value.branch} />
      </Panel>
      {plan !== undefined && (
        <Panel title="Plan">
          <pre class="json" tabIndex={0}>
            {plan}
          </pre>
        </Panel>
      )}
      {source && (
        <Results
          source={source}
          sort={sort}
          onSort={onSort}
          onCsv={() => (whole ? saveBlob(new Blob([formatCsv(whole.columns, whole.first(Infinity))]), "result.csv") : guard(saveCsv(asked(), source.commit, source.columns)))}
          onArrow={() => guard(saveArrow(asked(), source.commit))}
          link={formatPlace({ ...place.value, commit: source.commit })}
        />
      )}
    </div>
  );
}

async function runStored(stored: StoredQuery, params: Record<string, Json>, { abort, id }: Stop): Promise<RowSource> {
  const from = performance.now();
  const path = { graph: graph.value, name: stored.name };
  const found = await take(client.POST("/graphs/{graph}/queries/{name}", { params: { path }, body: { params, ...state.value, query_id: id }, signal: abort.signal }));
  return new WholeRows(found as unknown as Rows, performance.now() - from);
}

function invokeMutation(stored: StoredQuery, { branch, params }: Asked, idempotency_key: string): Promise<Json> {
  const path = { graph: graph.value, name: stored.name };
  return take(client.POST("/graphs/{graph}/queries/{name}", { params: { path }, body: { params, branch, idempotency_key } })) as unknown as Promise<Json>;
}

function askMutation({ graph: name, snapshot: _, stored: __, ...body }: Asked, more: object): Promise<Json> {
  return take(client.POST("/graphs/{graph}/mutate", { params: { path: { graph: name } }, body: { ...body, ...more } })) as unknown as Promise<Json>;
}

function Running({ from, onCancel }: { from: number; onCancel: () => void }) {
  const [now, setNow] = useState(from);
  useEffect(() => {
    const timer = setInterval(() => setNow(performance.now()), 100);
    return () => clearInterval(timer);
  }, []);
  return (
    <>
      <Button kind="danger" icon="stop" onClick={onCancel}>
        Cancel
      </Button>
      <span class="busy">{((now - from) / 1000).toFixed(1)} s</span>
    </>
  );
}

function Mistakes({ lint }: { lint: Lint | null }) {
  if (!lint || lint.diagnostics.length === 0) return null;
  return (
    <ul class="mistakes" aria-label="Mistakes">
      {lint.diagnostics.slice(0, 5).map((one) => (
        <li key={`${one.code} ${one.start.offset}`} class={one.severity}>
          <code>{one.code}</code> {one.start.line}:{one.start.column} {one.message} {one.help && <span class="quiet">{one.help}</span>}
        </li>
      ))}
    </ul>
  );
}

/** A first query for each of some types, so that nobody starts with an empty page. */
function Examples({ onText }: { onText: (text: string) => void }) {
  const node = catalog.value?.nodes[0];
  const edge = catalog.value?.edges[0];
  const verb = edge && edge.name.charAt(0).toLowerCase() + edge.name.slice(1);
  const examples = [
    ...(node ? [`match { $n: ${node.name} }\nreturn { $n }\nlimit 50`] : []),
    ...(edge ? [`match { $a: ${edge.from}  $a $e:${verb} $b }\nreturn { $a, $e, $b }\nlimit 100`] : []),
  ];
  return (
    <div class="examples">
      <span class="quiet">Start with one of these:</span>
      {examples.map((one) => (
        <button key={one} type="button" onClick={() => onText(one)}>
          <code>{one}</code>
        </button>
      ))}
    </div>
  );
}

function QueryList({ stored, onStored, onText }: { stored: readonly StoredQuery[]; onStored: (one: StoredQuery) => void; onText: (text: string) => void }) {
  const past = readPast(graph.value);
  return (
    <>
      {stored.length > 0 && (
        <select aria-label="Stored queries" value="" onChange={(event) => onStored(stored.find((one) => one.name === event.currentTarget.value) as StoredQuery)}>
          <option value="">Stored queries…</option>
          {stored.map((one) => (
            <option key={one.name}>{one.name}</option>
          ))}
        </select>
      )}
      {past.length > 0 && (
        <select
          aria-label="History"
          value=""
          onChange={(event) => {
            const wanted = event.currentTarget.value;
            if (wanted === "forget") forget(graph.value);
            else if (past[Number(wanted)] !== undefined) onText(past[Number(wanted)] as string);
          }}
        >
          <option value="">History…</option>
          {past.map((one, at) => (
            <option key={one} value={at}>
              {one.replace(/\s+/g, " ").slice(0, 80)}
            </option>
          ))}
          <option value="forget">Forget all of them</option>
        </select>
      )}
    </>
  );
}
