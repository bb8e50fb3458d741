// Parameters as a form that knows their types.
import type { Json, Parameter } from "../shapes";
import { parseValue, ValueInput, type Typed } from "../ui/value_input";

function describe(one: Parameter): Typed {
  return { name: `$${one.name}`, type: one.type, nullable: one.nullable, values: null, range: null, pattern: null, description: null };
}

export interface ReadParameters {
  params: Record<string, Json>;
  isComplete: boolean;
}

export function readParameters(parameters: readonly Parameter[], texts: ReadonlyMap<string, string>): ReadParameters {
  const read = parameters.map((one) => [one.name, parseValue(describe(one), texts.get(one.name) ?? "")] as const);
  return {
    // Own properties only: a parameter may be called `__proto__`.
    params: Object.fromEntries(read.flatMap(([name, one]) => (one.problem === undefined ? [[name, one.value]] : []))),
    isComplete: read.every(([, one]) => one.problem === undefined),
  };
}

interface Props {
  parameters: readonly Parameter[];
  texts: ReadonlyMap<string, string>;
  onTexts: (texts: ReadonlyMap<string, string>) => void;
}

export function ParameterForm({ parameters, texts, onTexts }: Props) {
  if (parameters.length === 0) return null;
  return (
    <div class="parameters" role="group" aria-label="Parameters">
      {parameters.map((one) => {
        const text = texts.get(one.name) ?? "";
        const read = parseValue(describe(one), text);
        return <ValueInput key={one.name} property={describe(one)} text={text} problem={text === "" ? undefined : read.problem} onText={(next) => onTexts(new Map(texts).set(one.name, next))} />;
      })}
    </div>
  );
}
