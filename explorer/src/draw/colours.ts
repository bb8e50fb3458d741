// Colours of a picture, for a light and a dark page.
import { signal } from "@preact/signals";
import type { ChangeKind, Json } from "../shapes";
import type { LegendEntry } from "./legend";

const dark = matchMedia("(prefers-color-scheme: dark)");
export const isDark = signal(dark.matches);
dark.addEventListener("change", () => (isDark.value = dark.matches));

export interface Theme {
  ink: string;
  paper: string;
  quiet: string;
  edge: string;
  accent: string;
  types: readonly string[];
  changes: Record<ChangeKind, string>;
}

const LIGHT: Theme = {
  ink: "#1c2130",
  paper: "#ffffff",
  quiet: "#b4bac8",
  edge: "#aab1c2",
  accent: "#3d4fd6",
  types: ["#4f63e7", "#0f9d8a", "#d9682b", "#a23fc1", "#2f86c9", "#b8892b", "#cf4676", "#5d8f2f", "#7a6ad8", "#64748b"],
  changes: { inserted: "#1a9a4b", updated: "#e09b13", deleted: "#d8393f" },
};
const DARK: Theme = {
  ink: "#e8ebf4",
  paper: "#151823",
  quiet: "#4b5266",
  edge: "#59627d",
  accent: "#8c9bff",
  types: ["#8c9bff", "#3fcab5", "#f0945f", "#d183ec", "#6bb6f0", "#e0b65a", "#f283ab", "#9ccc66", "#ada0ff", "#9aa7bd"],
  changes: { inserted: "#3ecf78", updated: "#f2b63d", deleted: "#ff6b6f" },
};

export function readTheme(): Theme {
  return isDark.value ? DARK : LIGHT;
}

/** The colour of a type: by its place among the types, so that it is the same in every view. */
export function colourOfType(theme: Theme, types: readonly string[], type: string): string {
  const place = types.indexOf(type);
  return theme.types[(place < 0 ? theme.types.length - 1 : place) % theme.types.length] as string;
}

/** The types of some nodes with their colours, in the order of the schema. */
export function listTypes(theme: Theme, types: readonly string[], shown: Iterable<{ type: string }>): LegendEntry[] {
  const counts = new Map<string, number>();
  for (const { type } of shown) counts.set(type, (counts.get(type) ?? 0) + 1);
  return [...counts]
    .sort(([a], [b]) => types.indexOf(a) - types.indexOf(b))
    .map(([type, count]) => ({ label: `${type} ${count.toLocaleString("en")}`, colour: colourOfType(theme, types, type) }));
}

export interface Ramp {
  colour: (value: Json | undefined) => string;
  legend: LegendEntry[];
}

/** Colours of values: a ramp for numbers, a palette for everything else. */
export function rampOf(theme: Theme, values: Json[]): Ramp {
  const numbers = values.filter((value): value is number => typeof value === "number");
  if (numbers.length > 0 && numbers.length >= values.filter((value) => value !== null).length) {
    const [low, high] = numbers.reduce(([a, b], one) => [Math.min(a, one), Math.max(b, one)], [Infinity, -Infinity]);
    const at = (value: number) => mix(theme.quiet, theme.accent, high > low ? (value - low) / (high - low) : 1);
    const legend = [...new Set([low, high])].map((value) => ({ label: value.toLocaleString("en"), colour: at(value) }));
    return { colour: (value) => (typeof value === "number" ? at(value) : theme.quiet), legend };
  }
  const places = new Map<string, number>();
  for (const value of values) if (value !== null && !places.has(JSON.stringify(value))) places.set(JSON.stringify(value), places.size);
  const at = (place: number | undefined) => (place === undefined ? theme.quiet : (theme.types[place % theme.types.length] as string));
  const legend = [...places].map(([value, place]) => ({ label: labelOf(JSON.parse(value) as Json), colour: at(place) }));
  return { colour: (value) => at(value === undefined ? undefined : places.get(JSON.stringify(value))), legend };
}

function labelOf(value: Json): string {
  return typeof value === "string" ? value : JSON.stringify(value);
}

function mix(from: string, to: string, share: number): string {
  const part = (text: string, at: number) => parseInt(text.slice(at, at + 2), 16);
  const blend = (at: number) => Math.round(part(from, at) + (part(to, at) - part(from, at)) * share).toString(16).padStart(2, "0");
  return `#${blend(1)}${blend(3)}${blend(5)}`;
}
