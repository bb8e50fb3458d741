// A node or edge beside the picture: its values, before and after, who wrote them, its past, and its blobs.
import type { ComponentChildren } from "preact";
import { useState } from "preact/hooks";
import { client, take } from "../api";
import { graph, go } from "../location";
import { catalog, commit, mayI, state } from "../store";
import type { Change, EntityVersion, Json, Properties } from "../shapes";
import type { Drawn } from "../draw/picture";
import { useLoad } from "./load";
import { Button, Panel, Problem, Sign, Time, Value, formatValue, showMarks } from "./parts";
import { saveBlob } from "./save";

export function EntityTitle({ element }: { element: Pick<Drawn, "type" | "id" | "change"> }) {
  return (
    <span class="entity-title">
      {element.change && <Sign change={element.change} />}
      <span class="tag">{element.type}</span>
      <b dir="auto">{formatValue(element.id, 80)}</b>
    </span>
  );
}

export function PropertyTable({ properties }: { properties: Properties }) {
  return (
    <table class="properties">
      <tbody>
        {Object.entries(properties).map(([name, value]) => (
          <tr key={name}>
            <th scope="row">{name}</th>
            <td>
              <Value value={value} />
            </td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}

/** Before and after of one row; only what differs, unless all is wanted. */
export function BeforeAfter({ change, showsAll = false }: { change: Change; showsAll?: boolean }) {
  const names = Object.keys({ ...change.before, ...change.after });
  const differing = new Set(change.changed ?? names);
  const shown = showsAll || change.change !== "updated" ? names : names.filter((name) => differing.has(name));
  const cell = (side: Properties | null, name: string) => (side && Object.hasOwn(side, name) ? <Value value={side[name] as Json} /> : <span class="quiet">–</span>);
  return (
    <table class="properties before-after">
      <thead>
        <tr>
          <th scope="col">property</th>
          <th scope="col">before</th>
          <th scope="col">after</th>
        </tr>
      </thead>
      <tbody>
        {shown.map((name) => (
          <tr key={name} class={differing.has(name) ? change.change : ""}>
            <th scope="row">{name}</th>
            <td>{cell(change.before, name)}</td>
            <td>{cell(change.after, name)}</td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}

export function readHistory(type: string, id: string, branch: string, abort: AbortSignal, limit = 100) {
  return take(client.GET("/graphs/{graph}/history", { params: { path: { graph: graph.value }, query: { type, id, branch, limit } }, signal: abort })).then(
    (found) => found.versions as unknown as EntityVersion[],
  );
}

export function Author({ version }: { version: Pick<EntityVersion, "actor" | "at" | "message" | "operation" | "commit"> }) {
  return (
    <p class="author">
      <b>{showMarks(version.actor)}</b> <Time at={version.at} />
      <span class="text">{showMarks(version.message ?? version.operation)}</span>
      <code title={version.commit}>{version.commit.slice(-8)}</code>
    </p>
  );
}

/** The versions of an entity on the branch up to the commit of the page; each can be gone to. */
export function EntityHistory({ type, id, isOpen = false }: { type: string; id: string; isOpen?: boolean }) {
  const [isShown, setShown] = useState(isOpen);
  const { branch } = state.value;
  const past = useLoad(isShown ? (abort) => readHistory(type, id, branch, abort) : null, [type, id, branch, commit.value]);
  return (
    <details open={isShown} onToggle={(event) => setShown(event.currentTarget.open)}>
      <summary>History</summary>
      <Problem error={past.error} />
      <ol class="versions">
        {past.value?.map((version) => (
          <li key={version.commit} aria-current={version.commit === commit.value ? "step" : undefined}>
            <Sign change={version.change} />
            <Author version={version} />
            {version.change === "updated" && <BeforeAfter change={{ ...version, type, id }} />}
            <Button onClick={() => go({ commit: version.commit })}>Go there</Button>
          </li>
        ))}
        {past.value?.length === 0 && <li class="quiet">No version on this branch.</li>}
      </ol>
    </details>
  );
}

/** Links to the bytes of its Blob properties. */
export function Blobs({ type, id }: { type: string; id: string }) {
  const found = [...(catalog.value?.nodes ?? []), ...(catalog.value?.edges ?? [])].find((one) => one.name === type);
  const blobs = found?.properties.filter((one) => one.type === "Blob") ?? [];
  const [error, setError] = useState<Error>();
  if (blobs.length === 0) return null;
  const save = async (property: string) => {
    try {
      const query = { type, id, property, branch: state.value.branch, snapshot: state.value.snapshot };
      const { data, response, error: refused } = await client.GET("/graphs/{graph}/blob", { params: { path: { graph: graph.value }, query }, parseAs: "blob" });
      if (!response.ok) throw new Error(String((refused as { error?: string } | undefined)?.error ?? response.status));
      if (response.status === 204 || !data) setError(new Error(`${property} has no value.`));
      else saveBlob(data as unknown as Blob, `${type}-${property}`);
    } catch (failed) {
      setError(failed as Error);
    }
  };
  return (
    <div class="blobs">
      {blobs.map((one) => (
        <Button key={one.name} icon="download" onClick={() => void save(one.name)}>
          {one.name}
        </Button>
      ))}
      <Problem error={error} />
    </div>
  );
}

/** A node or edge of any picture: what it is, its past, and what can be done with it. */
export function EntityDetail({ element, onClose, children, graphAction = "Show in Graph" }: { element: Drawn; onClose: () => void; children?: ComponentChildren; graphAction?: string }) {
  const open = (view: "graph" | "edit") => go({ view, more: { type: element.type, id: element.id } });
  return (
    <Panel class="detail" title={<EntityTitle element={element} />} aside={<Button icon="close" label="Close" onClick={onClose} />}>
      {children}
      <PropertyTable properties={element.properties} />
      <Blobs type={element.type} id={element.id} />
      <EntityHistory type={element.type} id={element.id} />
      <div class="bar">
        <Button icon="picture" onClick={() => open("graph")}>
          {graphAction}
        </Button>
        {mayI("change") && (
          <Button icon="edit" onClick={() => open("edit")}>
            Edit
          </Button>
        )}
      </div>
    </Panel>
  );
}
