// A result as a table, as a picture, as JSON.
import { useCallback, useMemo, useRef, useState } from "preact/hooks";
import { Canvas, type Look } from "../draw/canvas";
import { colourOfType, listTypes, readTheme } from "../draw/colours";
import { Legend } from "../draw/legend";
import { MOST_ELEMENTS, PictureBuilder } from "../draw/picture";
import type { Json } from "../shapes";
import { catalog } from "../store";
import { EntityDetail } from "../ui/entity_detail";
import { Grid, copyText } from "../ui/grid";
import { Button, Choice, Dialog, Problem, formatValue, showMarks } from "../ui/parts";
import { MOST_ROWS, type Row, type RowSource, type Sort } from "./paged_rows";

type Shape = "table" | "picture" | "json";
const JSON_ROWS = 200;
const COPIED_ROWS = 20_000;

interface Props {
  source: RowSource;
  sort: Sort | null;
  onSort: (column: string) => void;
  onCsv: () => void;
  onArrow: () => void;
  link: string;
}

export function Results({ source, sort, onSort, onCsv, onArrow, link }: Props) {
  const [shape, setShape] = useState<Shape>("table");
  const [opened, setOpened] = useState<{ name: string; value: Json }>();
  void source.version.value;
  const hasPicture = source.types.some((one) => one.kind !== "value");
  const onNeed = useCallback((from: number, to: number) => source.need(from, to), [source]);
  const copy = (text: string) => void navigator.clipboard?.writeText(text);
  return (
    <div class="results" data-commit={source.commit} data-held={source.held}>
      <div class="bar">
        <span role="status">
          {source.total.toLocaleString("en")} {source.total === 1 ? "row" : "rows"} <span class="quiet">in {formatElapsed(source.elapsed)}</span>
        </span>
        <Choice
          name="Shown as"
          value={shape}
          options={[["table", "Table"], ...(hasPicture ? ([["picture", "Picture"]] as const) : []), ["json", "JSON"]]}
          onChange={setShape}
        />
        <span class="spacer" />
        <Button icon="copy" onClick={() => copy(formatTabs(source.columns, source.first(COPIED_ROWS)))} title="Copy the rows that were read, for a spreadsheet">
          Copy
        </Button>
        <Button icon="download" onClick={onCsv}>
          CSV
        </Button>
        <Button icon="download" onClick={onArrow}>
          Arrow
        </Button>
        <Button icon="link" title="A link with the query, its parameters and the commit" onClick={() => copy(new URL(link, location.href).href)}>
          Copy link
        </Button>
      </div>
      {source.notes.map((note) => (
        <p key={note} class="hint">
          {note}
        </p>
      ))}
      <Problem error={source.error.value} />
      {shape === "table" && (
        <Grid label="Result" columns={source.types} total={source.total} row={(place) => source.row(place)} onNeed={onNeed} sort={sort} onSort={onSort} onOpen={(row, name) => setOpened({ name, value: row[name] ?? null })} />
      )}
      {shape === "picture" && <ResultPicture source={source} />}
      {shape === "json" && (
        <>
          {source.total > JSON_ROWS && <p class="hint">The first {JSON_ROWS} rows.</p>}
          <pre class="json" tabIndex={0}>
            {showMarks(JSON.stringify(source.first(JSON_ROWS), cutLong, 2)).slice(0, 500_000)}
          </pre>
        </>
      )}
      {opened && (
        <Dialog title={opened.name} onClose={() => setOpened(undefined)}>
          <Button icon="copy" onClick={() => copy(copyText(opened.value))}>
            Copy
          </Button>
          <pre class="json" tabIndex={0}>{formatValue(typeof opened.value === "object" ? JSON.stringify(opened.value, null, 2) : opened.value, 200_000)}</pre>
        </Dialog>
      )}
    </div>
  );
}

/** What is very long is cut, and says so; a file has all of it. */
function cutLong(_: string, value: unknown): unknown {
  return typeof value === "string" ? formatValue(value, 2000) : value;
}

function formatElapsed(milliseconds: number): string {
  return milliseconds < 1000 ? `${Math.round(milliseconds)} ms` : `${(milliseconds / 1000).toFixed(1)} s`;
}

function formatTabs(columns: string[], rows: Row[]): string {
  const cell = (value: Json | undefined) => copyText(value ?? "").replace(/[\t\r\n]+/g, " ");
  return [columns.join("\t"), ...rows.map((row) => columns.map((name) => cell(row[name])).join("\t"))].join("\n");
}

export function useTypeLook(): Look {
  const names = (catalog.value?.nodes ?? []).map((one) => one.name);
  return useMemo<Look>(
    () => ({
      node: (node, theme) => ({ color: colourOfType(theme, names, node.type), size: node.isPath ? 13 : 10 }),
      edge: (edge, theme) => ({ color: edge.isPath ? theme.accent : theme.edge, size: edge.isPath ? 4 : 1.8 }),
    }),
    [names.join()],
  );
}

function ResultPicture({ source }: { source: RowSource }) {
  const [selected, setSelected] = useState<string | null>(null);
  const look = useTypeLook();
  // Drawn anew when all pages that were asked for are there, not after each.
  const drawn = useRef(0);
  if (source.version.value >= 0 && !source.isReading) drawn.current = source.version.value;
  const picture = useMemo(() => {
    const builder = new PictureBuilder(catalog.value);
    for (const row of source.first(MOST_ELEMENTS)) {
      for (const one of source.types) if (one.kind !== "value" && one.kind !== "edge") builder.value(row[one.name]);
      for (const one of source.types) if (one.kind === "edge") builder.value(row[one.name]);
      if (builder.size() > MOST_ELEMENTS) break;
    }
    return builder.build();
  }, [source, drawn.current, catalog.value]);
  const held = source.first(MOST_ELEMENTS).length;
  const names = (catalog.value?.nodes ?? []).map((one) => one.name);
  const legend = listTypes(readTheme(), names, picture.nodes.values());
  const chosen = selected ? (picture.nodes.get(selected) ?? picture.edges.get(selected)) : undefined;
  return (
    <>
      {held < source.total && (
        <p class="hint">
          Drawn from {held.toLocaleString("en")} of {source.total.toLocaleString("en")} rows.{" "}
          <Button onClick={() => source.need(0, Math.min(source.total, MOST_ROWS))}>{source.total > MOST_ROWS ? `Read ${MOST_ROWS.toLocaleString("en")}` : "Read all"}</Button>
        </p>
      )}
      <Legend entries={legend} />
      <div class={`split ${chosen ? "has-detail" : ""}`}>
        <Canvas picture={picture} look={look} label="Result" selected={selected} onSelect={setSelected} />
        {chosen && <EntityDetail element={chosen} onClose={() => setSelected(null)} />}
      </div>
    </>
  );
}
