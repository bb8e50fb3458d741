// The commit graph of all branches, with filters; a click goes there.
import { useMemo, useState } from "preact/hooks";
import { client, take } from "../api";
import { go, graph } from "../location";
import type { Commit } from "../shapes";
import { branches, catalog, commit, epoch } from "../store";
import { readTheme } from "../draw/colours";
import { useLoad } from "../ui/load";
import { Busy, Button, Panel, Problem, Time, showMarks } from "../ui/parts";

const ROW = 44;
const LANE = 16;
const STEP = 200;
/** The most that a server returns at once. */
const PAGE = 1000;

async function readLog(filters: string[], most: number, abort: AbortSignal): Promise<{ commits: Commit[]; hasMore: boolean }> {
  const commits: Commit[] = [];
  let cursor: string | undefined;
  do {
    const query = { all_branches: true, limit: Math.min(most - commits.length, PAGE), cursor, ...(filters.length > 0 ? { filter: filters } : {}) };
    const page = await take(client.GET("/graphs/{graph}/commits", { params: { path: { graph: graph.value }, query }, signal: abort }));
    commits.push(...(page.commits as unknown as Commit[]));
    cursor = page.next_cursor ?? undefined;
  } while (cursor && commits.length < most);
  return { commits, hasMore: cursor !== undefined };
}

function Filter(props: { label: string; every: string; value: string; options: readonly string[]; onChange: (value: string) => void }) {
  return (
    <select aria-label={props.label} value={props.value} onChange={(event) => props.onChange(event.currentTarget.value)}>
      <option value="">{props.every}</option>
      {props.options.map((one) => (
        <option key={one} value={one}>
          {showMarks(one)}
        </option>
      ))}
    </select>
  );
}

export function CommitLog() {
  const [actor, setActor] = useState("");
  const [onBranch, setOnBranch] = useState("");
  const [type, setType] = useState("");
  const [words, setWords] = useState("");
  const [most, setMost] = useState(STEP);
  const filters = [actor && `actor=${actor}`, onBranch && `branch=${onBranch}`, type && `type=${type}`, words && `message=${words}`].filter(Boolean);
  const log = useLoad((abort) => readLog(filters, most, abort), [graph.value, epoch.value, most, JSON.stringify(filters)]);
  const types = [...(catalog.value?.nodes ?? []), ...(catalog.value?.edges ?? [])].map((one) => one.name);
  return (
    <Panel
      title="Commits"
      class="log"
      aside={
        <>
          <input type="search" aria-label="Only with these words in the message" placeholder="message" value={words} onChange={(event) => setWords(event.currentTarget.value.trim())} />
          <input type="search" aria-label="Only of this actor" placeholder="actor" value={actor} onChange={(event) => setActor(event.currentTarget.value.trim())} />
          <Filter label="Only on this branch" every="all branches" value={onBranch} options={branches.value.map((one) => one.name)} onChange={setOnBranch} />
          <Filter label="Only of this type" every="all types" value={type} options={types} onChange={setType} />
        </>
      }
    >
      <Problem error={log.error} />
      {log.isLoading && !log.value && <Busy />}
      {log.value && <Log commits={log.value.commits} />}
      {log.value?.hasMore && <Button onClick={() => setMost(most + STEP)}>Older commits</Button>}
      {log.value?.commits.length === 0 && <p class="quiet">No commit matches.</p>}
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
