// A table of any length: only the rows in sight are in the document.
import { useEffect, useRef, useState } from "preact/hooks";
import type { Json } from "../shapes";
import { formatValue, Icon } from "./parts";

const HEIGHT = 28;
/** Browsers cap the height of an element; longer tables are scrolled in proportion. */
const TALLEST = 15_000_000;
const SPARE = 12;

export interface GridColumn {
  name: string;
  kind: string;
  type: string;
}

interface Props {
  label: string;
  columns: GridColumn[];
  total: number;
  row: (place: number) => Record<string, Json> | undefined;
  onNeed?: (from: number, to: number) => void;
  sort?: { column: string; descending: boolean } | null;
  onSort?: (column: string) => void;
  onOpen?: (row: Record<string, Json>, column: string) => void;
  /** Whether one click opens a cell, where there is nothing else to do with it. */
  opensOnClick?: boolean;
}

export function Grid(props: Props) {
  const { columns, total } = props;
  const box = useRef<HTMLDivElement>(null);
  const [top, setTop] = useState(0);
  const [height, setHeight] = useState(400);
  const [active, setActive] = useState<[number, number]>([0, 0]);
  const tall = Math.min(total * HEIGHT, TALLEST);
  const inSight = Math.ceil(height / HEIGHT);
  // Where all rows fit, a pixel is a pixel; otherwise the scroll bar's share gives the first row.
  const isScaled = total * HEIGHT > TALLEST;
  const first = isScaled ? Math.round((top / Math.max(tall - height, 1)) * Math.max(total - inSight, 0)) : Math.floor(top / HEIGHT);
  const from = Math.max(0, first - SPARE);
  const to = Math.min(total, first + inSight + SPARE);
  const offset = isScaled ? top - (first - from) * HEIGHT : from * HEIGHT;

  useEffect(() => {
    const watch = new ResizeObserver(([entry]) => entry && setHeight(Math.max(entry.contentRect.height - HEIGHT, HEIGHT)));
    watch.observe(box.current as HTMLDivElement);
    return () => watch.disconnect();
  }, []);
  useEffect(() => props.onNeed?.(from, to), [from, to, props.onNeed]);

  function show(place: number) {
    const element = box.current as HTMLDivElement;
    if (place >= first && place < first + inSight - 1) return;
    const wanted = place < first ? place : place - inSight + 2;
    element.scrollTop = isScaled ? (wanted / Math.max(total - inSight, 1)) * (tall - height) : wanted * HEIGHT;
  }

  function onKeyDown(event: KeyboardEvent) {
    const [row, column] = active;
    const moves: Record<string, [number, number]> = {
      ArrowDown: [row + 1, column],
      ArrowUp: [row - 1, column],
      ArrowRight: [row, column + 1],
      ArrowLeft: [row, column - 1],
      PageDown: [row + inSight, column],
      PageUp: [row - inSight, column],
      Home: [event.ctrlKey ? 0 : row, 0],
      End: [event.ctrlKey ? total - 1 : row, columns.length - 1],
    };
    const cell = props.row(row);
    const name = columns[column]?.name;
    const to = moves[event.key];
    if (to) {
      const next: [number, number] = [Math.max(0, Math.min(to[0], total - 1)), Math.max(0, Math.min(to[1], columns.length - 1))];
      setActive(next);
      show(next[0]);
    } else if (event.key === "c" && (event.ctrlKey || event.metaKey) && cell && name !== undefined && getSelection()?.isCollapsed) void navigator.clipboard?.writeText(copyText(cell[name]));
    else if (event.key === "Enter" && cell && name !== undefined) props.onOpen?.(cell, name);
    else return;
    event.preventDefault();
  }

  const widths = columns.map((column) => `minmax(${column.kind === "value" ? 110 : 220}px, 1fr)`).join(" ");
  const places = Array.from({ length: Math.max(0, to - from) }, (_, at) => from + at);
  return (
    <div class="grid" role="grid" aria-label={props.label} aria-rowcount={total + 1} aria-colcount={columns.length} ref={box} tabIndex={0} onKeyDown={onKeyDown} onScroll={(event) => setTop(event.currentTarget.scrollTop)} data-total={total}>
      <div class="grid-head" role="row" aria-rowindex={1} style={{ gridTemplateColumns: widths }}>
        {columns.map((column) => {
          const isSorted = props.sort?.column === column.name;
          const canSort = props.onSort && column.kind === "value" && !column.type.startsWith("[");
          return (
            <div key={column.name} role="columnheader" aria-sort={isSorted ? (props.sort?.descending ? "descending" : "ascending") : undefined}>
              {canSort ? (
                <button type="button" tabIndex={-1} onClick={() => props.onSort?.(column.name)} title={`${column.name}: ${column.type}. Sort`}>
                  {column.name}
                  <span aria-hidden="true">{isSorted ? (props.sort?.descending ? " ↓" : " ↑") : ""}</span>
                </button>
              ) : (
                <span title={`${column.name}: ${column.type}`}>{column.name}</span>
              )}
            </div>
          );
        })}
      </div>
      <div class="grid-body" role="rowgroup" style={{ height: `${tall}px` }}>
        <div style={{ transform: `translateY(${offset}px)` }}>
          {places.map((place) => {
            const row = props.row(place);
            return (
              <div key={place} role="row" class="grid-row" aria-rowindex={place + 2} style={{ gridTemplateColumns: widths }}>
                {columns.map((column, at) => (
                  <div
                    key={column.name}
                    role="gridcell"
                    dir="auto"
                    class={`${row ? kindOf(row[column.name]) : "waiting"} ${active[0] === place && active[1] === at ? "active" : ""}`}
                    onClick={() => {
                      setActive([place, at]);
                      if (row && props.opensOnClick) props.onOpen?.(row, column.name);
                    }}
                    onDblClick={() => row && props.onOpen?.(row, column.name)}
                  >
                    {row ? formatCell(row[column.name]) : "…"}
                  </div>
                ))}
              </div>
            );
          })}
        </div>
      </div>
      {total === 0 && (
        <p class="quiet">
          <Icon name="table" /> No rows.
        </p>
      )}
    </div>
  );
}

/** Whole nodes and edges by their type and id; their properties are one keystroke away. */
function formatCell(value: Json | undefined): string {
  if (value === null || typeof value !== "object") return formatValue(value, 120);
  if (Array.isArray(value)) return `[${value.slice(0, 5).map(formatCell).join(", ")}${value.length > 5 ? `, … ${value.length}` : ""}]`;
  if (typeof value["@type"] !== "string") return Array.isArray(value.nodes) && Array.isArray(value.edges) ? value.nodes.map(formatCell).join(" → ") : formatValue(value, 120);
  const ends = typeof value.src === "string" ? `${formatValue(value.src, 40)} → ${formatValue(value.dst, 40)}` : formatValue(value.id, 80);
  return `${value["@type"]}  ${ends}`;
}

function kindOf(value: Json | undefined): string {
  return value === null || value === undefined ? "null" : typeof value === "number" ? "mono" : "";
}

export function copyText(value: Json | undefined): string {
  return typeof value === "string" ? value : JSON.stringify(value ?? null);
}
