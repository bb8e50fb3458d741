// Writes whose outcome may be unknown: the server was gone before it answered.
import { ApiError, client, newKey, take, UnreachableError } from "../api";
import { graph } from "../location";
import type { Commit } from "../shapes";
import { actor, refresh } from "../store";
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
  run: <B extends object, T>(branch: string, body: B, send: (body: B & { idempotency_key: string }) => Promise<T>, done: (answer: T) => { commit: string | null; text: string }) => Promise<void>;
  reset: () => void;
}

const PAUSE = 1000;

interface Operation {
  branch: string;
  actor: string;
  state: string;
}

export function createWrite(): Write {
  const outcome = signal<Outcome>({ is: "idle" });
  // The request that got no answer and was not found: sent again by its user, it has the same key, and is made once
  // even if the first one was only late.
  let lost: { body: string; key: string } | null = null;
  return {
    outcome,
    async run(branch, body, send, done) {
      const text = JSON.stringify([graph.value, branch, body]);
      const key = lost?.body === text ? lost.key : newKey();
      lost = null;
      outcome.value = { is: "running" };
      try {
        outcome.value = { is: "done", ...done(await send({ ...body, idempotency_key: key })) };
        refresh();
      } catch (error) {
        if (error instanceof UnreachableError || (error instanceof ApiError && error.code === "outcome_unknown")) {
          outcome.value = { is: "unknown", key, branch };
          lost = { body: text, key };
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
      if (found === "pending") continue;
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

/** The commit of a request, or whether a write of this actor is still in progress on the branch, which may be it. */
async function findCommit(key: string, branch: string): Promise<Commit | "pending" | undefined> {
  const path = { graph: graph.value };
  // What is in progress is asked first: a write that ends between the two questions is then found among the commits.
  const { pending } = (await take(client.GET("/graphs/{graph}/operations", { params: { path } }))) as unknown as { pending: Operation[] };
  const page = await take(client.GET("/graphs/{graph}/commits", { params: { path, query: { branch, limit: 1, filter: [`key=${key}`] } } }));
  const found = (page.commits as unknown as Commit[])[0];
  if (found) return found;
  return pending.some((one) => one.branch === branch && one.actor === actor.value && one.state === "running") ? "pending" : undefined;
}
