// What was decided about conflicts: made for two heads, and forgotten when one moves on.
import { computed, signal } from "@preact/signals";
import type { Conflict, Decision, Merge, Take } from "../shapes";

/** Decisions by conflict; `heads` are the commits that they were made for. */
export const decisions = signal<ReadonlyMap<string, Take>>(new Map());
export const heads = signal("");

export function keyOf(conflict: Conflict): string {
  return JSON.stringify([conflict.kind, conflict.table, conflict.id, conflict.property]);
}

export function headsOf(merge: Merge): string {
  return `${merge.into_commit} ${merge.source_commit}`;
}

export function decide(merge: Merge, conflict: Conflict, take: Take | null): void {
  const known = heads.value === headsOf(merge) ? new Map(decisions.value) : new Map<string, Take>();
  take === null ? known.delete(keyOf(conflict)) : known.set(keyOf(conflict), take);
  heads.value = headsOf(merge);
  decisions.value = known;
}

export function readDecision(merge: Merge, conflict: Conflict): Take | undefined {
  return heads.value === headsOf(merge) ? decisions.value.get(keyOf(conflict)) : undefined;
}

export const decidedFor = computed(() => heads.value);

/** The documents that a merge takes as `resolutions`, once every conflict is decided; null before. */
export function buildResolutions(merge: Merge): Decision[] | null {
  const lines: Decision[] = [{ base: merge.base_commit, ours: merge.into_commit, theirs: merge.source_commit }];
  for (const conflict of merge.conflicts.shown) {
    const take = readDecision(merge, conflict);
    if (take === undefined) return null;
    const { kind, table, id, property, base, ours, theirs } = conflict;
    lines.push({ kind, type: nameType(table), id, property, base, ours, theirs, take });
  }
  return merge.conflicts.shown.length < merge.conflicts.total ? null : lines;
}

export function nameType(table: string): string {
  return table.slice(table.indexOf(":") + 1);
}

/** What may be taken for a kind of conflict; `value` asks for one. */
export function listTakes(conflict: Conflict): readonly { take: string; label: string }[] {
  switch (conflict.kind) {
    case "DivergentInsert":
    case "DivergentUpdate":
    case "DeleteVsUpdate":
      return [
        { take: "ours", label: "theirs to keep" },
        { take: "theirs", label: "the branch" },
        ...(conflict.base === null || conflict.base === undefined || conflict.kind === "DivergentInsert" ? [] : [{ take: "base", label: "before" }]),
        { take: "value", label: "another value" },
      ];
    case "OrphanEdge":
      return [
        { take: "drop_edge", label: "drop the edge" },
        { take: "keep_node", label: "keep the node" },
      ];
    case "UniqueViolation":
    case "ValueConstraintViolation":
      return [
        { take: "drop", label: "delete the row" },
        { take: "value", label: "another value" },
      ];
    case "CardinalityViolation":
      return [
        { take: "drop", label: "delete all of these edges" },
        { take: "value", label: "keep some edges" },
      ];
    default:
      return [];
  }
}
