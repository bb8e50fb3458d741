// What a mutation would change, before it does.
import { ChangeTable } from "../review/change_table";
import type { Change, Counts } from "../shapes";
import { CountBadges } from "./parts";

/** The answer to a mutation with `dry_run`. */
export interface Previewed {
  preview?: { types: Record<string, Omit<Counts, "properties">>; changes: Change[] } | null;
}

export function ChangePreview({ found }: { found: Previewed }) {
  const types = Object.entries(found.preview?.types ?? {});
  const total = types.reduce((sum, [, one]) => sum + one.inserted + one.updated + one.deleted, 0);
  const changes = found.preview?.changes ?? [];
  return (
    <section aria-label="What it would change">
      {total === 0 && <p class="quiet">Nothing: no row would differ.</p>}
      <ul class="by-type">
        {types.map(([type, counts]) => (
          <li key={type}>
            {type} <CountBadges {...counts} />
          </li>
        ))}
      </ul>
      {changes.length > 0 && <ChangeTable changes={changes} />}
      {changes.length < total && <p class="hint">{changes.length.toLocaleString("en")} of {total.toLocaleString("en")} rows are shown.</p>}
    </section>
  );
}
