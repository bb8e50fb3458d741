"""Over HTTP and MCP, too, servers of graphs that differ in hidden rows only can't be told apart."""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from fastapi.routing import APIRoute
from mcp.client import Client
from starlette.testclient import TestClient

from agents import talk, text_of
from hidden_rows import POLICIES, VARIANTS, HiddenRows, Normalizer, build_graph
from omnigraph.config.server import HostedGraph, ServerConfig, ServerLimits
from omnigraph.config.tokens import format_token_entry
from omnigraph.runtime import Runtime
from omnigraph.server.http.app import ROUTERS, build_app
from omnigraph.server.service import Service
from serving import TOKENS, Served
from worlds import FAST

ALL = "query people() { match { $p: Person } return { $p.name, $p.level } order { $p.name } }"
COUNT = "query people() { match { $p: Person } return { count(*) as n } }"
QUERIES = """
query friends($n: String) { match { $p: Person { name: $n } $p knows $q } return { $q.name } order { $q.name } }
query census() { match { $p: Person } return { count(*) as n, max($p.level) as m } }
"""


def serve(home: Path, variant: HiddenRows) -> Served:
    """A server of a graph with these hidden rows."""
    graph = build_graph(home / "graph", variant)
    (home / "policies").mkdir()
    (home / "policies" / "all.cedar").write_text(POLICIES, encoding="utf-8")
    (home / "queries").mkdir()
    (home / "queries" / "all.gq").write_text(QUERIES, encoding="utf-8")
    tokens = home / "tokens.toml"
    entry = format_token_entry(TOKENS["reader"], "eve", ("readers",))
    tokens.write_text(f'{entry}[token.attributes]\nregions = ["eu"]\n', encoding="utf-8")
    tokens.chmod(0o600)
    config = ServerConfig(
        graphs=(HostedGraph(id="people", uri=graph.uri, queries=home / "queries"),),
        tokens_file=tokens,
        policies=home / "policies",
        limits=ServerLimits(threads=2),
    )
    service = Service.start(config, Runtime(options=FAST))
    client = TestClient(build_app(service), base_url="http://localhost:8080", raise_server_exceptions=False)
    return Served(service=service, client=client, graph=graph, home=home)


@dataclass
class Twin:
    """A server, and what makes its answers comparable."""

    served: Served
    normalizer: Normalizer


@pytest.fixture(scope="module")
def twins(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[Twin]]:
    home = tmp_path_factory.mktemp("twins")
    servers = [serve(home / variant.name, variant) for variant in VARIANTS]
    yield [Twin(server, Normalizer(server.graph)) for server in servers]
    for server in servers:
        server.service.close()


GETS = [
    "/snapshot",
    "/snapshot?snapshot=first",
    "/schema",
    "/branches",
    "/commits",
    "/commits?filter=type%3DPerson",
    "/commits/{head}",
    "/commits/{head}/changes",
    "/diff?before=first&after=main",
    "/diff?before=first&after=main&limit=2",
    "/changes?limit=2",
    "/changes",
    "/history?type=Person&id=p1",
    "/history?type=Person&id=h1",
    "/history?type=Knows&id=x1",
    "/queries",
    "/tags",
    "/operations",
    "/recoveries",
    "/indexes",
    "/me",
    "/running",
    "/blob?type=Person&id=p1&property=photo",
    "/blob?type=Person&id=h1&property=photo",
]
POSTS: dict[str, tuple[str, dict[str, Any]]] = {
    "query": ("/query", {"query": ALL}),
    "count": ("/query", {"query": COUNT, "max_staleness": 60}),
    "past": ("/query", {"query": ALL, "snapshot": "first"}),
    "wrong": ("/query", {"query": "query q() { match { $p: Persn } return { $p.name } }"}),
    "explain": ("/explain", {"query": ALL}),
    "analyze": ("/explain", {"query": ALL, "analyze": True}),
    "sql": ("/sql", {"sql": "select count(*) n, max(level) m from Person"}),
    "complete": ("/complete", {"query": "match { $p: Per"}),
    "lint": ("/lint", {"query": ALL}),
    "window": ("/query", {"query": ALL, "limit": 3, "offset": 5}),
    "cypher": ("/cypher", {"cypher": "MATCH (p:Person) RETURN count(*) AS n, max(p.level) AS m"}),
    "search": ("/search", {"text": "common"}),
    "search of hidden": ("/search", {"text": "h1"}),
    "neighbours": ("/neighbours", {"nodes": [{"type": "Person", "id": "p0"}, {"type": "Person", "id": "h1"}]}),
    "algorithm": ("/algorithms", {"name": "core_numbers", "edges": ["Knows"]}),
    "embed": ("/embed", {"type": "Person"}),
    "verify": ("/verify", {}),
    "cleanup": ("/cleanup", {"keep": 1}),
    "repair": ("/repair", {}),
    "revert": ("/revert", {"commit": "main", "dry_run": True}),
    "cherry-pick": ("/cherry-pick", {"commit": "main", "branch": "review", "dry_run": True}),
    "reset": ("/reset", {"to": "first", "branch": "review"}),
    "export": ("/export", {}),
    "stored": ("/queries/census", {}),
    "stored of hidden": ("/queries/friends", {"params": {"n": "h1"}}),
    "merge": ("/merge", {"source": "review", "into": "main", "dry_run": True}),
    "preview": ("/mutate", {"query": "query u() { update Person set { level: 3 } where level >= 0 }", "dry_run": True}),
    "hidden end": ("/mutate", {"query": 'query u() { insert Knows { from: "p0", to: "h1" } }'}),
    "check": ("/check", {}),
    "optimize": ("/optimize", {}),
    "schema": ("/schema/plan", {"schema": "node Person { name: String @key }"}),
    "schema change": ("/schema/apply", {"schema": "node Person { name: String @key }"}),
    "load": ("/load?mode=merge", {"type": "Person", "data": {"name": "h1", "level": 1}}),
}
TOOLS: dict[str, tuple[str, dict[str, Any]]] = {
    "query": ("graph_query", {"query": ALL}),
    "schema": ("graph_schema", {}),
    "describe": ("graph_describe", {"samples": 10}),
    "search": ("graph_search", {"text": "h1"}),
    "search by prefix": ("graph_search", {"text": "p"}),
    "propose": ("graph_propose", {"query": 'query u() { insert Person { name: "h1", level: 1 } }', "branch": "x"}),
    "explain": ("graph_explain", {"query": ALL}),
    "branches": ("graph_branches", {}),
    "commits": ("graph_commits", {}),
    "diff": ("graph_diff", {"before": "first", "after": "main"}),
    "merge": ("graph_merge", {"source": "review", "into": "main", "dry_run": True}),
    "stored": ("friends", {"n": "p0"}),
    "census": ("census", {}),
}


# Names of tags, branches and running requests, which have no rows; agents' tools are compared by themselves.
WITHOUT_ROWS = {
    ("POST", "/tags"),
    ("DELETE", "/tags/{tag:path}"),
    ("POST", "/branches"),
    ("DELETE", "/branches/{branch:path}"),
    ("DELETE", "/running/{query_id}"),
}


def test_every_route_of_a_graph_is_compared() -> None:
    asked = {("GET", path) for path in GETS} | {("POST", path) for path, _ in POSTS.values()}
    names = {(method, re.sub(r"\?.*", "", path)) for method, path in asked}
    names = {(method, path.replace("{head}", "{commit}")) for method, path in names}
    names |= {("POST", "/queries/{name}")} if ("POST", "/queries/census") in names else set()
    there = {
        (method, route.path.removeprefix("/graphs/{graph}"))
        for router in ROUTERS
        for route in router.routes
        if isinstance(route, APIRoute) and route.path.startswith("/graphs/{graph}/")
        for method in route.methods or ()
    }

    assert there - names == WITHOUT_ROWS


def answer(twin: Twin, method: str, path: str, body: object = None) -> str:
    served = twin.served
    head = served.graph.commits(limit=1)[0].id
    response = served.client.request(
        method, f"/graphs/people{path.format(head=head)}", headers=served.as_role("reader"), json=body
    )
    # A cursor has the id of a commit or the version of a table; the pages that it leads to are compared.
    names = twin.normalizer.normalize(re.sub(r'"next_cursor":"[^"]*"', '"next_cursor":"…"', response.text))
    return f"{response.status_code} {names}"


@pytest.mark.parametrize("path", GETS)
def test_no_route_tells_graphs_apart_that_differ_in_hidden_rows(path: str, twins: list[Twin]) -> None:
    answers = [answer(twin, "GET", path) for twin in twins]

    assert answers[1:] == answers[:1] * (len(answers) - 1)


@pytest.mark.parametrize("call", POSTS)
def test_no_call_tells_graphs_apart_that_differ_in_hidden_rows(call: str, twins: list[Twin]) -> None:
    path, body = POSTS[call]

    answers = [answer(twin, "POST", path, body) for twin in twins]

    assert answers[1:] == answers[:1] * (len(answers) - 1)


@pytest.mark.parametrize("tool", TOOLS)
def test_no_tool_of_an_agent_tells_them_apart(tool: str, twins: list[Twin]) -> None:
    name, arguments = TOOLS[tool]

    async def call(client: Client) -> str:
        return text_of(await client.call_tool(name, arguments))

    answers = [twin.normalizer.normalize(talk(twin.served, "reader", call)) for twin in twins[:2]]

    assert answers[1] == answers[0]


def test_the_answers_have_rows(twins: list[Twin]) -> None:
    """Equal answers prove nothing if they are errors."""
    people = json.loads(answer(twins[1], "POST", "/query", {"query": ALL}).partition(" ")[2])
    stored = json.loads(answer(twins[1], "POST", "/queries/census", {}).partition(" ")[2])

    assert [row["p.name"] for row in people["rows"]] == [f"p{n}" for n in range(7)]
    assert stored["rows"] == [{"n": 7, "m": 11}]
    statuses = {call: int(answer(twins[1], "POST", *POSTS[call])[:3]) for call in POSTS}
    assert {call for call, status in statuses.items() if status == 400} == {"wrong"}
    assert {call for call, status in statuses.items() if status not in {200, 403}} == {"wrong", "hidden end"}, statuses
    for path in ("/snapshot", "/commits", "/diff?before=first&after=main", "/history?type=Person&id=p1"):
        assert answer(twins[1], "GET", path).startswith("200 "), path


def test_the_list_of_graphs_has_no_number_of_bytes(twins: list[Twin]) -> None:
    served = twins[1].served
    response = served.client.get("/graphs", headers=served.as_role("reader"))

    assert [(graph["id"], graph["scrub"]) for graph in response.json()["graphs"]] == [("people", None)]


def test_a_refusal_is_named_with_the_status_of_a_denial(twins: list[Twin]) -> None:
    response = twins[1].served.client.post(
        "/graphs/people/explain", headers=twins[1].served.as_role("reader"), json={"query": ALL}
    )

    assert (response.status_code, response.json()["code"]) == (403, "rows_hidden")


def test_the_metrics_have_no_line_about_a_graph_with_hidden_rows(twins: list[Twin]) -> None:
    served = twins[1].served
    served.client.post("/graphs/people/query", headers=served.as_role("reader"), json={"query": ALL})
    text = served.client.get("/metrics", headers=served.as_role("reader")).text

    assert "omnigraph_requests_total" in text
    assert 'graph="people"' in served.service.metrics.render()
    assert 'graph="people"' not in text


def test_an_actor_with_rules_loads_by_a_mutation_with_records(twins: list[Twin]) -> None:
    """A load is refused by name; the same rows as a parameter of a mutation are checked row by row."""
    served = twins[1].served

    def mutate(*rows: object) -> tuple[int, object]:
        query = """query q($rows: [{ name: String, region: String?, level: I32? }]) {
            match { each $r in $rows }
            insert Person { name: $r.name, region: $r.region, level: $r.level }
        }"""
        response = served.client.post(
            "/graphs/people/mutate",
            headers=served.as_role("reader"),
            json={"query": query, "params": {"rows": list(rows)}, "branch": "review"},
        )
        return response.status_code, response.json().get("code", response.json().get("affected_nodes"))

    seen = {"name": "new1", "region": "eu"}
    assert mutate(seen, {"name": "new2", "region": "eu", "level": 1}) == (200, 2)
    assert mutate(seen, {"name": "new3", "region": "us"}) == (403, "row_out_of_sight")
    assert mutate(seen, {"name": "h1", "region": "eu"}) == (403, "row_hidden")
