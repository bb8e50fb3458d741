// Writes whose outcome may be unknown: the server was gone before it answered.
import { ApiError, client, newKey, take, UnreachableError } from "../api";
import { graph } from "../location";
import type { Commit } from "../shapes";
import { refresh } from "../store";
import { signal, type Signal } from "@preact/signals";

export type Outcome =
  | { is: "idle" }
  | { is: "running" }
  | { is: "done"; commit: string | null; text: string }
  | { is: "unknown"; key: string; branch: string }
  | { is: "not made"; text: string }
  | { is: "failed"; error: Error };

export interface Write {
  outcome: Signal<Outcome>;
  /** Send the request with a key of its own; `done` says what an answer means. */
  run: <T>(branch: string, send: (key: string) => Promise<T>, done: (answer: T) => { commit: string | null; text: string }) => Promise<void>;
  reset: () => void;
}

const PAUSE = 1000;

export function createWrite(): Write {
  const outcome = signal<Outcome>({ is: "idle" });
  return {
    outcome,
    async run(branch, send, done) {
      const key = newKey();
      outcome.value = { is: "running" };
      try {
        outcome.value = { is: "done", ...done(await send(key)) };
        refresh();
      } catch (error) {
        if (error instanceof UnreachableError || (error instanceof ApiError && error.code === "outcome_unknown")) {
          outcome.value = { is: "unknown", key, branch };
          await findOut(outcome, key, branch);
        } else outcome.value = { is: "failed", error: error as Error };
      }
    },
    reset: () => (outcome.value = { is: "idle" }),
  };
}

/** Ask until the server answers whether the branch has the commit. */
async function findOut(outcome: Signal<Outcome>, key: string, branch: string): Promise<void> {
  const isStill = () => outcome.value.is === "unknown" && outcome.value.key === key;
  while (isStill()) {
    await new Promise((resolve) => setTimeout(resolve, PAUSE));
    try {
      const found = await findCommit(key, branch);
      if (!isStill()) return;
      outcome.value = found
        ? { is: "done", commit: found.id, text: "The server was gone before it answered, and had committed it." }
        : { is: "not made", text: "The server was gone before it answered, and had not committed it. You can try again." };
      refresh();
    } catch (error) {
      if (!(error instanceof UnreachableError) && !(error instanceof ApiError && error.status >= 500)) {
        outcome.value = { is: "failed", error: error as Error };
      }
    }
  }
}

async function findCommit(key: string, branch: string): Promise<Commit | undefined> {
  const path = { graph: graph.value };
  // An interrupted commit is recovered by the next write or by this reading of what is pending.
  await take(client.GET("/graphs/{graph}/operations", { params: { path } }));
  const page = await take(client.GET("/graphs/{graph}/commits", { params: { path, query: { branch, limit: 100 } } }));
  return (page.commits as unknown as Commit[]).find((one) => one.idempotency_key === key);
}
