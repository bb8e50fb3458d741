// Take back one commit by another one, after a look at what that would change.
import { useState } from "preact/hooks";
import { client, take } from "../api";
import { branch, graph } from "../location";
import type { Commit, Merge } from "../shapes";
import { mayI } from "../store";
import { Button, Problem } from "../ui/parts";
import { Preview } from "./merge_bar";
import { OutcomeNote } from "./outcome_note";
import { createWrite } from "./writes";

const write = createWrite();
let about = "";

function askRevert(commit: string, more: object): Promise<Merge> {
  const body = { commit, branch: branch.value, ...more };
  return take(client.POST("/graphs/{graph}/revert", { params: { path: { graph: graph.value } }, body })) as unknown as Promise<Merge>;
}

export function RevertBar({ commit }: { commit: Commit }) {
  const [trial, setTrial] = useState<Merge>();
  const [error, setError] = useState<Error>();
  if (about !== commit.id && write.outcome.peek().is !== "idle" && write.outcome.peek().is !== "unknown") {
    // The note stays for the newest commit, which the revert made.
    const outcome = write.outcome.peek();
    if (!(outcome.is === "done" && outcome.commit === commit.id)) write.reset();
  }
  about = commit.id;
  if (!commit.parent || !mayI("change")) return null;
  const look = async () => {
    setError(undefined);
    try {
      setTrial(await askRevert(commit.id, { dry_run: true }));
    } catch (failed) {
      setError(failed as Error);
    }
  };
  const revert = () =>
    write
      .run(
        branch.value,
        { commit: commit.id },
        (body) => askRevert(commit.id, body),
        (done) => ({ commit: done.commit_id, text: "The commit is taken back." }),
      )
      .then(() => setTrial(undefined));
  return (
    <div class="merge-bar">
      {!trial && (
        <Button icon="undo" onClick={() => void look()}>
          Revert this commit…
        </Button>
      )}
      {trial?.outcome === "conflicts" && (
        <>
          <p class="wrong">Later commits changed the same values, so it can't be taken back alone:</p>
          <ul class="preview">
            {trial.conflicts.shown.map((one) => (
              <li key={one.message}>{one.message}</li>
            ))}
          </ul>
        </>
      )}
      {trial && trial.outcome !== "conflicts" && (
        <>
          <p>
            {trial.tables.length > 0 ? `Reverting makes a new commit on ${branch.value}:` : "Reverting would change nothing: later commits have undone it already."}
          </p>
          <Preview merge={trial} />
          <div class="choices">
            <Button kind="danger" icon="undo" onClick={() => void revert()} disabled={trial.tables.length === 0}>
              Revert
            </Button>
            <Button onClick={() => setTrial(undefined)}>Keep it</Button>
          </div>
        </>
      )}
      <Problem error={error} />
      <OutcomeNote outcome={write.outcome.value} branch={branch.value} />
    </div>
  );
}
