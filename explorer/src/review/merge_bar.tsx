// Merge: what it would do, with a message, and what came of it.
import { useEffect, useState } from "preact/hooks";
import { client, take } from "../api";
import { branch, graph } from "../location";
import type { Decision, Merge } from "../shapes";
import { useLoad } from "../ui/load";
import { Button, Problem, submitting } from "../ui/parts";
import { buildResolutions, decisions, nameType } from "./decisions";
import { OutcomeNote } from "./outcome_note";
import { createWrite } from "./writes";

// Above the views, so that what came of a merge is still said after everything was read again.
const write = createWrite();
let about = "";

function askMerge(source: string, into: string, more: object, abort?: AbortSignal): Promise<Merge> {
  const body = { source, into, ...more };
  return take(client.POST("/graphs/{graph}/merge", { params: { path: { graph: graph.value } }, body, signal: abort ?? null })) as unknown as Promise<Merge>;
}

const WORDS: Record<string, string> = {
  fast_forward: "can be merged: nothing else happened since it was created",
  merged: "can be merged with what happened since",
  already_up_to_date: "has nothing that is not there yet",
};

export function MergeBar({ into, trial }: { into: string; trial: Merge }) {
  const source = branch.value;
  const [message, setMessage] = useState("");
  const resolutions = trial.outcome === "conflicts" ? buildResolutions(trial) : null;
  const isSettled = trial.outcome !== "conflicts" || resolutions !== null;
  const preview = usePreview(source, into, trial, resolutions);
  const outcome = write.outcome.value;
  useEffect(() => {
    if (about !== `${source} ${into}`) write.reset();
    about = `${source} ${into}`;
  }, [source, into]);
  const merge = () =>
    write.run(
      into,
      { source, message: message || null, ...(resolutions ? { resolutions } : {}) },
      (body) => askMerge(source, into, body),
      (done) => ({ commit: done.commit_id, text: `${source} is merged into ${into}.` }),
    );
  const isNothing = trial.outcome === "already_up_to_date";
  return (
    <div class="merge-bar" data-outcome={outcome.is}>
      <p>
        <b>{source}</b>{" "}
        {isSettled ? (
          resolutions ? "can be merged with your decisions" : (WORDS[trial.outcome] ?? trial.outcome)
        ) : (
          <>
            and <b>{into}</b> changed the same: settle each conflict below, then merge
          </>
        )}
      </p>
      {isSettled && !isNothing && <Preview merge={resolutions ? preview.value : trial} />}
      <Problem error={preview.error} />
      {!isNothing && outcome.is !== "running" && outcome.is !== "unknown" && (
        <form onSubmit={submitting(() => void merge())}>
          <input type="text" aria-label="Message of the merge" placeholder="Why is it right? (message)" value={message} onInput={(event) => setMessage(event.currentTarget.value)} />
          <Button kind="primary" icon="merge" type="submit" disabled={!isSettled || preview.error !== undefined || (resolutions !== null && preview.value?.outcome === "conflicts")}>
            Merge into {into}
          </Button>
        </form>
      )}
      <OutcomeNote outcome={outcome} branch={into} />
    </div>
  );
}

/** What a merge with these decisions would do: asked as soon as every conflict is settled. */
function usePreview(source: string, into: string, trial: Merge, resolutions: Decision[] | null) {
  const inputs = [source, into, trial, resolutions === null ? null : JSON.stringify([...decisions.value])];
  return useLoad(resolutions ? (abort) => askMerge(source, into, { resolutions, dry_run: true }, abort) : null, inputs);
}

/** What a merge or a revert would change, by type. */
export function Preview({ merge }: { merge: Merge | undefined }) {
  if (!merge) return null;
  if (merge.outcome === "conflicts") {
    return (
      <ul class="preview">
        {merge.conflicts.shown.map((one) => (
          <li key={one.message} class="wrong">
            {one.message}
          </li>
        ))}
      </ul>
    );
  }
  return (
    <ul class="preview" aria-label="What it would change">
      {merge.tables.map((table) => {
        const name = String(table.table_key ?? table.table ?? "");
        const parts = ["inserted", "updated", "deleted"].filter((part) => Number(table[part] ?? 0) > 0).map((part) => `${table[part]} ${part}`);
        return (
          <li key={name}>
            <b>{nameType(name)}</b> {parts.join(", ") || "changed"}
            {table.rows_before !== undefined && (
              <span class="quiet">
                {" "}
                {String(table.rows_before)} → {String(table.rows_after ?? "")} rows
              </span>
            )}
          </li>
        );
      })}
    </ul>
  );
}
