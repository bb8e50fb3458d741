// The commit graph of all branches, with filters; a click goes there.
import { useMemo, useState } from "preact/hooks";
import { client, take } from "../api";
import { go, graph } from "../location";
import type { Commit } from "../shapes";
import { commit, epoch } from "../store";
import { readTheme } from "../draw/colours";
import { useLoad } from "../ui/load";
import { Busy, Panel, Problem, Time, showMarks } from "../ui/parts";

const ROW = 44;
const LANE = 16;
const MOST = 200;

async function readLog(filters: string[], abort: AbortSignal): Promise<Commit[]> {
  const query = { all_branches: true, limit: MOST, ...(filters.length > 0 ? { filter: filters } : {}) };
  const page = await take(client.GET("/graphs/{graph}/commits", { params: { path: { graph: graph.value }, query }, signal: abort }));
  return page.commits as unknown as Commit[];
}

export function CommitLog() {
  const [actor, setActor] = useState("");
  const [onBranch, setOnBranch] = useState("");
  const filters = [actor && `actor=${actor}`, onBranch && `branch=${onBranch}`].filter(Boolean);
  const log = useLoad((abort) => readLog(filters, abort), [graph.value, epoch.value, ...filters, filters.length]);
  return (
    <Panel
      title="Commits"
      class="log"
      aside={
        <>
          <input type="text" aria-label="Only of this actor" placeholder="actor" value={actor} onChange={(event) => setActor(event.currentTarget.value.trim())} />
          <input type="text" aria-label="Only on this branch" placeholder="branch" value={onBranch} onChange={(event) => setOnBranch(event.currentTarget.value.trim())} />
        </>
      }
    >
      <Problem error={log.error} />
      {log.isLoading && !log.value && <Busy />}
      {log.value && <Log commits={log.value} />}
      {log.value?.length === 0 && <p class="quiet">No commit matches.</p>}
    </Panel>
  );
}

interface Laid {
  lanes: Map<string, number>;
  width: number;
}

/** A lane for each branch, in the order of their newest commits; main is the first. */
function layOut(commits: Commit[]): Laid {
  const lanes = new Map<string, number>([["main", 0]]);
  for (const one of commits) if (!lanes.has(one.branch)) lanes.set(one.branch, lanes.size);
  return { lanes, width: Math.min(lanes.size, 8) * LANE + 8 };
}

function Log({ commits }: { commits: Commit[] }) {
  const theme = readTheme();
  const laid = useMemo(() => layOut(commits), [commits]);
  const places = useMemo(() => new Map(commits.map((one, place) => [one.id, place])), [commits]);
  const x = (one: Commit) => (Math.min(laid.lanes.get(one.branch) ?? 0, 7) + 0.5) * LANE;
  const y = (place: number) => (place + 0.5) * ROW;
  const colour = (one: Commit) => theme.types[(laid.lanes.get(one.branch) ?? 0) % theme.types.length] as string;
  return (
    <div class="log-rows scroll">
      <svg width={laid.width} height={commits.length * ROW} aria-hidden="true">
        {commits.flatMap((one, place) =>
          [one.parent, one.merged_parent].map((parent) => {
            const at = parent ? places.get(parent) : undefined;
            const above = at === undefined ? undefined : commits[at];
            if (at === undefined || !above) return null;
            const [x1, y1, x2, y2] = [x(one), y(place), x(above), y(at)];
            return <path key={`${one.id} ${parent}`} d={`M${x1} ${y1}C${x1} ${y1 + ROW * 0.7} ${x2} ${y2 - ROW * 0.7} ${x2} ${y2}`} fill="none" stroke={colour(parent === one.parent ? one : above)} stroke-width="2" />;
          }),
        )}
        {commits.map((one, place) => (
          <circle key={one.id} cx={x(one)} cy={y(place)} r={one.id === commit.value ? 6 : 4} fill={colour(one)} stroke={theme.paper} stroke-width="2" />
        ))}
      </svg>
      <ol>
        {commits.map((one) => (
          <li key={one.id}>
            <button type="button" aria-current={one.id === commit.value ? "step" : undefined} onClick={() => go({ branch: one.branch, commit: one.id, more: { into: one.branch } })}>
              <span class="text">
                <b>{showMarks(one.message ?? one.operation)}</b>
              </span>
              <span class="quiet">
                {showMarks(one.actor)} · <Time at={one.at} /> · <span class="tag">{showMarks(one.branch)}</span> {one.operation} {countRows(one)}
              </span>
            </button>
          </li>
        ))}
      </ol>
    </div>
  );
}

function countRows(one: Commit): string {
  const change = one.changes.reduce((sum, table) => sum + table.rows_after - table.rows_before, 0);
  return change === 0 ? "" : `${change > 0 ? "+" : "−"}${Math.abs(change)} rows`;
}
