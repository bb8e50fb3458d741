// A client of an omnigraph server: its types are generated from the OpenAPI document, its errors can be told apart.
import createClient, { type Client } from "openapi-fetch";
import type { paths } from "./generated/api";

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

export interface ClientOptions {
  /** The address of the server, such as `https://graphs.example.org`. */
  url: string;
  /** The token, or a function that returns the present one; without a token nothing is sent. */
  token?: string | (() => string | null | undefined);
  /** Called after every request: whether the server answered. */
  onReach?: (isReachable: boolean) => void;
}

/** Return a client with a typed method for every route. */
export function createGraphClient(options: ClientOptions): Client<paths> {
  const client = createClient<paths>({
    baseUrl: options.url,
    async fetch(request: Request) {
      try {
        const response = await fetch(request);
        options.onReach?.(true);
        return response;
      } catch (error) {
        if (request.signal.aborted) throw error;
        options.onReach?.(false);
        throw new UnreachableError();
      }
    },
  });
  client.use({
    onRequest({ request }) {
      const token = typeof options.token === "function" ? options.token() : options.token;
      if (token) request.headers.set("Authorization", `Bearer ${token}`);
      return request;
    },
  });
  return client;
}

export interface Answer<T> {
  data?: T;
  error?: unknown;
  response: Response;
}

/** Return the document of an answer; an answer that is an error is raised as an `ApiError`. */
export async function take<T>(asked: Promise<Answer<T>>): Promise<T> {
  const { data, error, response } = await asked;
  if (response.ok) return data as T;
  throw new ApiError(response.status, (typeof error === "object" && error ? error : {}) as Record<string, unknown>);
}
