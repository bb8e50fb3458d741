// The differences as a table: by type, by row, by property.
import { edgeKey, nodeKey } from "../draw/picture";
import type { Change } from "../shapes";
import { formatValue, Sign, Value } from "../ui/parts";

export function keyOfChange(change: { type?: string; edge?: string; id: string }): string {
  return change.edge === undefined ? nodeKey(change.type ?? "", change.id) : edgeKey(change.edge, change.id);
}

interface Props {
  changes: Change[];
  conflicts?: ReadonlySet<string>;
  selected?: string | null;
  /** Without it, rows can't be chosen. */
  onSelect?: (key: string) => void;
}

export function ChangeTable({ changes, conflicts, selected, onSelect }: Props) {
  const groups = new Map<string, Change[]>();
  for (const change of changes) {
    const type = change.edge ?? change.type ?? "";
    const group = groups.get(type);
    group ? group.push(change) : groups.set(type, [change]);
  }
  return (
    <div class="scroll">
      <table class="change-table" aria-label="Changes">
        <thead>
          <tr>
            <th scope="col">
              <span class="visually-hidden">change</span>
            </th>
            <th scope="col">row</th>
            <th scope="col">what differs</th>
          </tr>
        </thead>
        {[...groups].map(([type, rows]) => (
          <tbody key={type}>
            <tr class="group">
              <th scope="rowgroup" colSpan={3}>
                {type} <span class="quiet">{rows.length}</span>
              </th>
            </tr>
            {rows.map((change) => {
              const key = keyOfChange(change);
              return (
                <tr key={key} class={change.change} aria-selected={onSelect && selected === key} onClick={() => onSelect?.(key)}>
                  <td>
                    <Sign change={change.change} />
                  </td>
                  <th scope="row">
                    {onSelect ? (
                      <button type="button" class="link" dir="auto" onClick={() => onSelect(key)}>
                        {nameRow(change)}
                      </button>
                    ) : (
                      <b dir="auto">{nameRow(change)}</b>
                    )}{" "}
                    {conflicts?.has(key) && <span class="tag bad">conflict</span>}
                  </th>
                  <td>
                    <Difference change={change} />
                  </td>
                </tr>
              );
            })}
          </tbody>
        ))}
      </table>
    </div>
  );
}

function nameRow(change: Change): string {
  const side = change.after ?? change.before;
  if (change.edge !== undefined && side) return `${formatValue(side.from, 40)} → ${formatValue(side.to, 40)}`;
  return formatValue(change.id, 80);
}

function Difference({ change }: { change: Change }) {
  if (change.change === "updated") {
    return (
      <ul class="differences">
        {(change.changed ?? []).map((name) => (
          <li key={name}>
            <b>{name}</b> <del>{<Value value={change.before?.[name]} />}</del> → <ins>{<Value value={change.after?.[name]} />}</ins>
          </li>
        ))}
      </ul>
    );
  }
  const side = change.after ?? change.before ?? {};
  const shown = Object.entries(side).filter(([name, value]) => value !== null && name !== "from" && name !== "to");
  return <span class="quiet">{formatValue(shown.map(([name, value]) => `${name}: ${formatValue(value, 60)}`).join(", "), 160)}</span>;
}
