// A result as a file: Arrow as the server streams it, CSV from its lines.
import { client, ApiError } from "../api";
import type { Json } from "../shapes";
import { saveBlob } from "../ui/save";
import type { Asked, Row } from "./paged_rows";

async function stream(asked: Asked, snapshot: string, accept: string): Promise<Blob> {
  const { graph, branch, query, name, params, stored } = asked;
  const options = { headers: { Accept: accept }, parseAs: "blob" } as const;
  const { data, response, error } = stored
    ? await client.POST("/graphs/{graph}/queries/{name}", { params: { path: { graph, name: stored } }, body: { params, branch, snapshot }, ...options })
    : await client.POST("/graphs/{graph}/query", { params: { path: { graph } }, body: { query, name, params, branch, snapshot }, ...options });
  if (!response.ok || !data) throw new ApiError(response.status, (error ?? {}) as Record<string, unknown>);
  return data as unknown as Blob;
}

export async function saveArrow(asked: Asked, snapshot: string): Promise<void> {
  saveBlob(await stream(asked, snapshot, "application/vnd.apache.arrow.stream"), `${asked.stored ?? asked.name ?? "result"}.arrows`);
}

export async function saveCsv(asked: Asked, snapshot: string, columns: string[]): Promise<void> {
  const lines = (await (await stream(asked, snapshot, "application/x-ndjson")).text()).split("\n").filter(Boolean);
  const rows = lines.map((line) => JSON.parse(line) as Row).filter((row) => columns.some((column) => Object.hasOwn(row, column)));
  saveBlob(new Blob([formatCsv(columns, rows)]), `${asked.stored ?? asked.name ?? "result"}.csv`);
}

/** CSV of RFC 4180. A text that a spreadsheet would run as a formula gets an apostrophe before it. */
export function formatCsv(columns: string[], rows: Row[]): string {
  const line = (cells: string[]) => cells.map(quote).join(",");
  return [line(columns.map(disarm)), ...rows.map((row) => line(columns.map((name) => formatCell(row[name]))))].join("\r\n") + "\r\n";
}

function formatCell(value: Json | undefined): string {
  if (value === null || value === undefined) return "";
  return typeof value === "string" ? disarm(value) : JSON.stringify(value);
}

function disarm(text: string): string {
  return /^[=+\-@\t\r]/.test(text) && !/^[+-]?\d+(\.\d+)?$/.test(text) ? `'${text}` : text;
}

function quote(cell: string): string {
  return /[",\r\n]/.test(cell) ? `"${cell.replaceAll('"', '""')}"` : cell;
}
