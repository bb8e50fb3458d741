// Small parts that every view is made of.
import type { ComponentChildren, JSX } from "preact";
import { useEffect, useRef } from "preact/hooks";
import { ApiError } from "../api";
import type { ChangeKind, Json } from "../shapes";

type Children = { children?: ComponentChildren };

const ICONS = {
  plus: "M8 3v10M3 8h10",
  minus: "M3 8h10",
  close: "M4 4l8 8M12 4l-8 8",
  play: "M5 3l8 5-8 5z",
  stop: "M4 4h8v8H4z",
  fit: "M3 6V3h3M10 3h3v3M13 10v3h-3M6 13H3v-3",
  pin: "M8 9v5M5 2h6l-1 4 2 3H4l2-3z",
  hide: "M2 8s2.200-4 6-4 6 4 6 4-2.200 4-6 4-6-4-6-4zM3 13 13 3",
  expand: "M8 8h5M11 5l3 3-3 3M8 8 4 4M8 8l-4 4",
  back: "M10 3 5 8l5 5",
  forward: "M6 3l5 5-5 5",
  undo: "M3 6h7a3 3 0 0 1 0 6H7M3 6l3-3M3 6l3 3",
  merge: "M4 2a1.500 1.500 0 1 0 .1 0M4 11a1.500 1.500 0 1 0 .1 0M12 8.500a1.500 1.500 0 1 0 .1 0M4 5v6M4 5c0 3.500 3 5 6.500 5",
  download: "M8 2v8M5 7l3 3 3-3M3 13h10",
  copy: "M6 6h7v7H6zM3 10V3h7",
  table: "M2 4h12v9H2zM2 7h12M6 7v6",
  picture: "M4 4.500a1.500 1.500 0 1 0 .1 0M12 6a1.500 1.500 0 1 0 .1 0M7 13a1.500 1.500 0 1 0 .1 0M5 6l2 5M6 5.500 10.500 7M8 12l3-4",
  link: "M7 9a3 3 0 0 0 4 0l2-2a3 3 0 0 0-4-4L8 4M9 7a3 3 0 0 0-4 0L3 9a3 3 0 0 0 4 4l1-1",
  edit: "M3 13l1-4 7-7 3 3-7 7z",
  search: "M7 2.500a4.500 4.500 0 1 0 .1 0M10.500 10.500 14 14",
  shuffle: "M2 5h3l6 6h3M2 11h3l6-6h3M12 3l2 2-2 2M12 9l2 2-2 2",
} as const;

export type IconName = keyof typeof ICONS;

export function Icon({ name }: { name: IconName }) {
  return (
    <svg class="icon" viewBox="0 0 16 16" aria-hidden="true">
      <path d={ICONS[name]} />
    </svg>
  );
}

interface ButtonProps extends Children {
  onClick?: (event: MouseEvent) => void;
  icon?: IconName;
  label?: string;
  kind?: "primary" | "danger" | "plain";
  disabled?: boolean;
  title?: string;
  isPressed?: boolean;
  type?: "button" | "submit";
  name?: string;
}

/** A button; with `label` and an icon only, its name is for screen readers and the tooltip. */
export function Button({ children, icon, label, kind = "plain", isPressed, title, type = "button", ...rest }: ButtonProps) {
  return (
    <button {...rest} type={type} class={`button ${kind}`} aria-label={label} title={title ?? label} aria-pressed={isPressed}>
      {icon && <Icon name={icon} />}
      {children}
    </button>
  );
}

export function Choice<T extends string>(props: { name: string; value: T; options: readonly (readonly [T, string])[]; onChange: (value: T) => void }) {
  return (
    <div class="choice" role="group" aria-label={props.name}>
      {props.options.map(([value, text]) => (
        <button key={value} type="button" aria-pressed={value === props.value} onClick={() => props.onChange(value)}>
          {text}
        </button>
      ))}
    </div>
  );
}

export function Select(props: { label: string; value: string; options: readonly string[]; onChange: (value: string) => void; empty?: string }) {
  return (
    <label class="select">
      <span>{props.label}</span>
      <select value={props.value} onChange={(event) => props.onChange(event.currentTarget.value)}>
        {props.empty !== undefined && <option value="">{props.empty}</option>}
        {props.options.map((option) => (
          <option key={option} value={option}>
            {option}
          </option>
        ))}
      </select>
    </label>
  );
}

export function Panel({ title, aside, children, class: name = "" }: Children & { title: ComponentChildren; aside?: ComponentChildren; class?: string }) {
  return (
    <section class={`panel ${name}`}>
      <header>
        <h2>{title}</h2>
        <div class="aside">{aside}</div>
      </header>
      {children}
    </section>
  );
}

export function Hint({ children }: Children) {
  return <p class="hint">{children}</p>;
}

const HELP: Record<string, string> = {
  forbidden: "The policy of this server does not allow it for your token.",
  query_too_large: "Narrow the query, or add a limit.",
};

/** Say what went wrong, in the server's words. */
export function Problem({ error }: { error: Error | undefined }) {
  if (!error) return null;
  const code = error instanceof ApiError ? error.code : "";
  return (
    <div class="problem" role="alert">
      <strong>{code.replaceAll("_", " ") || "failed"}</strong>
      <span class="text">{error.message}</span>
      {code && HELP[code] && <span>{HELP[code]}</span>}
    </div>
  );
}

export function Busy({ text = "Loading…" }: { text?: string }) {
  return (
    <p class="busy" role="status">
      {text}
    </p>
  );
}

export function Dialog({ title, onClose, children }: Children & { title: string; onClose: () => void }) {
  const box = useRef<HTMLDialogElement>(null);
  useEffect(() => box.current?.showModal(), []);
  return (
    <dialog ref={box} onClose={onClose} aria-label={title}>
      <header>
        <h2>{title}</h2>
        <Button icon="close" label="Close" onClick={() => box.current?.close()} />
      </header>
      {children}
    </dialog>
  );
}

export const SIGNS: Record<ChangeKind, string> = { inserted: "+", updated: "~", deleted: "−" };

export function Sign({ change }: { change: ChangeKind }) {
  return (
    <span class={`sign ${change}`} title={change} aria-label={change} role="img">
      {SIGNS[change]}
    </span>
  );
}

export function CountBadges({ inserted, updated, deleted }: { inserted: number; updated: number; deleted: number }) {
  const parts = [["inserted", inserted], ["updated", updated], ["deleted", deleted]] as const;
  const shown = parts.filter(([, count]) => count > 0);
  if (shown.length === 0) return <span class="quiet">no change</span>;
  return (
    <span class="badges">
      {shown.map(([change, count]) => (
        <span key={change} class={`badge ${change}`} title={`${count} ${change}`}>
          {SIGNS[change]}
          {count.toLocaleString("en")}
        </span>
      ))}
    </span>
  );
}

export const LONGEST_TEXT = 400;

/** A value as text: what is very long is cut, and says so. Control and direction marks are shown, never obeyed. */
export function formatValue(value: Json | undefined, longest = LONGEST_TEXT): string {
  if (value === undefined) return "";
  if (value === null) return "null";
  const text = typeof value === "string" ? value : JSON.stringify(value);
  return showMarks(text.length > longest ? `${text.slice(0, longest)}… (${text.length.toLocaleString("en")} characters)` : text);
}

// eslint-disable-next-line no-control-regex
const MARKS = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]/g;

export function showMarks(text: string): string {
  return text.replace(MARKS, (mark) => `\\u${mark.charCodeAt(0).toString(16).padStart(4, "0")}`);
}

export function Value({ value }: { value: Json | undefined }) {
  const kind = value === null || value === undefined ? "null" : typeof value === "object" ? "json" : typeof value;
  return (
    <span class={`value ${kind}`} dir="auto">
      {formatValue(value)}
    </span>
  );
}

export function Time({ at }: { at: string }) {
  return (
    <time dateTime={at} title={at}>
      {formatTime(at)}
    </time>
  );
}

export function formatTime(at: string): string {
  const when = new Date(at);
  return `${when.toLocaleDateString("en", { month: "short", day: "numeric", year: "numeric" })}, ${when.toLocaleTimeString("en", { hour: "2-digit", minute: "2-digit", hour12: false })}`;
}

export function submitting(action: () => void): JSX.SubmitEventHandler<HTMLFormElement> {
  return (event) => {
    event.preventDefault();
    action();
  };
}

/** A type as a form and a table say it: values of an enum are listed elsewhere. */
export function shortType({ type, nullable }: { type: string; nullable: boolean }): string {
  const name = type.startsWith("enum(") ? "enum" : type;
  return nullable && !name.endsWith("?") ? `${name}?` : name;
}
