// Type-checked by the tests, never run: the types know routes, parameters and bodies.
import { createGraphClient, take, type Rows } from "../src/index";

const client = createGraphClient({ url: "http://127.0.0.1:1", token: () => null });
export const rows = take(
  client.POST("/graphs/{graph}/query", { params: { path: { graph: "people" } }, body: { query: "q", params: { n: 1 } } }),
).then((answer) => answer as Rows);
// @ts-expect-error - there is no such route
export const unknown = client.GET("/graphs/{graph}/never-was", { params: { path: { graph: "people" } } });
// @ts-expect-error - the path needs a graph
export const incomplete = client.POST("/graphs/{graph}/query", { body: { query: "q" } });
