// Neighbours of a node by edge type and direction, with a limit.
import { useState } from "preact/hooks";
import type { DrawnNode } from "../draw/picture";
import type { Entity, Neighbourhood } from "../shapes";
import { useLoad } from "../ui/load";
import { Button, Problem } from "../ui/parts";
import { askNeighbours } from "./graph";

interface Props {
  node: DrawnNode;
  at: string;
  room: number;
  onFound: (found: { nodes: Entity[]; edges: Entity[] }) => void;
}

export function Expand({ node, at, room, onFound }: Props) {
  const [limit, setLimit] = useState(50);
  const [error, setError] = useState<Error>();
  const [cursors, setCursors] = useState<ReadonlyMap<string, string | null>>(new Map());
  const degrees = useLoad((abort) => askNeighbours([{ type: node.type, id: node.id }], { limit: 0 }, abort), [node.key, at]);
  const expand = (edge: string, direction: "out" | "in") => {
    const name = `${edge} ${direction}`;
    const cursor = cursors.get(name) ?? undefined;
    askNeighbours([{ type: node.type, id: node.id }], { edges: [edge], direction, limit: Math.min(limit, Math.max(room, 1)), ...(cursor ? { cursor } : {}) }).then((found: Neighbourhood) => {
      setCursors(new Map(cursors).set(name, found.next_cursor));
      onFound(found);
    }, setError);
  };
  return (
    <div class="expand">
      <div class="bar">
        <b>Expand</b>
        <label class="select">
          <span>at most</span>
          <input type="number" min={1} max={1000} value={limit} onInput={(event) => setLimit(Math.min(1000, Math.max(1, Number(event.currentTarget.value) || 1)))} />
        </label>
      </div>
      <ul>
        {degrees.value?.degrees.map((one) => {
          const name = `${one.edge} ${one.direction}`;
          const isDone = cursors.get(name) === null;
          return (
            <li key={name}>
              <Button disabled={isDone} onClick={() => expand(one.edge, one.direction)}>
                {one.direction === "in" ? "←" : "→"} {one.edge} <span class="quiet">{one.count.toLocaleString("en")}</span>
                {cursors.get(name) ? " more" : isDone ? " ✓" : ""}
              </Button>
            </li>
          );
        })}
        {degrees.value?.degrees.length === 0 && <li class="quiet">No edges.</li>}
      </ul>
      <Problem error={error ?? degrees.error} />
    </div>
  );
}
