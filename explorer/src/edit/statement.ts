// A form as a mutation: values go as parameters, so that no text of a person becomes a part of the query.
import type { EdgeType, Json, NodeType, Property } from "../shapes";

export interface Statement {
  query: string;
  params: Record<string, Json>;
}

function declare(property: Property): string {
  const type = property.type.replace(/\?$/, "");
  // There are no enum parameters: their values are written into the text, and are words of the schema.
  return `${property.values ? "String" : type}${property.nullable ? "?" : ""}`;
}

function assign(properties: Property[], values: ReadonlyMap<string, Json>) {
  const given = properties.filter((one) => values.has(one.name));
  const inText = (one: Property) => one.values !== null || values.get(one.name) === null;
  const text = (one: Property) => (inText(one) ? JSON.stringify(values.get(one.name)) : `$${one.name}`);
  return {
    parameters: given.filter((one) => !inText(one)).map((one) => `$${one.name}: ${declare(one)}`),
    fields: given.map((one) => `${one.name}: ${text(one)}`),
    params: given.filter((one) => !inText(one)).map((one) => [one.name, values.get(one.name) as Json] as const),
  };
}

export function isEdgeType(type: NodeType | EdgeType): type is EdgeType {
  return "from" in type;
}

/** A name for the id's parameter that no property has. */
function nameId(type: NodeType | EdgeType): string {
  let name = "row_id";
  while (type.properties.some((one) => one.name === name)) name += "_";
  return name;
}

export function writeUpdate(type: NodeType | EdgeType, id: string, values: ReadonlyMap<string, Json>): Statement {
  const { parameters, fields, params } = assign(type.properties, values);
  const name = nameId(type);
  return {
    query: `query edit(${[`$${name}: String`, ...parameters].join(", ")}) {\n    update ${type.name} set { ${fields.join(", ")} }\n    where @id = $${name}\n}`,
    params: Object.fromEntries([[name, id], ...params]),
  };
}

export function writeInsert(type: NodeType | EdgeType, values: ReadonlyMap<string, Json>, ends: readonly [string, string] | null): Statement {
  const { parameters, fields, params } = assign(type.properties, values);
  const of = ends ? { parameters: ["$from_id: String", "$to_id: String"], fields: ["from: $from_id", "to: $to_id"], params: [["from_id", ends[0]], ["to_id", ends[1]]] as const } : { parameters: [], fields: [], params: [] };
  return {
    query: `query add(${[...of.parameters, ...parameters].join(", ")}) {\n    insert ${type.name} { ${[...of.fields, ...fields].join(", ")} }\n}`,
    params: Object.fromEntries([...of.params, ...params]),
  };
}

export function writeDelete(type: NodeType | EdgeType, id: string): Statement {
  return { query: `query remove($row_id: String) {\n    delete ${type.name} where @id = $row_id\n}`, params: { row_id: id } };
}
