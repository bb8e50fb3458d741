// Review: what a branch changes, drawn and in a table; conflicts settled in place; merge, and revert.
import { useMemo, useState } from "preact/hooks";
import { client, take } from "../api";
import { Canvas, type Look } from "../draw/canvas";
import { readTheme, type Theme } from "../draw/colours";
import { Legend } from "../draw/legend";
import { PictureBuilder } from "../draw/picture";
import { branch, go, graph, place } from "../location";
import type { Change, Commit, Counts, Diff, Merge } from "../shapes";
import { branches, catalog, commit, commits, epoch, isPinned, mayI } from "../store";
import { useLoad } from "../ui/load";
import { Busy, Choice, CountBadges, Panel, Problem, Select, showMarks, Time } from "../ui/parts";
import { BranchList } from "./branch_list";
import { ChangeTable, keyOfChange } from "./change_table";
import { ChangeDetail } from "./change_detail";
import { CommitLog } from "./commit_log";
import { ConflictList } from "./conflict_list";
import { MergeBar } from "./merge_bar";
import { RevertBar } from "./revert_bar";

/** Changes on one page of the table and in the picture; neighbours drawn around them. */
const PAGE = 500;
const AROUND = 300;

const LOOK: Look = {
  node: (node, theme) => ({
    color: node.change ? theme.changes[node.change] : theme.quiet,
    size: node.change ? (node.isConflict ? 15 : 12) : 8,
  }),
  edge: (edge, theme) => ({ color: edge.change ? theme.changes[edge.change] : theme.edge, size: edge.change ? 3.5 : 1.5, isQuiet: !edge.change }),
};

function listKinds({ changes, quiet }: Theme) {
  return [...Object.entries(changes), ["unchanged neighbour", quiet] as const].map(([label, colour]) => ({ label, colour }));
}

/** The branch that a review compares with: given in the link, or the one that it was created from. */
function readTarget(): string | null {
  const given = place.value.more.get("into");
  if (given) return given === branch.value ? null : given;
  const found = branches.value.find((one) => one.name === branch.value);
  return found?.parent_branch && found.parent_branch !== branch.value ? found.parent_branch : null;
}

interface Reviewed {
  /** The branch to merge into; null where one commit is shown. */
  into: string | null;
  at: string;
  diff: Diff;
  counts: Record<string, Counts>;
  commit: Commit | null;
}

async function readReview(into: string | null, of: string, at: string, abort: AbortSignal): Promise<Reviewed> {
  const shown = commits.peek().find((one) => one.id === at) ?? null;
  const after = `${of}@${at}`;
  // Without a branch to compare with, the commit is compared with the one before it.
  const before = into ?? (shown?.parent ? `${of}@${shown.parent}` : after);
  const path = { graph: graph.value };
  const query = { before, after, ...(into ? { base: "merge" as const } : {}) };
  const [diff, counted] = await Promise.all([
    take(client.GET("/graphs/{graph}/diff", { params: { path, query: { ...query, limit: PAGE, around: AROUND } }, signal: abort })),
    take(client.GET("/graphs/{graph}/diff", { params: { path, query: { ...query, counts: true } }, signal: abort })),
  ]);
  return { into, at, diff: diff as unknown as Diff, counts: (counted.types ?? {}) as unknown as Record<string, Counts>, commit: shown };
}

function tryMerge(source: string, into: string, abort: AbortSignal): Promise<Merge> {
  const body = { source, into, dry_run: true, all_conflicts: true };
  return take(client.POST("/graphs/{graph}/merge", { params: { path: { graph: graph.value } }, body, signal: abort })) as unknown as Promise<Merge>;
}

export function ReviewView() {
  // Which branch to compare with is not known before.
  return branches.value.length === 0 ? <Busy /> : <Review />;
}

function Review() {
  const into = readTarget();
  const at = commit.value as string;
  const of = branch.value;
  const review = useLoad((abort) => readReview(into, of, at, abort), [graph.value, of, into, at, epoch.value]);
  const canTry = into !== null && !isPinned.value && mayI("branch_merge", into);
  const trial = useLoad(canTry ? (abort) => tryMerge(of, into, abort) : null, [graph.value, of, into, at, epoch.value, canTry]);
  const found = review.value;
  const conflicts = trial.value?.outcome === "conflicts" ? trial.value.conflicts.shown : [];
  return (
    <div class="review" data-commit={found?.at ?? ""} data-state={review.isLoading || trial.isLoading ? "loading" : "ready"}>
      <Panel title="Branches" class="branches">
        <BranchList />
      </Panel>
      <div class="middle">
        <Panel
          title={into ? `${of} → ${into}` : "What this commit changed"}
          aside={
            into && (
              <Select label="Into" value={into} options={branches.value.map((one) => one.name).filter((name) => name !== of)} onChange={(name) => go({ more: { into: name } }, true)} />
            )
          }
          class="headline"
        >
          {found && <Summary found={found} />}
          {into && trial.value && <MergeBar into={into} trial={trial.value} />}
          {into && !canTry && !isPinned.value && <p class="quiet">Your token may read this, and not merge into {into}.</p>}
          <Problem error={trial.error} />
          {!into && found?.commit && <RevertBar commit={found.commit} />}
        </Panel>
        <Problem error={review.error} />
        {!found && review.isLoading && <Busy text="Comparing…" />}
        {conflicts.length > 0 && trial.value && <ConflictList merge={trial.value} />}
        {found && <Changes found={found} conflicts={new Set(conflicts.map((one) => keyOfRow(one.table, one.id)))} isStale={review.isLoading} />}
        <CommitLog />
      </div>
    </div>
  );
}

function keyOfRow(table: string, id: string): string {
  const [kind, ...name] = table.split(":");
  return keyOfChange(kind === "edge" ? { edge: name.join(":"), id } : { type: name.join(":"), id });
}

function Summary({ found }: { found: Reviewed }) {
  const total = { inserted: 0, updated: 0, deleted: 0 };
  for (const one of Object.values(found.counts)) for (const name of ["inserted", "updated", "deleted"] as const) total[name] += one[name];
  return (
    <div class="summary">
      <CountBadges {...total} />
      <ul class="by-type">
        {Object.entries(found.counts).map(([type, counts]) => (
          <li key={type}>
            {type} <CountBadges {...counts} />
          </li>
        ))}
      </ul>
      {found.commit && (
        <p class="author">
          <b>{showMarks(found.commit.actor)}</b> <Time at={found.commit.at} /> <span class="text">{showMarks(found.commit.message ?? found.commit.operation)}</span>
        </p>
      )}
    </div>
  );
}

function Changes({ found, conflicts, isStale }: { found: Reviewed; conflicts: ReadonlySet<string>; isStale: boolean }) {
  const [selected, setSelected] = useState<string | null>(null);
  const [shows, setShows] = useState<"both" | "picture" | "table">("both");
  const conflictKeys = [...conflicts].join();
  const picture = useMemo(() => {
    const builder = new PictureBuilder(catalog.value);
    for (const node of found.diff.graph?.nodes ?? []) builder.entity(node);
    const isNode = (change: Change) => change.edge === undefined;
    for (const change of [...found.diff.changes.filter(isNode), ...found.diff.changes.filter((one) => !isNode(one))]) {
      builder.difference(change, conflicts.has(keyOfChange(change)));
    }
    for (const edge of found.diff.graph?.edges ?? []) builder.entity(edge);
    return builder.build();
  }, [found, catalog.value, conflictKeys]);
  const chosen = selected ? (picture.nodes.get(selected) ?? picture.edges.get(selected)) : undefined;
  if (found.diff.changes.length === 0) return <p class="empty">Nothing differs here.</p>;
  return (
    <Panel
      title="Changes"
      class={`changes ${isStale ? "stale" : ""}`}
      aside={
        <Choice
          name="Shown as"
          value={shows}
          options={[
            ["both", "Both"],
            ["picture", "Picture"],
            ["table", "Table"],
          ]}
          onChange={setShows}
        />
      }
    >
      {found.diff.next_cursor && <p class="hint">The first {PAGE} changes are shown; the numbers above count all of them.</p>}
      <div class={`split ${chosen ? "has-detail" : ""}`}>
        <div>
          {shows !== "table" && (
            <>
              <Legend entries={listKinds(readTheme())} />
              <Canvas picture={picture} look={LOOK} label="Changes among their neighbours" selected={selected} onSelect={setSelected} />
            </>
          )}
          {shows !== "picture" && <ChangeTable changes={found.diff.changes} conflicts={conflicts} selected={selected} onSelect={setSelected} />}
        </div>
        {chosen && <ChangeDetail element={chosen} onClose={() => setSelected(null)} />}
      </div>
    </Panel>
  );
}
