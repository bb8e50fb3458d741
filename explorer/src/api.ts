// Every request of the page: a client generated from the OpenAPI document, the token, and errors that can be told apart.
import createClient from "openapi-fetch";
import type { paths } from "./generated/api";
import { token, expel } from "./session";
import { noteReach } from "./reachable";

/** An answer of the server that is an error: `code` names it, `facts` are the fields of that error. */
export class ApiError extends Error {
  constructor(
    readonly status: number,
    readonly facts: Record<string, unknown>,
  ) {
    super(typeof facts.error === "string" ? facts.error : `The server answered ${status}.`);
  }
  get code(): string {
    return String(this.facts.code ?? "");
  }
}

/** The server gave no answer: nobody knows whether the request was carried out. */
export class UnreachableError extends Error {
  constructor() {
    super("The server does not answer.");
  }
}

export const client = createClient<paths>({
  baseUrl: location.origin,
  async fetch(request: Request) {
    try {
      const response = await fetch(request);
      noteReach(true);
      return response;
    } catch (error) {
      if (request.signal.aborted) throw error;
      noteReach(false);
      throw new UnreachableError();
    }
  },
});

client.use({
  onRequest({ request }) {
    if (token.value) request.headers.set("Authorization", `Bearer ${token.value}`);
    return request;
  },
});

interface Answer<T> {
  data?: T;
  error?: unknown;
  response: Response;
}

/** Return the document of an answer. An error is raised; one of the token ends the session. */
export async function take<T>(asked: Promise<Answer<T>>): Promise<T> {
  const { data, error, response } = await asked;
  if (response.ok) return data as T;
  if (response.status === 401) expel();
  throw new ApiError(response.status, (typeof error === "object" && error ? error : {}) as Record<string, unknown>);
}

export function isAbort(error: unknown): boolean {
  return error instanceof DOMException && error.name === "AbortError";
}

/** A key for a write, or the name of a running query; the server allows letters, digits and `-`. */
export function newKey(): string {
  return crypto.randomUUID();
}
