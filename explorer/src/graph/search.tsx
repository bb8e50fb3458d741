// Search by key first, then by words.
import { useEffect, useId, useState } from "preact/hooks";
import { client, take } from "../api";
import { nameNode } from "../draw/picture";
import { graph } from "../location";
import type { Entity, Match } from "../shapes";
import { commit, state } from "../store";
import { useLoad } from "../ui/load";
import { formatValue, Problem, showMarks } from "../ui/parts";

const PAUSE = 200;

export function Search({ onFound }: { onFound: (entity: Entity) => void }) {
  const [text, setText] = useState("");
  const [wanted, setWanted] = useState("");
  const [active, setActive] = useState(0);
  const list = useId();
  useEffect(() => {
    const timer = setTimeout(() => setWanted(text.trim()), PAUSE);
    return () => clearTimeout(timer);
  }, [text]);
  const found = useLoad(
    wanted
      ? (abort) => take(client.POST("/graphs/{graph}/search", { params: { path: { graph: graph.value } }, body: { text: wanted, limit: 12, ...state.value }, signal: abort }))
      : null,
    [graph.value, wanted, commit.value],
  );
  const matches = wanted ? ((found.value?.matches ?? []) as unknown as Match[]) : [];
  const choose = (match: Match | undefined) => {
    if (!match) return;
    onFound({ ...match.node, "@type": match.type, id: match.id });
    setText("");
    setWanted("");
  };
  return (
    <div class="search">
      <input
        type="search"
        role="combobox"
        aria-label="Search nodes by key and text"
        aria-expanded={matches.length > 0}
        aria-controls={list}
        aria-activedescendant={matches[active] ? `${list}-${active}` : undefined}
        placeholder="Search   /"
        value={text}
        onInput={(event) => (setText(event.currentTarget.value), setActive(0))}
        onKeyDown={(event) => {
          if (event.key === "ArrowDown") setActive(Math.min(active + 1, matches.length - 1));
          else if (event.key === "ArrowUp") setActive(Math.max(active - 1, 0));
          else if (event.key === "Enter") choose(matches[active]);
          else if (event.key === "Escape") setText("");
          else return;
          event.preventDefault();
        }}
      />
      <ul id={list} role="listbox" aria-label="Found" hidden={matches.length === 0}>
        {matches.map((one, at) => (
          <li key={`${one.type} ${one.id}`} id={`${list}-${at}`} role="option" aria-selected={at === active} onMouseDown={(event) => (event.preventDefault(), choose(one))}>
            <span class="tag">{one.type}</span> <b dir="auto">{showMarks(nameNode(one.id, one.node))}</b>
            {one.matched === "words" && one.property && Object.hasOwn(one.node, one.property) && <span class="quiet text">{formatValue(one.node[one.property], 90)}</span>}
          </li>
        ))}
      </ul>
      {wanted && found.value && matches.length === 0 && !found.isLoading && <p class="quiet nothing">Nothing found.</p>}
      <Problem error={found.error} />
    </div>
  );
}
