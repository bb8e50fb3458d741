// Branches, newest first, each with what it changes; a click reviews it.
import { client, take } from "../api";
import { branch, go, graph } from "../location";
import type { Branch, Counts } from "../shapes";
import { branches, epoch } from "../store";
import { useLoad } from "../ui/load";
import { Busy, CountBadges, Time, showMarks } from "../ui/parts";

/** So many branches are compared at once; others when they are opened. */
const COUNTED = 30;

export function BranchList() {
  const others = branches.value.filter((one) => one.name !== "main").sort((a, b) => (b.created_at ?? "").localeCompare(a.created_at ?? ""));
  const main = branches.value.find((one) => one.name === "main");
  return (
    <ul class="branch-list">
      {[...(main ? [main] : []), ...others].map((one, place) => (
        <li key={one.name}>
          <button type="button" aria-current={one.name === branch.value ? "true" : undefined} onClick={() => go({ branch: one.name, commit: null, more: { into: null } })}>
            <b dir="auto">{showMarks(one.name)}</b>
            {one.parent_branch && place <= COUNTED && <BranchCounts one={one} />}
            {one.created_at && (
              <span class="quiet">
                {showMarks(one.created_by ?? "")} · <Time at={one.created_at} />
              </span>
            )}
          </button>
        </li>
      ))}
    </ul>
  );
}

function BranchCounts({ one }: { one: Branch }) {
  const found = useLoad(
    (abort) => {
      const query = { before: one.parent_branch as string, after: one.name, base: "merge" as const, counts: true };
      return take(client.GET("/graphs/{graph}/diff", { params: { path: { graph: graph.value }, query }, signal: abort }));
    },
    [graph.value, one.name, epoch.value],
  );
  if (found.error) return <span class="quiet">not comparable</span>;
  if (!found.value) return <Busy text="…" />;
  const total = { inserted: 0, updated: 0, deleted: 0 };
  for (const counts of Object.values((found.value.types ?? {}) as unknown as Record<string, Counts>)) {
    for (const name of ["inserted", "updated", "deleted"] as const) total[name] += counts[name];
  }
  return <CountBadges {...total} />;
}
