// Rows of a result of any length: pages are asked as they come into sight, and the oldest are let go.
import { signal, type Signal } from "@preact/signals";
import { client, isAbort, newKey, take } from "../api";
import type { ColumnType, Json, Rows } from "../shapes";

export const PAGE = 500;
/** At most so many rows are held. */
export const MOST_ROWS = 20_000;
const AT_ONCE = 3;

/** What ends a request: here, and by its name on the server. */
export interface Stop {
  abort: AbortController;
  id: string;
}

export function createStop(): Stop {
  return { abort: new AbortController(), id: newKey() };
}

/** End a request on the server, which then answers that it was cancelled; if it does not know it, end it here. */
export async function stopNow(graph: string, { abort, id }: Stop): Promise<void> {
  const done = await client.DELETE("/graphs/{graph}/running/{query_id}", { params: { path: { graph, query_id: id } } }).catch(() => undefined);
  if (!done?.data?.cancelled) abort.abort();
}

export interface Asked {
  graph: string;
  branch: string;
  snapshot: string | null;
  query: string;
  name: string | null;
  params: Record<string, Json>;
  /** The stored query that is asked instead of a text. */
  stored: string | null;
}
export interface Sort {
  column: string;
  descending: boolean;
}

export type Row = Record<string, Json>;

/** Rows that a table, a picture or JSON is made of. */
export interface RowSource {
  readonly version: Signal<number>;
  readonly error: Signal<Error | undefined>;
  readonly total: number;
  readonly columns: string[];
  readonly types: ColumnType[];
  readonly notes: string[];
  readonly commit: string;
  readonly elapsed: number;
  readonly isReading: boolean;
  /** The number of rows that are in memory. */
  readonly held: number;
  row(place: number): Row | undefined;
  need(from: number, to: number): void;
  first(count: number): Row[];
}

/** Rows of an answer that came whole, as those of a stored query; sorted here. */
export class WholeRows implements RowSource {
  readonly version = signal(0);
  readonly error = signal<Error | undefined>(undefined);
  readonly notes: string[];
  readonly isReading = false;
  private readonly rows: Row[];
  constructor(
    private readonly found: Rows,
    readonly elapsed: number,
    sort: Sort | null = null,
  ) {
    this.notes = found.notes ?? [];
    this.rows = sort ? [...found.rows].sort((a, b) => compare(a[sort.column], b[sort.column], sort.descending)) : found.rows;
  }
  sorted(sort: Sort | null): WholeRows {
    return new WholeRows(this.found, this.elapsed, sort);
  }
  get total(): number {
    return this.found.rows.length;
  }
  get columns(): string[] {
    return this.found.columns;
  }
  get types(): ColumnType[] {
    return this.found.types;
  }
  get commit(): string {
    return this.found.commit_id;
  }
  get held(): number {
    return this.rows.length;
  }
  row(place: number): Row | undefined {
    return this.rows[place];
  }
  need(): void {}
  first(count: number): Row[] {
    return this.rows.slice(0, count);
  }
}

/** Null last in either direction, as the server sorts. */
function compare(a: Json | undefined, b: Json | undefined, isDescending: boolean): number {
  const [isNullA, isNullB] = [a === null || a === undefined, b === null || b === undefined];
  if (isNullA || isNullB) return Number(isNullA) - Number(isNullB);
  const order = typeof a === "number" && typeof b === "number" ? a - b : String(a) < String(b) ? -1 : Number(String(a) > String(b));
  return isDescending ? -order : order;
}

export class PagedRows implements RowSource {
  /** Counts up when a page came. */
  readonly version = signal(0);
  readonly error = signal<Error | undefined>(undefined);
  total = 0;
  columns: string[] = [];
  types: ColumnType[] = [];
  notes: string[] = [];
  commit = "";
  /** The milliseconds until the first page was there. */
  elapsed = 0;
  private readonly pages = new Map<number, Row[]>();
  private readonly coming = new Set<number>();
  private readonly wanted: number[] = [];

  constructor(
    readonly asked: Asked,
    readonly sort: Sort | null,
    /** Ends what is asked; the first page, which runs the query, has its name on the server. */
    private readonly stop: Stop,
  ) {}

  /** Ask for the first page; all others are of the same commit. */
  async open(): Promise<void> {
    const from = performance.now();
    const found = await this.ask(0);
    this.elapsed = performance.now() - from;
    this.columns = found.columns;
    this.types = found.types;
    this.notes = found.notes ?? [];
    this.total = found.total_rows ?? found.row_count;
    this.commit = found.commit_id;
    this.keep(0, found.rows);
  }

  row(place: number): Row | undefined {
    return this.pages.get(Math.floor(place / PAGE))?.[place % PAGE];
  }

  /** See to it that these rows are there or are asked for. */
  need(from: number, to: number): void {
    for (let page = Math.floor(from / PAGE); page * PAGE < Math.min(to, this.total); page += 1) {
      const held = this.pages.get(page);
      if (held) {
        // The order of a Map is that of its insertions: the page becomes the newest.
        this.pages.delete(page);
        this.pages.set(page, held);
      } else if (!this.coming.has(page) && !this.wanted.includes(page)) this.wanted.push(page);
    }
    this.askNext();
  }

  /** Whether pages are on their way. */
  get isReading(): boolean {
    return this.coming.size + this.wanted.length > 0;
  }

  get held(): number {
    return [...this.pages.values()].reduce((sum, rows) => sum + rows.length, 0);
  }

  /** The rows that are held, in order, up to a number. */
  first(count: number): Row[] {
    const found: Row[] = [];
    for (const page of [...this.pages.keys()].sort((a, b) => a - b)) found.push(...(this.pages.get(page) ?? []));
    return found.slice(0, count);
  }

  close(): void {
    this.stop.abort.abort();
  }

  /** What came into sight last is asked for first; a server allows an actor few requests at a time. */
  private askNext(): void {
    while (this.coming.size < AT_ONCE && this.wanted.length > 0) void this.load(this.wanted.pop() as number);
  }

  private async load(page: number): Promise<void> {
    this.coming.add(page);
    try {
      const { rows } = await this.ask(page);
      this.coming.delete(page);
      this.keep(page, rows);
    } catch (error) {
      this.coming.delete(page);
      this.wanted.length = 0;
      if (!isAbort(error)) this.error.value = error as Error;
    }
    this.askNext();
  }

  private keep(page: number, rows: Row[]): void {
    this.pages.set(page, rows);
    for (const oldest of this.pages.keys()) {
      if (this.pages.size * PAGE <= MOST_ROWS) break;
      this.pages.delete(oldest);
    }
    this.version.value += 1;
  }

  private async ask(page: number): Promise<Rows> {
    const { graph, query, name, params, branch } = this.asked;
    const snapshot = this.commit || this.asked.snapshot;
    const window = { offset: page * PAGE, limit: PAGE, sort: this.sort ? [{ ...this.sort }] : undefined, query_id: this.commit ? undefined : this.stop.id };
    const body = { query, name, params, branch, snapshot, ...window };
    return (await take(client.POST("/graphs/{graph}/query", { params: { path: { graph } }, body, signal: this.stop.abort.signal }))) as unknown as Rows;
  }
}
