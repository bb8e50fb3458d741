// What the colours of a picture mean.
import { formatValue } from "../ui/parts";

export interface LegendEntry {
  label: string;
  colour: string;
}

const MOST = 12;

export function Legend({ entries }: { entries: readonly LegendEntry[] }) {
  if (entries.length === 0) return null;
  return (
    <ul class="legend" aria-label="Colours">
      {entries.slice(0, MOST).map((one) => (
        <li key={one.label}>
          <span class="dot" style={{ background: one.colour }} />
          {formatValue(one.label, 40)}
        </li>
      ))}
      {entries.length > MOST && <li>and {entries.length - MOST} more</li>}
    </ul>
  );
}
