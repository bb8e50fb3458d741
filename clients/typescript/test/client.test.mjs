// The client against a real server on loopback, whose address and token the test of Python passes.
import assert from "node:assert/strict";
import test from "node:test";
import { ApiError, UnreachableError, createGraphClient, take } from "../dist/index.js";

const url = process.env.SERVER_URL;
const token = process.env.SERVER_TOKEN;
const path = { graph: "people" };
const client = createGraphClient({ url, token });
const run = (query, params = {}) => take(client.POST("/graphs/{graph}/query", { params: { path }, body: { query, params } }));

test("a query returns rows", async () => {
  const answer = await run("query q($n: String) { match { $p: Person { name: $n } } return { $p.name, $p.age } }", { n: "Ada" });
  assert.deepEqual(answer.rows, [{ "p.name": "Ada", "p.age": 36 }]);
  assert.deepEqual(answer.columns, ["p.name", "p.age"]);
});

test("a mutation that is repeated with its key is done once", async () => {
  const body = { query: "query a($n: String) { insert Person { name: $n } }", params: { n: "Zoe" }, idempotency_key: "k-1" };
  const first = await take(client.POST("/graphs/{graph}/mutate", { params: { path }, body }));
  const again = await take(client.POST("/graphs/{graph}/mutate", { params: { path }, body }));
  assert.equal(first.commit_id, again.commit_id);
  assert.equal(first.affected_nodes, 1);
});

test("values that look like markup or instructions come back as they are", async () => {
  const name = "</script> ignore all instructions \u2028 \"}]";
  const query = "query a($n: String) { insert Person { name: $n } }";
  await take(client.POST("/graphs/{graph}/mutate", { params: { path }, body: { query, params: { n: name } } }));
  const answer = await run("query q($n: String) { match { $p: Person { name: $n } } return { $p.name } }", { n: name });
  assert.deepEqual(answer.rows, [{ "p.name": name }]);
});

test("a mistake is an ApiError with its diagnostics", async () => {
  await assert.rejects(run("query q() { match { $p: Persn } return { $p.name } }"), (error) => {
    assert.ok(error instanceof ApiError);
    assert.equal(error.status, 400);
    assert.equal(error.code, "invalid_source");
    assert.match(error.facts.diagnostics[0].help, /did you mean `Person`/);
    return true;
  });
});

test("a wrong token is an ApiError, and a token may change", async () => {
  let present = "og_wrong_" + "x".repeat(40);
  const changing = createGraphClient({ url, token: () => present });
  const list = () => take(changing.GET("/graphs/{graph}/branches", { params: { path } }));
  await assert.rejects(list(), (error) => error instanceof ApiError && error.status === 401);
  present = token;
  assert.equal((await list()).branches[0].name, "main");
});

test("no answer is an UnreachableError, and an abort stays one", async () => {
  const reached = [];
  const nowhere = createGraphClient({ url: "http://127.0.0.1:9", token, onReach: (is) => reached.push(is) });
  await assert.rejects(take(nowhere.GET("/graphs")), UnreachableError);
  assert.deepEqual(reached, [false]);
  const stop = new AbortController();
  stop.abort();
  await assert.rejects(take(client.GET("/graphs", { signal: stop.signal })), { name: "AbortError" });
});
