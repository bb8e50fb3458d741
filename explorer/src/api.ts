// Every request of the page: the shared client, with the page's token and its view of whether the server answers.
import { createGraphClient, take as takeAnswer, ApiError, type Answer } from "../../clients/typescript/src/client";
import { token, expel } from "./session";
import { noteReach } from "./reachable";

export { ApiError, UnreachableError } from "../../clients/typescript/src/client";

export const client = createGraphClient({ url: location.origin, token: () => token.value, onReach: noteReach });

/** Return the document of an answer. An error is raised; one of the token ends the session. */
export async function take<T>(asked: Promise<Answer<T>>): Promise<T> {
  try {
    return await takeAnswer(asked);
  } catch (error) {
    if (error instanceof ApiError && error.status === 401) expel();
    throw error;
  }
}

export function isAbort(error: unknown): boolean {
  return error instanceof DOMException && error.name === "AbortError";
}

/** A key for a write, or the name of a running query; the server allows letters, digits and `-`. */
export function newKey(): string {
  return crypto.randomUUID();
}
