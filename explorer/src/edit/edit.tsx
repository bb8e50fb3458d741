// Edit: a form that knows the constraints, the mutation that it makes, what that would change, and then the commit.
import { useEffect, useState } from "preact/hooks";
import { client, take } from "../api";
import { branch, go, graph, place } from "../location";
import { OutcomeNote } from "../review/outcome_note";
import { createWrite } from "../review/writes";
import type { EdgeType, Entity, Json, NodeType } from "../shapes";
import { catalog, commit, epoch, isPinned, mayI, state } from "../store";
import { useLoad } from "../ui/load";
import { ChangePreview, type Previewed } from "../ui/change_preview";
import { Busy, Button, Panel, Problem, Select, formatValue, showMarks, submitting } from "../ui/parts";
import { parseValue, ValueInput } from "../ui/value_input";
import { isEdgeType, writeDelete, writeInsert, writeUpdate, type Statement } from "./statement";

const write = createWrite();

/** Properties that a form can show: not bytes, and not vectors. */
function isEditable(type: string): boolean {
  return !type.startsWith("Blob") && !type.startsWith("Vector");
}

async function readEntity(type: NodeType | EdgeType, id: string, abort: AbortSignal): Promise<Entity | null> {
  const pattern = isEdgeType(type) ? `$a $n:${JSON.stringify(type.name.charAt(0).toLowerCase() + type.name.slice(1))} $b` : `$n: ${type.name}`;
  const body = { query: `query one($id: String) { match { ${pattern} $n.@id = $id } return { $n } }`, params: { id }, ...state.peek() };
  const found = await take(client.POST("/graphs/{graph}/query", { params: { path: { graph: graph.peek() } }, body, signal: abort }));
  return ((found.rows[0] as { n?: Entity } | undefined)?.n ?? null) as Entity | null;
}

function asText(value: Json | undefined): string {
  return value === null || value === undefined ? "" : typeof value === "string" ? value : JSON.stringify(value);
}

export function EditView() {
  const types = [...(catalog.value?.nodes ?? []), ...(catalog.value?.edges ?? [])];
  const name = place.value.more.get("type") ?? types[0]?.name ?? "";
  const id = place.value.more.get("id") ?? "";
  const type = types.find((one) => one.name === name);
  const entity = useLoad(type && id ? (abort) => readEntity(type, id, abort) : null, [name, id, commit.value, epoch.value, type !== undefined]);
  if (!catalog.value) return <Busy />;
  const isReady = !id || !entity.isLoading;
  // What is typed stays while the row is read anew at the commit of an earlier save.
  const isShown = isReady || entity.value?.id === id;
  return (
    <div class="edit" data-commit={commit.value} data-state={isReady ? "ready" : "loading"}>
      <Panel
        title={id ? "Edit" : "Add"}
        aside={
          <>
            <Select label="Type" value={name} options={types.map((one) => one.name)} onChange={(next) => go({ more: { type: next, id: null } })} />
            {id && <Button icon="plus" onClick={() => go({ more: { type: name, id: null } })}>Add another</Button>}
          </>
        }
      >
        <Problem error={entity.error} />
        {!isShown && <Busy />}
        {type && id && entity.value === null && isReady && !entity.error && (
          <p class="empty">
            There is no {name} <b dir="auto">{formatValue(id, 80)}</b> in this state.
          </p>
        )}
        {type && isShown && (!id || entity.value) && <Form key={`${name} ${id} ${id ? JSON.stringify(entity.value) : ""}`} type={type} entity={(id && entity.value) || null} />}
        {isReady && id && entity.value === null && <OutcomeNote outcome={write.outcome.value} branch={branch.value} />}
      </Panel>
    </div>
  );
}

function Form({ type, entity }: { type: NodeType | EdgeType; entity: Entity | null }) {
  const properties = type.properties.filter((one) => isEditable(one.type));
  const initial = new Map(properties.map((one) => [one.name, entity ? asText(entity[one.name]) : asText(one.has_default ? one.default : null)]));
  const [texts, setTexts] = useState<ReadonlyMap<string, string>>(initial);
  const [touched, setTouched] = useState<ReadonlySet<string>>(new Set());
  const [ends, setEnds] = useState<readonly [string, string]>(["", ""]);
  const [preview, setPreview] = useState<Previewed>();
  const [error, setError] = useState<Error>();
  useEffect(() => {
    setPreview(undefined);
    setError(undefined);
  }, [texts, ends]);
  const keys = new Set(type.key ?? []);
  const isFixed = (property: string) => entity !== null && keys.has(property);
  const read = new Map(properties.map((one) => [one.name, parseValue(one, texts.get(one.name) ?? "")]));
  // An update gives what differs; an insert what was filled in, and what has neither default nor null.
  const given = properties.filter((one) => (entity ? texts.get(one.name) !== initial.get(one.name) && !isFixed(one.name) : touched.has(one.name) || one.required));
  const wrong = given.find((one) => read.get(one.name)?.problem !== undefined);
  const values = new Map(given.flatMap((one) => (read.get(one.name)?.problem === undefined ? [[one.name, read.get(one.name)?.value as Json] as const] : [])));
  const isComplete = !wrong && (entity ? given.length > 0 : !isEdgeType(type) || (ends[0] !== "" && ends[1] !== ""));
  const statement = entity ? writeUpdate(type, entity.id, values) : writeInsert(type, values, isEdgeType(type) ? ends : null);
  const send = ({ query, params }: Statement, more: object) => take(client.POST("/graphs/{graph}/mutate", { params: { path: { graph: graph.value } }, body: { query, params, branch: branch.value, ...more } }));
  const look = () => send(statement, { dry_run: true }).then((found) => setPreview(found as unknown as Previewed), setError);
  const save = (one: Statement, text: string) =>
    write.run(
      branch.value,
      { ...one },
      ({ idempotency_key }) => send(one, { idempotency_key }),
      (found) => {
        if (!entity) {
          setTexts(initial);
          setTouched(new Set());
          setEnds(["", ""]);
        }
        return { commit: found.commit_id, text };
      },
    );
  const canWrite = mayI("change") && !isPinned.value;
  return (
    <form class="edit-form" onSubmit={submitting(() => void look())}>
      {entity && (
        <p>
          <span class="tag">{type.name}</span> <b dir="auto">{formatValue(entity.id, 80)}</b>
        </p>
      )}
      <div class="fields">
        {isEdgeType(type) && !entity && (
          <>
            {(["from", "to"] as const).map((side, at) => (
              <label key={side} class="value-input">
                <span>
                  {side} <span class="quiet">id of a {type[side]}</span>
                </span>
                <input type="text" value={ends[at]} onInput={(event) => setEnds(at === 0 ? [event.currentTarget.value, ends[1]] : [ends[0], event.currentTarget.value])} />
              </label>
            ))}
          </>
        )}
        {properties.map((one) => (
          <ValueInput
            key={one.name}
            property={one}
            text={texts.get(one.name) ?? ""}
            isDisabled={isFixed(one.name)}
            label={`${one.name}${keys.has(one.name) ? " (key)" : ""}`}
            problem={touched.has(one.name) || texts.get(one.name) !== initial.get(one.name) ? read.get(one.name)?.problem : undefined}
            onText={(text) => {
              setTexts(new Map(texts).set(one.name, text));
              setTouched(new Set(touched).add(one.name));
            }}
          />
        ))}
      </div>
      {entity && given.length === 0 ? (
        <p class="hint">Change a value to see the mutation that it makes.</p>
      ) : (
        <details open>
          <summary>The mutation</summary>
          <pre class="json" tabIndex={0}>
            {statement.query}
            {"\n\n// "}
            {showMarks(JSON.stringify(statement.params))}
          </pre>
        </details>
      )}
      {isPinned.value && <p class="hint">This is an earlier state. Go back to the newest to change it.</p>}
      {!mayI("change") && <p class="hint">Your token may not change {branch.value}.</p>}
      <div class="bar">
        <Button type="submit" disabled={!canWrite || !isComplete}>
          Preview
        </Button>
        <Button kind="primary" disabled={!canWrite || !isComplete} onClick={() => void save(statement, "Saved.")}>
          Save to {branch.value}
        </Button>
        {entity && (
          <Button kind="danger" disabled={!canWrite} onClick={() => confirm(`Delete ${type.name} ${formatValue(entity.id, 80)}${isEdgeType(type) ? "" : " and its edges"}?`) && void save(writeDelete(type, entity.id), "Deleted.")}>
            Delete
          </Button>
        )}
      </div>
      <Problem error={error} />
      {preview !== undefined && <ChangePreview found={preview} />}
      <OutcomeNote outcome={write.outcome.value} branch={branch.value} />
    </form>
  );
}
