// Graph: start from a search or a node, expand by type, pin, hide, colour and size by property, find paths.
import { useEffect, useMemo, useState } from "preact/hooks";
import { client, take } from "../api";
import { Canvas, type Look } from "../draw/canvas";
import { colourOfType, listTypes, rampOf, readTheme } from "../draw/colours";
import { Legend } from "../draw/legend";
import { countElements, EMPTY, MOST_ELEMENTS, neighboursOf, PictureBuilder, without, type Picture } from "../draw/picture";
import { go, graph, place } from "../location";
import type { Entity, Json, Neighbourhood, Properties } from "../shapes";
import { catalog, commit, epoch, state } from "../store";
import { Grid } from "../ui/grid";
import { EntityDetail } from "../ui/entity_detail";
import { Busy, Button, Choice, Panel, Problem, Select } from "../ui/parts";
import { Expand } from "./expand";
import { Search } from "./search";

const FIRST = 60;
const NEIGHBOURS = 100;
const AT_ONCE = 200;

type Ref = { type: string; id: string };

export function askNeighbours(nodes: Ref[], more: { edges?: string[]; limit?: number; direction?: string; cursor?: string } = {}, abort?: AbortSignal): Promise<Neighbourhood> {
  const body = { nodes, limit: NEIGHBOURS, ...state.peek(), ...more };
  return take(client.POST("/graphs/{graph}/neighbours", { params: { path: { graph: graph.peek() } }, body: body as never, signal: abort ?? null })) as unknown as Promise<Neighbourhood>;
}

function askNodes(query: string, params: Record<string, Json>, abort?: AbortSignal): Promise<Entity[]> {
  const body = { query, params, ...state.peek() };
  return take(client.POST("/graphs/{graph}/query", { params: { path: { graph: graph.peek() } }, body, signal: abort ?? null })).then((found) =>
    found.rows.map((row) => (row as unknown as { n: Entity }).n),
  );
}

/** One node by its type and id. */
export async function readNode(type: string, id: string, abort?: AbortSignal): Promise<Entity | undefined> {
  if (!catalog.peek()?.nodes.some((one) => one.name === type)) return undefined;
  return (await askNodes(`query one($id: String) { match { $n: ${type} $n.@id = $id } return { $n } }`, { id }, abort))[0];
}

/** Read these nodes again, at the commit of the page, with the edges among them. */
async function readAgain(refs: Ref[], abort: AbortSignal): Promise<Picture> {
  const builder = new PictureBuilder(catalog.peek());
  const known = new Set(refs.map((one) => JSON.stringify([one.type, one.id])));
  const types = [...new Set(refs.map((one) => one.type))].filter((type) => catalog.peek()?.nodes.some((one) => one.name === type));
  const read = types.map((type) => {
    const ids = refs.filter((one) => one.type === type).map((one) => one.id);
    return askNodes(`query some($ids: [String]) { match { $n: ${type} $n.@id in $ids } return { $n } }`, { ids }, abort);
  });
  for (const nodes of await Promise.all(read)) for (const node of nodes) builder.entity(node);
  const there = builder.build();
  const present = refs.filter((one) => there.nodes.has(JSON.stringify([one.type, one.id])));
  for (let from = 0; from < present.length; from += AT_ONCE) {
    const found = await askNeighbours(present.slice(from, from + AT_ONCE), { limit: 5000, direction: "out" }, abort);
    const ends = new Map((catalog.peek()?.edges ?? []).map((one) => [one.name, one]));
    for (const edge of found.edges) {
      const type = ends.get(edge["@type"]);
      const isInside = known.has(JSON.stringify([type?.from, edge.src])) && known.has(JSON.stringify([type?.to, edge.dst]));
      if (isInside && there.nodes.has(JSON.stringify([type?.from, edge.src])) && there.nodes.has(JSON.stringify([type?.to, edge.dst]))) builder.entity(edge);
    }
  }
  return builder.build();
}

/** The first picture of a graph: some nodes of each type, with what joins them. */
async function readFirst(abort: AbortSignal): Promise<Ref[]> {
  const types = (catalog.peek()?.nodes ?? []).filter((one) => one.rows > 0);
  const each = Math.max(4, Math.floor(FIRST / Math.max(types.length, 1)));
  const read = types.slice(0, 12).map((type) => askNodes(`match { $n: ${type.name} } return { $n } order { $n.@id } limit ${each}`, {}, abort));
  return (await Promise.all(read)).flat().map((one) => ({ type: one["@type"], id: one.id }));
}

async function readStart(abort: AbortSignal): Promise<Ref[]> {
  const type = place.peek().more.get("type");
  const id = place.peek().more.get("id");
  if (type === undefined || id === undefined) return readFirst(abort);
  if (catalog.peek()?.edges.some((one) => one.name === type)) {
    const found = await askNodes(`query ends($id: String) { match { $a $n:${quoteEdge(type)} $b $n.@id = $id } return { $a as n } }`, { id }, abort).catch(() => []);
    return found.map((one) => ({ type: one["@type"], id: one.id }));
  }
  const around = await askNeighbours([{ type, id }], {}, abort);
  return [{ type, id }, ...around.nodes.map((one) => ({ type: one["@type"], id: one.id }))];
}

function quoteEdge(name: string): string {
  return JSON.stringify(name.charAt(0).toLowerCase() + name.slice(1));
}

function refsOf(picture: Picture): Ref[] {
  return [...picture.nodes.values()].map(({ type, id }) => ({ type, id }));
}

export function GraphView() {
  const [picture, setPicture] = useState<Picture>(EMPTY);
  const [shownAt, setShownAt] = useState("");
  const [selected, setSelected] = useState<string | null>(null);
  const [pinned, setPinned] = useState<ReadonlySet<string>>(new Set());
  const [hidden, setHidden] = useState<ReadonlySet<string>>(new Set());
  const [shows, setShows] = useState<"picture" | "table">("picture");
  const [error, setError] = useState<Error>();
  const [isLoading, setLoading] = useState(true);
  const [pathFrom, setPathFrom] = useState<string | null>(null);
  const given = `${place.value.more.get("type") ?? ""} ${place.value.more.get("id") ?? ""}`;
  const at = commit.value as string;
  const isCatalogOfNow = catalog.value?.commit_id === at || catalog.value !== null;

  const settle = async (refs: Promise<Ref[]>, abort: AbortSignal) => {
    setLoading(true);
    setError(undefined);
    try {
      const next = await readAgain(await refs, abort);
      if (abort.aborted) return;
      setPicture(next);
      setShownAt(at);
    } catch (failed) {
      if (!abort.aborted) setError(failed as Error);
    } finally {
      if (!abort.aborted) setLoading(false);
    }
  };
  // A new place to start from replaces the picture; another commit reads the same nodes again.
  useEffect(() => {
    if (!isCatalogOfNow) return undefined;
    const abort = new AbortController();
    void settle(readStart(abort.signal), abort.signal);
    const [type, id] = [place.peek().more.get("type"), place.peek().more.get("id")];
    if (type && id) setSelected(JSON.stringify([type, id]));
    return () => abort.abort();
  }, [given, isCatalogOfNow]);
  useEffect(() => {
    if (!shownAt) return undefined;
    const abort = new AbortController();
    void settle(Promise.resolve(refsOf(picture)), abort.signal);
    return () => abort.abort();
  }, [at, epoch.value]);

  const add = (found: { nodes: Entity[]; edges: Entity[] }) => {
    const builder = new PictureBuilder(catalog.value, picture);
    found.nodes.forEach((one) => builder.entity(one));
    found.edges.forEach((one) => builder.entity(one));
    setPicture(builder.build());
  };
  const expand = (key: string) => {
    const node = picture.nodes.get(key);
    if (node) askNeighbours([{ type: node.type, id: node.id }]).then(add, setError);
  };
  const toggle = (key: string, isPinned: boolean) => setPinned(isPinned ? new Set(pinned).add(key) : new Set([...pinned].filter((one) => one !== key)));
  const hide = (key: string) => {
    setHidden(new Set(hidden).add(key));
    setSelected(null);
  };
  const seen = useMemo(() => without(picture, hidden), [picture, hidden]);
  const path = useMemo(() => (pathFrom && selected ? findPath(seen, pathFrom, selected) : null), [seen, pathFrom, selected]);
  const { look, controls, legend } = useLook(seen, path);
  const chosen = selected ? (seen.nodes.get(selected) ?? seen.edges.get(selected)) : undefined;
  const node = selected ? seen.nodes.get(selected) : undefined;
  return (
    <div class="graph" data-commit={shownAt} data-state={isLoading ? "loading" : "ready"}>
      <Panel
        title="Graph"
        aside={
          <>
            <Search onFound={(entity) => go({ more: { type: entity["@type"], id: entity.id } })} />
            <Choice
              name="Shown as"
              value={shows}
              options={[
                ["picture", "Picture"],
                ["table", "Table"],
              ]}
              onChange={setShows}
            />
          </>
        }
      >
        <div class="bar">
          {controls}
          {hidden.size > 0 && <Button onClick={() => setHidden(new Set())}>Show {hidden.size} hidden</Button>}
          {pinned.size > 0 && <Button onClick={() => setPinned(new Set())}>Unpin {pinned.size}</Button>}
          {pathFrom && <Button onClick={() => setPathFrom(null)}>{path ? `Path of ${count(path.size - 1, "step")}: clear` : selected === pathFrom || !selected ? "Choose the other end of the path…" : "No path in this picture: choose another end…"}</Button>}
          {countElements(seen) > 0 && <span class="quiet">{count(seen.nodes.size, "node")}, {count(seen.edges.size, "edge")}</span>}
        </div>
        <Problem error={error} />
        {isLoading && picture === EMPTY && <Busy text="Reading…" />}
        {shows === "picture" && <Legend entries={legend} />}
        <div class={`split ${chosen ? "has-detail" : ""}`}>
          {shows === "picture" ? (
            <Canvas picture={seen} look={look} label="Graph" selected={selected} onSelect={setSelected} onOpen={expand} pinned={pinned} onPin={toggle} onHide={hide} />
          ) : (
            <ElementTable picture={seen} onSelect={setSelected} />
          )}
          {chosen && (
            <EntityDetail element={chosen} onClose={() => setSelected(null)} graphAction="Start from here">
              {node && (
                <>
                  <div class="bar">
                    <Button icon="pin" isPressed={pinned.has(node.key)} onClick={() => toggle(node.key, !pinned.has(node.key))}>
                      Pin
                    </Button>
                    <Button icon="hide" onClick={() => hide(node.key)}>
                      Hide
                    </Button>
                    <Button onClick={() => setPathFrom(node.key)}>Path from here</Button>
                  </div>
                  <Expand key={node.key} node={node} at={at} onFound={add} room={MOST_ELEMENTS - countElements(seen)} />
                </>
              )}
            </EntityDetail>
          )}
        </div>
      </Panel>
    </div>
  );
}

function count(number: number, noun: string): string {
  return `${number.toLocaleString("en")} ${noun}${number === 1 ? "" : "s"}`;
}

/** The nodes of a shortest path between two nodes of the picture, in either direction of its edges. */
function findPath(picture: Picture, from: string, to: string): ReadonlySet<string> | null {
  if (!picture.nodes.has(from) || !picture.nodes.has(to) || from === to) return null;
  const beside = new Map<string, string[]>();
  for (const edge of picture.edges.values()) {
    for (const [one, other] of [[edge.from, edge.to], [edge.to, edge.from]] as const) {
      const known = beside.get(one);
      known ? known.push(other) : beside.set(one, [other]);
    }
  }
  const before = new Map<string, string>([[from, from]]);
  const queue = [from];
  for (const one of queue) {
    for (const next of beside.get(one) ?? []) {
      if (before.has(next)) continue;
      before.set(next, one);
      if (next === to) {
        const path = new Set([to]);
        for (let at = to; at !== from; ) path.add((at = before.get(at) as string));
        return path;
      }
      queue.push(next);
    }
  }
  return null;
}

/** Colour and size of elements, by type or by a property, and the controls that choose. */
function useLook(picture: Picture, path: ReadonlySet<string> | null) {
  const [colourBy, setColourBy] = useState("");
  const [sizeBy, setSizeBy] = useState("");
  const names = (catalog.value?.nodes ?? []).map((one) => one.name);
  const properties = useMemo(() => [...new Set((catalog.value?.nodes ?? []).flatMap((one) => one.properties.map((property) => property.name)))].sort(), [catalog.value]);
  const numeric = useMemo(() => [...new Set((catalog.value?.nodes ?? []).flatMap((one) => one.properties.filter((property) => /^[IUF]\d/.test(property.type)).map((property) => property.name)))].sort(), [catalog.value]);
  const theme = readTheme();
  // Once for a picture, not for each of its nodes.
  const ramp = useMemo(() => (colourBy ? rampOf(theme, [...picture.nodes.values()].map((one) => readProperty(one.properties, colourBy))) : null), [picture, colourBy, theme]);
  const legend = useMemo(() => ramp?.legend ?? listTypes(theme, names, picture.nodes.values()), [ramp, picture, theme, names.join()]);
  const look = useMemo<Look>(() => {
    const degree = new Map<string, number>();
    for (const edge of picture.edges.values()) for (const end of [edge.from, edge.to]) degree.set(end, (degree.get(end) ?? 0) + 1);
    const measure = (one: { key: string; properties: Record<string, Json> }) => (sizeBy === "" ? 0 : sizeBy === "(degree)" ? (degree.get(one.key) ?? 0) : Number(readProperty(one.properties, sizeBy) ?? 0));
    const largest = sizeBy ? [...picture.nodes.values()].reduce((most, one) => Math.max(most, measure(one)), 0) : 0;
    const base = picture.nodes.size > 1000 ? 4 : picture.nodes.size > 200 ? 7 : 11;
    return {
      node: (node, theme) => ({
        color: path?.has(node.key) ? theme.accent : ramp ? ramp.colour(readProperty(node.properties, colourBy)) : colourOfType(theme, names, node.type),
        size: (path?.has(node.key) ? 4 : 0) + (largest > 0 ? base * (0.5 + 1.7 * Math.sqrt(Math.max(measure(node), 0) / largest)) : base),
      }),
      edge: (edge, theme) => (path?.has(edge.from) && path.has(edge.to) ? { color: theme.accent, size: 4.5 } : { color: theme.edge, size: picture.edges.size > 2000 ? 0.8 : 1.8 }),
    };
  }, [picture, path, ramp, colourBy, sizeBy, names.join()]);
  const controls = (
    <>
      <Select label="Colour" value={colourBy} options={properties} empty="by type" onChange={setColourBy} />
      <Select label="Size" value={sizeBy} options={["(degree)", ...numeric]} empty="equal" onChange={setSizeBy} />
    </>
  );
  return { look, controls, legend };
}

/** A property of a node, which may be called `constructor`. */
function readProperty(properties: Properties, name: string): Json {
  return Object.hasOwn(properties, name) ? (properties[name] as Json) : null;
}

function ElementTable({ picture, onSelect }: { picture: Picture; onSelect: (key: string) => void }) {
  const rows = useMemo(
    () => [
      ...[...picture.nodes.values()].map((one) => ({ key: one.key, type: one.type, id: one.id, from: "", to: "", neighbours: picture.nodes.size < 2000 ? neighboursOf(picture, one.key).size : "" })),
      ...[...picture.edges.values()].map((one) => ({ key: one.key, type: one.type, id: one.id, from: JSON.parse(one.from)[1] as string, to: JSON.parse(one.to)[1] as string, neighbours: "" })),
    ],
    [picture],
  );
  const columns = ["type", "id", "from", "to", "neighbours"].map((name) => ({ name, kind: "value", type: "String" }));
  return <Grid label="Elements of the picture" columns={columns} total={rows.length} row={(at) => rows[at] as Record<string, Json> | undefined} onOpen={(row) => onSelect(String(row.key))} opensOnClick />;
}
