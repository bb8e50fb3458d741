// Documents of the server that its OpenAPI document describes as objects only.
import type { components } from "./generated/api";

type Schemas = components["schemas"];
export type Branch = Schemas["BranchAnswer"];
export type Proposal = Schemas["ProposalAnswer"];
export type StoredQuery = Schemas["StoredAnswer"];

export type Json = null | boolean | number | string | Json[] | { [name: string]: Json };
export type Properties = { [name: string]: Json };
export type ChangeKind = "inserted" | "updated" | "deleted";

export interface Change {
  type?: string;
  edge?: string;
  id: string;
  change: ChangeKind;
  changed?: string[];
  before: Properties | null;
  after: Properties | null;
}

export interface Counts {
  inserted: number;
  updated: number;
  deleted: number;
  properties: Record<string, number>;
}

export interface Commit {
  id: string;
  parent: string | null;
  merged_parent: string | null;
  seq: number;
  branch: string;
  actor: string;
  at: string;
  operation: string;
  message: string | null;
  idempotency_key?: string | null;
  changes: { table_key: string; rows_before: number; rows_after: number }[];
}

export interface Conflict {
  kind: string;
  table: string;
  id: string;
  property: string | null;
  other_id: string | null;
  base: Json;
  ours: Json;
  theirs: Json;
  message: string;
  take?: Take | null;
}
export type Take = string | { value: Json };
export type Decision = Record<string, Json>;

export interface Merge {
  outcome: "merged" | "fast_forward" | "already_up_to_date" | "conflicts" | string;
  source: string;
  into: string;
  source_commit: string;
  into_commit: string;
  base_commit: string;
  commit_id: string | null;
  dry_run: boolean;
  tables: { table_key?: string; table?: string; [name: string]: Json | undefined }[];
  conflicts: { total: number; kinds: Record<string, number>; shown: Conflict[] };
}

export interface EntityVersion {
  commit: string;
  branch: string;
  actor: string;
  at: string;
  operation: string;
  message: string | null;
  change: ChangeKind;
  changed: string[];
  before: Properties | null;
  after: Properties | null;
}

export interface ColumnType {
  name: string;
  kind: "value" | "node" | "edge" | "path" | "list";
  type: string;
}

export interface Rows {
  query_name: string;
  commit_id: string;
  row_count: number;
  total_rows?: number;
  columns: string[];
  types: ColumnType[];
  notes?: string[];
  rows: Record<string, Json>[];
}

export interface Diagnostic {
  code: string;
  severity: "error" | "warning" | string;
  message: string;
  help: string | null;
  start: { line: number; column: number; offset: number };
  end: { line: number; column: number; offset: number };
}

export interface Parameter {
  name: string;
  type: string;
  nullable: boolean;
}

export interface Lint {
  errors: number;
  warnings: number;
  diagnostics: Diagnostic[];
  queries: { name: string; kind: "read" | "mutation"; params: Parameter[] }[];
}

export interface Property {
  name: string;
  type: string;
  nullable: boolean;
  required: boolean;
  has_default: boolean;
  default: Json;
  description: string | null;
  values: string[] | null;
  range: { low: Json; high: Json } | null;
  pattern: string | null;
}

export interface IndexState {
  property: string;
  kind: string;
  state: string;
  coverage: number;
}

export interface NodeType {
  name: string;
  description: string | null;
  rows: number;
  implements: string[];
  key: string[] | null;
  unique: string[][];
  constraints: string[];
  properties: Property[];
  indexes: IndexState[];
}

export interface EdgeType extends Omit<NodeType, "implements"> {
  from: string;
  to: string;
  cardinality: string;
}

export interface Catalog {
  branch: string;
  commit_id: string;
  rows: number;
  interfaces: { name: string; properties: Property[] }[];
  nodes: NodeType[];
  edges: EdgeType[];
}

/** A whole node or edge as results have it. */
export type Entity = Properties & { id: string; "@type": string };

export interface Neighbourhood {
  commit_id: string;
  nodes: Entity[];
  edges: Entity[];
  degrees: { type: string; id: string; edge: string; direction: "out" | "in"; count: number }[];
  next_cursor: string | null;
}

export interface Diff {
  before: string;
  after: string;
  changes: Change[];
  types: Record<string, Counts> | null;
  next_cursor: string | null;
  graph?: { nodes: Entity[]; edges: Entity[]; is_cut: boolean } | null;
}

export interface Match {
  type: string;
  id: string;
  matched: "key" | "words" | string;
  property: string | null;
  node: Entity;
}
