// An input for a property or parameter that knows its type and constraints.
import { useId } from "preact/hooks";
import type { Json, Property } from "../shapes";
import { shortType } from "./parts";

export type Typed = Pick<Property, "name" | "type" | "nullable" | "values" | "range" | "pattern" | "description">;
export type Read = { value: Json; problem?: undefined } | { value?: undefined; problem: string };

const WHOLE: Record<string, readonly [bigint, bigint]> = {
  I32: [-(2n ** 31n), 2n ** 31n - 1n],
  I64: [-(2n ** 63n), 2n ** 63n - 1n],
  U32: [0n, 2n ** 32n - 1n],
  U64: [0n, 2n ** 64n - 1n],
};

/** Read what was typed as a value of the type. An empty input is null where that is allowed, and text of length 0 otherwise. */
export function parseValue(typed: Typed, text: string): Read {
  const type = typed.type.replace(/\?$/, "");
  if (text === "" && (typed.nullable || typed.type.endsWith("?"))) return { value: null };
  const read = parseOfType(type, text, typed.values);
  return read.problem !== undefined ? read : checkRules(typed, read.value);
}

function parseOfType(type: string, text: string, values: string[] | null): Read {
  if (values) return values.includes(text) ? { value: text } : { problem: `One of ${values.join(", ")}.` };
  const limits = Object.hasOwn(WHOLE, type) ? WHOLE[type] : undefined;
  if (limits) {
    if (!/^-?\d{1,20}$/.test(text.trim())) return { problem: "A whole number." };
    const number = BigInt(text.trim());
    if (number < limits[0] || number > limits[1]) return { problem: `From ${limits[0]} to ${limits[1]}.` };
    return { value: Number.isSafeInteger(Number(number)) ? Number(number) : number.toString() };
  }
  if (type === "F32" || type === "F64") {
    const number = Number(text);
    return text.trim() !== "" && Number.isFinite(number) ? { value: number } : { problem: "A number." };
  }
  if (type === "Bool") return text === "true" || text === "false" ? { value: text === "true" } : { problem: "true or false." };
  if (type === "Date") return /^\d{4}-\d{2}-\d{2}$/.test(text) ? { value: text } : { problem: "A date, as 2026-01-31." };
  if (type === "DateTime") return /^\d{4}-\d\d-\d\dT.*(Z|[+-]\d\d:\d\d)$/.test(text) ? { value: text } : { problem: "A time with its zone, as 2026-01-31T12:00:00Z." };
  if (type === "String" || type.startsWith("enum")) return { value: text };
  return parseJson(text);
}

function parseJson(text: string): Read {
  try {
    return { value: JSON.parse(text) as Json };
  } catch {
    return { problem: 'JSON, such as ["a", "b"].' };
  }
}

function checkRules(typed: Typed, value: Json): Read {
  const { range, pattern } = typed;
  if (range && typeof value === "number") {
    const { low, high } = range;
    if ((typeof low === "number" && value < low) || (typeof high === "number" && value > high)) return { problem: `From ${low ?? "…"} to ${high ?? "…"}.` };
  }
  if (pattern && typeof value === "string" && !matches(pattern, value)) return { problem: `It has to match ${pattern}` };
  return { value };
}

/** Whether a text matches; a pattern that this browser reads differently is left to the server. */
function matches(pattern: string, text: string): boolean {
  try {
    return new RegExp(pattern, "u").test(text);
  } catch {
    return true;
  }
}

interface Props {
  property: Typed;
  text: string;
  onText: (text: string) => void;
  label?: string;
  problem?: string | undefined;
  isDisabled?: boolean;
}

export function ValueInput({ property, text, onText, label, problem, isDisabled }: Props) {
  const id = useId();
  const type = property.type.replace(/\?$/, "");
  const common = { id, value: text, disabled: isDisabled, "aria-invalid": problem !== undefined, "aria-describedby": `${id}-about` };
  return (
    <div class="value-input">
      <label for={id}>
        {label ?? property.name} <span class="quiet">{shortType(property)}</span>
      </label>
      {property.values || type === "Bool" ? (
        <select {...common} onChange={(event) => onText(event.currentTarget.value)}>
          {(property.nullable || text === "") && <option value="">{property.nullable ? "null" : "choose…"}</option>}
          {(property.values ?? ["true", "false"]).map((value) => (
            <option key={value}>{value}</option>
          ))}
        </select>
      ) : type === "String" && text.length > 60 ? (
        <textarea {...common} rows={4} onInput={(event) => onText(event.currentTarget.value)} />
      ) : (
        <input {...common} type="text" inputMode={/^[IUF]\d/.test(type) ? "decimal" : "text"} placeholder={property.nullable ? "null" : ""} onInput={(event) => onText(event.currentTarget.value)} />
      )}
      <span id={`${id}-about`} class={problem ? "wrong" : "quiet"}>
        {problem ?? property.description ?? ""}
      </span>
    </div>
  );
}
