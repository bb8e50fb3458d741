// What is drawn: nodes and edges with their properties, from results, neighbourhoods and differences.
import type { Catalog, Change, ChangeKind, Entity, Json, Properties } from "../shapes";

export interface Drawn {
  key: string;
  type: string;
  id: string;
  properties: Properties;
  change?: ChangeKind;
  /** The difference, where there is one. */
  difference?: Change;
  isConflict?: boolean;
}
export interface DrawnNode extends Drawn {
  label: string;
  isPath?: boolean;
}
export interface DrawnEdge extends Drawn {
  from: string;
  to: string;
  isPath?: boolean;
}

/** The elements of a picture. It is replaced, never changed, so that a view notices. */
export interface Picture {
  nodes: ReadonlyMap<string, DrawnNode>;
  edges: ReadonlyMap<string, DrawnEdge>;
}

export const EMPTY: Picture = { nodes: new Map(), edges: new Map() };
/** Above so many elements a picture tells nothing, and drawing them would be slow. */
export const MOST_ELEMENTS = 20_000;

/** A node is known by its type and id, never by its id alone. */
export function nodeKey(type: string, id: string): string {
  return JSON.stringify([type, id]);
}
export function edgeKey(type: string, id: string): string {
  return `-${nodeKey(type, id)}`;
}

export function countElements(picture: Picture): number {
  return picture.nodes.size + picture.edges.size;
}

export class PictureBuilder {
  private readonly nodes: Map<string, DrawnNode>;
  private readonly edges: Map<string, DrawnEdge>;
  private readonly ends: Map<string, readonly [string, string]>;

  constructor(catalog: Catalog | null, from: Picture = EMPTY) {
    this.nodes = new Map(from.nodes);
    this.edges = new Map(from.edges);
    this.ends = new Map((catalog?.edges ?? []).map((type) => [type.name, [type.from, type.to]]));
  }

  node(type: string, id: string, properties: Properties, more: Partial<DrawnNode> = {}): string {
    const key = nodeKey(type, id);
    const known = this.nodes.get(key);
    this.nodes.set(key, { ...known, ...more, key, type, id, properties: { ...known?.properties, ...properties }, label: nameNode(id, properties) });
    return key;
  }

  /** Add an edge; an end that is not there yet is drawn by its id. */
  edge(type: string, id: string, from: string, to: string, properties: Properties, more: Partial<DrawnEdge> = {}): void {
    const [fromType, toType] = this.ends.get(type) ?? ["", ""];
    const ends = [nodeKey(fromType, from), nodeKey(toType, to)] as const;
    if (!this.nodes.has(ends[0])) this.node(fromType, from, {});
    if (!this.nodes.has(ends[1])) this.node(toType, to, {});
    const key = edgeKey(type, id);
    this.edges.set(key, { ...this.edges.get(key), ...more, key, type, id, from: ends[0], to: ends[1], properties });
  }

  entity(entity: Entity, more: { isPath?: boolean } = {}): void {
    const { id, "@type": type, ...properties } = entity;
    if (typeof properties.src === "string" && typeof properties.dst === "string") {
      const { src, dst, ...others } = properties;
      this.edge(type, id, String(src), String(dst), others, more);
    } else this.node(type, id, properties, more);
  }

  difference(change: Change, isConflict: boolean): void {
    const side = (change.change === "deleted" ? change.before : change.after) ?? {};
    const marks = { change: change.change, difference: change, isConflict };
    if (change.edge === undefined) this.node(change.type ?? "", change.id, side, marks);
    else {
      const { from, to, ...others } = side;
      this.edge(change.edge, change.id, String(from), String(to), others, marks);
    }
  }

  /** Add every node and edge of a value of a result, at any depth. */
  value(value: Json | undefined, isPath = false): void {
    if (value === null || typeof value !== "object") return;
    if (Array.isArray(value)) for (const one of value) this.value(one, isPath);
    else if (typeof value["@type"] === "string" && typeof value.id === "string") this.entity(value as Entity, isPath ? { isPath } : {});
    else {
      const isWalk = Array.isArray(value.nodes) && Array.isArray(value.edges);
      // Nodes before edges, so that ends are whole.
      if (isWalk) [value.nodes, value.edges].forEach((part) => this.value(part, true));
      else for (const one of Object.values(value)) this.value(one, isPath);
    }
  }

  size(): number {
    return this.nodes.size + this.edges.size;
  }

  build(): Picture {
    return { nodes: this.nodes, edges: this.edges };
  }
}

const NAMES = ["name", "title", "label"];

/** The words below a node: a property that names it, or its id. */
export function nameNode(id: string, properties: Properties): string {
  for (const name of NAMES) {
    const value = Object.hasOwn(properties, name) ? properties[name] : undefined;
    if (typeof value === "string" && value !== "") return cut(value);
  }
  return cut(id);
}

function cut(text: string): string {
  return text.length > 40 ? `${text.slice(0, 39)}…` : text;
}

/** A picture without some of its nodes and their edges. */
export function without(picture: Picture, hidden: ReadonlySet<string>): Picture {
  if (hidden.size === 0) return picture;
  return {
    nodes: new Map([...picture.nodes].filter(([key]) => !hidden.has(key))),
    edges: new Map([...picture.edges].filter(([key, edge]) => !hidden.has(key) && !hidden.has(edge.from) && !hidden.has(edge.to))),
  };
}

export function neighboursOf(picture: Picture, key: string): Set<string> {
  const found = new Set<string>();
  for (const edge of picture.edges.values()) {
    if (edge.from === key) found.add(edge.to);
    if (edge.to === key) found.add(edge.from);
  }
  return found;
}
