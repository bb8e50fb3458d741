// Schema: types and edges as a picture with counts; their properties and constraints; a click samples rows.
import { useMemo, useState } from "preact/hooks";
import { client, take } from "../api";
import { Canvas, type Look } from "../draw/canvas";
import { colourOfType } from "../draw/colours";
import { edgeKey, nodeKey, type DrawnEdge, type DrawnNode, type Picture } from "../draw/picture";
import { graph } from "../location";
import type { Catalog, EdgeType, Json, NodeType, Property, Rows } from "../shapes";
import { catalog, commit, state } from "../store";
import { Grid } from "../ui/grid";
import { useLoad } from "../ui/load";
import { Busy, Button, Choice, Panel, Problem, formatValue, shortType } from "../ui/parts";

const SAMPLE = 20;

function drawSchema(found: Catalog): Picture {
  const nodes = found.nodes.map((one): [string, DrawnNode] => {
    const key = nodeKey(one.name, "");
    // An edge from a type to itself is named with the node: a line to itself can't be seen.
    const loops = found.edges.filter((edge) => edge.from === one.name && edge.to === one.name).map((edge) => `   ↻ ${edge.name} ${edge.rows.toLocaleString("en")}`);
    return [key, { key, type: one.name, id: "", properties: { rows: one.rows }, label: `${one.name} ${one.rows.toLocaleString("en")}${loops.join("")}` }];
  });
  const edges = found.edges.map((one): [string, DrawnEdge] => {
    const key = edgeKey(one.name, "");
    return [key, { key, type: `${one.name}  ${one.rows.toLocaleString("en")}`, id: "", properties: { rows: one.rows }, from: nodeKey(one.from, ""), to: nodeKey(one.to, "") }];
  });
  const known = new Map(nodes);
  return { nodes: known, edges: new Map(edges.filter(([, one]) => known.has(one.from) && known.has(one.to))) };
}

export function SchemaView() {
  const found = catalog.value;
  const [selected, setSelected] = useState<string | null>(null);
  const [shows, setShows] = useState<"both" | "text">("both");
  const picture = useMemo(() => (found ? drawSchema(found) : { nodes: new Map(), edges: new Map() }), [found]);
  const look = useMemo<Look>(() => {
    const names = (found?.nodes ?? []).map((one) => one.name);
    const most = Math.max(1, ...(found?.nodes ?? []).map((one) => one.rows));
    return {
      node: (node, theme) => ({ color: colourOfType(theme, names, node.type), size: 14 + 16 * Math.sqrt(Number(node.properties.rows) / most) }),
      edge: (_, theme) => ({ color: theme.edge, size: 3 }),
    };
  }, [found]);
  if (!found) return <Busy text="Reading the schema…" />;
  const type = [...found.nodes, ...found.edges].find((one) => selected === nodeKey(one.name, "") || selected === edgeKey(one.name, ""));
  return (
    <div class="schema" data-commit={found.commit_id} data-state={found.commit_id === commit.value ? "ready" : "loading"}>
      <Panel
        title={`${found.nodes.length} node types, ${found.edges.length} edge types, ${found.rows.toLocaleString("en")} rows`}
        aside={
          <Choice
            name="Shown as"
            value={shows}
            options={[
              ["both", "Picture and table"],
              ["text", "Source"],
            ]}
            onChange={setShows}
          />
        }
      >
        {shows === "text" ? (
          <Source />
        ) : (
          <>
            <Canvas picture={picture} look={look} label="Types" selected={selected} onSelect={setSelected} />
            <TypeTable found={found} selected={selected} onSelect={setSelected} />
          </>
        )}
      </Panel>
      {type && <TypeDetail type={type} onClose={() => setSelected(null)} />}
    </div>
  );
}

function TypeTable({ found, selected, onSelect }: { found: Catalog; selected: string | null; onSelect: (key: string) => void }) {
  const row = (one: NodeType | EdgeType, key: string, ends: string) => (
    <tr key={key} aria-selected={selected === key} onClick={() => onSelect(key)}>
      <th scope="row">
        <button type="button" class="link" onClick={() => onSelect(key)}>
          {one.name}
        </button>
      </th>
      <td>{ends}</td>
      <td class="amount">{one.rows.toLocaleString("en")}</td>
      <td>{one.properties.map((property) => property.name).join(", ")}</td>
    </tr>
  );
  return (
    <div class="scroll">
      <table aria-label="Types">
        <thead>
          <tr>
            <th scope="col">type</th>
            <th scope="col">what</th>
            <th scope="col" class="amount">
              rows
            </th>
            <th scope="col">properties</th>
          </tr>
        </thead>
        <tbody>
          {found.nodes.map((one) => row(one, nodeKey(one.name, ""), one.implements.length > 0 ? `node, ${one.implements.join(", ")}` : "node"))}
          {found.edges.map((one) => row(one, edgeKey(one.name, ""), `${one.from} → ${one.to}, ${one.cardinality}`))}
        </tbody>
      </table>
    </div>
  );
}

function describe(one: Property): string {
  const parts = [one.values && `one of ${one.values.join(", ")}`, one.range && `${formatValue(one.range.low)} to ${formatValue(one.range.high)}`, one.pattern && `matches ${one.pattern}`, one.has_default && `default ${formatValue(one.default)}`];
  return parts.filter(Boolean).join("; ");
}

function TypeDetail({ type, onClose }: { type: NodeType | EdgeType; onClose: () => void }) {
  const isEdge = "from" in type;
  return (
    <Panel title={type.name} class="type" aside={<Button icon="close" label="Close" onClick={onClose} />}>
      {type.description && <p>{type.description}</p>}
      <div class="scroll">
        <table aria-label={`Properties of ${type.name}`}>
          <thead>
            <tr>
              <th scope="col">property</th>
              <th scope="col">type</th>
              <th scope="col">rules</th>
              <th scope="col">index</th>
            </tr>
          </thead>
          <tbody>
            {type.properties.map((one) => (
              <tr key={one.name}>
                <th scope="row">{one.name}</th>
                <td>
                  <code>
                    {shortType(one)}
                  </code>
                </td>
                <td>{describe(one)}</td>
                <td>
                  {type.indexes
                    .filter((index) => index.property === one.name)
                    .map((index) => (index.coverage > 0 ? `${index.kind}, ${Math.round(index.coverage * 100)} % of rows` : `${index.kind}, not built yet`))
                    .join("; ")}
                </td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
      {type.constraints.length > 0 && (
        <ul class="constraints">
          {type.constraints.map((one) => (
            <li key={one}>
              <code>{one}</code>
            </li>
          ))}
        </ul>
      )}
      <Sample type={type.name} isEdge={isEdge} />
    </Panel>
  );
}

function Sample({ type, isEdge }: { type: string; isEdge: boolean }) {
  const pattern = isEdge ? `$a $n:${JSON.stringify(type.charAt(0).toLowerCase() + type.slice(1))} $b` : `$n: ${type}`;
  const query = `match { ${pattern} } return { $n } limit ${SAMPLE}`;
  const found = useLoad(
    (abort) => take(client.POST("/graphs/{graph}/query", { params: { path: { graph: graph.value } }, body: { query, ...state.value }, signal: abort })) as unknown as Promise<Rows>,
    [query, commit.value],
  );
  const rows = (found.value?.rows ?? []).map((row) => row.n as Record<string, Json>);
  const names = [...new Set(rows.flatMap((row) => Object.keys(row)))].filter((name) => name !== "@type");
  return (
    <>
      <h3>Rows</h3>
      <Problem error={found.error} />
      {found.value && <Grid label={`Rows of ${type}`} columns={names.map((name) => ({ name, kind: "value", type: "" }))} total={rows.length} row={(at) => rows[at]} />}
    </>
  );
}

function Source() {
  const query = { branch: state.value.branch, snapshot: state.value.snapshot };
  const found = useLoad((abort) => take(client.GET("/graphs/{graph}/schema", { params: { path: { graph: graph.value }, query }, signal: abort })), [graph.value, commit.value]);
  return (
    <>
      <Problem error={found.error} />
      <pre class="json" tabIndex={0}>
        {(found.value as { schema?: string } | undefined)?.schema}
      </pre>
    </>
  );
}
