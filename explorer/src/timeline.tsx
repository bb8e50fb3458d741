// The slider that moves the whole page to any commit of the branch.
import { useEffect } from "preact/hooks";
import { go } from "./location";
import { commit, commits, isPinned, olderCursor, readOlder } from "./store";
import { Button, Time, showMarks } from "./ui/parts";

export function Timeline() {
  const all = commits.value;
  const place = all.findIndex((one) => one.id === commit.value);
  const chosen = all[place];
  useEffect(() => {
    const listen = (event: KeyboardEvent) => {
      const target = event.composedPath()[0];
      if (target instanceof HTMLElement && (target.isContentEditable || /^(INPUT|TEXTAREA|SELECT)$/.test(target.tagName))) return;
      if (event.key === "[") step(1);
      else if (event.key === "]") step(-1);
      else if (event.key === "n" && !event.ctrlKey && !event.metaKey) go({ commit: null });
    };
    addEventListener("keydown", listen);
    return () => removeEventListener("keydown", listen);
  }, []);
  if (all.length === 0) return null;
  // Places count from the newest; the slider from the oldest, as time goes.
  const value = place < 0 ? 0 : all.length - 1 - place;
  return (
    <div class="timeline" role="group" aria-label="History">
      <Button icon="back" label="One commit back" disabled={place >= all.length - 1 && !olderCursor.value} onClick={() => step(1)} />
      <input
        type="range"
        min={0}
        max={Math.max(all.length - 1, 1)}
        value={value}
        aria-label="Commit"
        aria-valuetext={chosen ? `${chosen.at}, ${chosen.actor}: ${chosen.message ?? chosen.operation}` : "an older commit"}
        onInput={(event) => moveTo(all.length - 1 - Number(event.currentTarget.value))}
      />
      <Button icon="forward" label="One commit on" disabled={place === 0} onClick={() => step(-1)} />
      {chosen ? (
        <p class="moment">
          <Time at={chosen.at} /> <b>{showMarks(chosen.actor)}</b> <span class="text">{showMarks(chosen.message ?? chosen.operation)}</span>
        </p>
      ) : (
        <p class="moment">
          <code>{commit.value}</code>
        </p>
      )}
      {isPinned.value ? (
        <Button kind="primary" onClick={() => go({ commit: null })} title="Follow the newest commit (n)">
          Back to newest
        </Button>
      ) : (
        <span class="tag live">newest</span>
      )}
    </div>
  );
}

function moveTo(place: number): void {
  const wanted = commits.value[place];
  if (wanted) go({ commit: place === 0 ? null : wanted.id }, true);
}

function step(by: number): void {
  const place = commits.value.findIndex((one) => one.id === commit.value);
  if (place + by >= commits.value.length && olderCursor.value) void readOlder().then(() => moveTo(place + by));
  else if (place + by >= 0) moveTo(Math.min(place + by, commits.value.length - 1));
}
