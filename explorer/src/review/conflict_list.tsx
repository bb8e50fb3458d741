// Conflicts, settled row by row in place.
import { useEffect, useState } from "preact/hooks";
import { catalog } from "../store";
import type { Conflict, Json, Merge, Property, Take } from "../shapes";
import { ValueInput, parseValue } from "../ui/value_input";
import { Button, Panel, Value, formatValue } from "../ui/parts";
import { decide, listTakes, nameType, readDecision } from "./decisions";

export function ConflictList({ merge }: { merge: Merge }) {
  const { shown, total } = merge.conflicts;
  const settled = shown.filter((one) => readDecision(merge, one) !== undefined).length;
  const all = (take: string) => shown.filter((one) => listTakes(one).some((option) => option.take === take)).forEach((one) => decide(merge, one, take));
  return (
    <Panel
      title={`${total} ${total === 1 ? "conflict" : "conflicts"}`}
      class="conflicts"
      aside={
        <>
          <span class={settled === total ? "tag good" : "tag bad"} role="status">
            {settled} of {total} settled
          </span>
          <Button onClick={() => all("ours")}>All from {merge.into}</Button>
          <Button onClick={() => all("theirs")}>All from {merge.source}</Button>
        </>
      }
    >
      <ol class="conflict-list">
        {shown.map((one) => (
          <ConflictCard key={`${one.kind} ${one.table} ${one.id} ${one.property}`} merge={merge} conflict={one} />
        ))}
      </ol>
    </Panel>
  );
}

/** What happened, in words; the server's name of the kind is the tooltip. */
const KINDS: Record<string, string> = {
  DivergentInsert: "added on both sides",
  DivergentUpdate: "changed on both sides",
  DeleteVsUpdate: "deleted and changed",
  OrphanEdge: "edge without its node",
  UniqueViolation: "the same unique value",
  CardinalityViolation: "too many edges",
  ValueConstraintViolation: "breaks a rule",
};

function findProperty(conflict: Conflict): Property | undefined {
  const name = nameType(conflict.table);
  const types = [...(catalog.value?.nodes ?? []), ...(catalog.value?.edges ?? [])];
  return types.find((one) => one.name === name)?.properties.find((one) => one.name === conflict.property);
}

function ConflictCard({ merge, conflict }: { merge: Merge; conflict: Conflict }) {
  const taken = readDecision(merge, conflict);
  const chosen = taken === undefined ? "" : typeof taken === "string" ? taken : "value";
  const isRow = ["DivergentInsert", "DivergentUpdate", "DeleteVsUpdate"].includes(conflict.kind);
  const values: Record<string, Json> = { ours: conflict.ours, theirs: conflict.theirs, base: conflict.base };
  const names: Record<string, string> = { ours: merge.into, theirs: merge.source, base: "before both" };
  const take = (value: Take | null) => decide(merge, conflict, value);
  const heading = `${nameType(conflict.table)} ${formatValue(conflict.id, 60)}${conflict.property ? `, ${conflict.property}` : ""}`;
  return (
    <li class={taken === undefined ? "open" : "settled"}>
      <fieldset>
        <legend>
          <b dir="auto">{heading}</b>{" "}
          <span class="tag" title={conflict.kind}>
            {KINDS[conflict.kind] ?? conflict.kind}
          </span>
        </legend>
        {!isRow && <p class="text">{formatValue(conflict.message)}</p>}
        <div class="takes">
          {listTakes(conflict).map((option) => (
            <label key={option.take} class={chosen === option.take ? "chosen" : ""}>
              <input
                type="radio"
                name={`take ${heading}`}
                value={option.take}
                checked={chosen === option.take}
                onChange={() => take(option.take === "value" ? { value: isRow ? conflict.theirs : [] } : option.take)}
              />
              <span class="quiet">{isRow ? (names[option.take] ?? option.label) : option.label}</span>
              {isRow && option.take in values && (values[option.take] === null && !conflict.property ? <em>deleted</em> : <Value value={values[option.take]} />)}
            </label>
          ))}
        </div>
        {chosen === "value" && typeof taken === "object" && <OwnValue property={findProperty(conflict)} value={taken.value} onChange={(value) => take({ value })} />}
        {listTakes(conflict).length === 0 && <p>Apply one side's schema to the other branch first.</p>}
      </fieldset>
    </li>
  );
}

function OwnValue({ property, value, onChange }: { property: Property | undefined; value: Json; onChange: (value: Json) => void }) {
  const known: Property = property ?? { name: "value", type: "JSON", nullable: true, required: false, has_default: false, default: null, description: null, values: null, range: null, pattern: null };
  const [text, setText] = useState(() => (value === null ? "" : typeof value === "string" && property ? value : JSON.stringify(value)));
  const read = parseValue(known, text);
  useEffect(() => {
    if (read.problem === undefined) onChange(read.value);
  }, [text]);
  return <ValueInput property={known} text={text} onText={setText} label="Your value" problem={read.problem} />;
}
