"""Every route of a server with a request that works, and who may make it."""

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from omnigraph.options import EmbedOptions, EmbedProvider
from serving import ADD, ALL, PEOPLE, SCHEMA, Served, serving
from worlds import FAST

ROLES = ("none", "bad", "revoked", "nobody", "reader", "writer", "admin")
UNKNOWN = frozenset({"none", "bad", "revoked"})
READERS = frozenset({"reader", "writer", "admin"})
WRITERS = frozenset({"writer", "admin"})
ADMINS = frozenset({"admin"})
ANYBODY_KNOWN = frozenset({"nobody", *READERS})


@dataclass(frozen=True)
class Route:
    """A route with a request that works, and who may make it."""

    method: str
    path: str
    who: frozenset[str]
    url: str = ""
    body: dict[str, Any] | bytes | None = field(default=None, hash=False)
    refusal: int = 403

    def __str__(self) -> str:
        return f"{self.method} {self.path}"


WIDER = SCHEMA.replace("age: I64?", 'age: I64?  photo: Blob?  bio: String?  v: Vector(4)? @embed("bio")')
G = "/graphs/{graph}"
LIST_TOOLS = {"jsonrpc": "2.0", "id": "1", "method": "tools/list"}
ROUTES = [
    Route("GET", "/metrics", ANYBODY_KNOWN),
    Route("GET", "/openapi.json", ANYBODY_KNOWN),
    Route("GET", "/graphs", ANYBODY_KNOWN),
    Route("GET", f"{G}/snapshot", READERS),
    Route("GET", f"{G}/schema", READERS),
    Route("GET", f"{G}/branches", READERS),
    Route("GET", f"{G}/commits", READERS),
    Route("GET", f"{G}/commits/{{commit}}", READERS, f"{G}/commits/HEAD"),
    Route("GET", f"{G}/diff", READERS, f"{G}/diff?before=main&after=main"),
    Route("GET", f"{G}/changes", READERS),
    Route("GET", f"{G}/commits/{{commit}}/changes", READERS, f"{G}/commits/HEAD/changes"),
    Route("GET", f"{G}/history", READERS, f"{G}/history?type=Person&id=Ada"),
    Route("GET", f"{G}/blob", READERS, f"{G}/blob?type=Person&id=Ada&property=photo"),
    Route("GET", f"{G}/indexes", READERS),
    Route("GET", f"{G}/operations", READERS),
    Route("GET", f"{G}/recoveries", READERS),
    Route("GET", f"{G}/tags", READERS),
    Route("POST", f"{G}/tags", WRITERS, body={"name": "tag-of-ROLE"}),
    Route("DELETE", f"{G}/tags/{{tag:path}}", WRITERS, f"{G}/tags/v/of-ROLE"),
    Route("POST", f"{G}/embed", WRITERS, body={"type": "Person"}),
    Route("POST", f"{G}/optimize", ADMINS, body={}),
    Route("POST", f"{G}/cleanup", ADMINS, body={"keep": 1}),
    Route("POST", f"{G}/check", ADMINS, body={}),
    Route("POST", f"{G}/verify", ADMINS, body={}),
    Route("POST", f"{G}/repair", ADMINS, body={}),
    Route("POST", f"{G}/query", READERS, body={"query": ALL}),
    Route("POST", f"{G}/explain", READERS, body={"query": ALL}),
    Route("POST", f"{G}/complete", READERS, body={"query": "match { $p: "}),
    Route("POST", f"{G}/cypher", READERS, body={"cypher": "MATCH (p:Person) RETURN p.name"}),
    Route("POST", f"{G}/lint", READERS, body={"query": ALL}),
    Route("POST", f"{G}/neighbours", READERS, body={"nodes": [{"type": "Person", "id": "Ada"}]}),
    Route("POST", f"{G}/search", READERS, body={"text": "ada"}),
    Route("GET", "/me", ANYBODY_KNOWN),
    Route("GET", f"{G}/me", READERS),
    Route("GET", f"{G}/running", READERS),
    Route("DELETE", f"{G}/running/{{query_id}}", READERS, f"{G}/running/q-1"),
    Route("POST", f"{G}/algorithms", READERS, body={"name": "core_numbers", "edges": ["Knows"]}),
    Route("POST", f"{G}/sql", READERS, body={"sql": "select name, age from Person order by name"}),
    Route("POST", f"{G}/export", WRITERS, body={}),
    Route("POST", f"{G}/mutate", WRITERS, body={"query": ADD, "params": {"n": "ROLE"}}),
    Route("POST", f"{G}/load", WRITERS, f"{G}/load?mode=merge", body=PEOPLE),
    Route("POST", f"{G}/branches", WRITERS, body={"name": "made/by-ROLE"}),
    Route("DELETE", f"{G}/branches/{{branch:path}}", WRITERS, f"{G}/branches/old/of-ROLE"),
    Route("POST", f"{G}/merge", WRITERS, body={"source": "side"}),
    Route("POST", f"{G}/revert", WRITERS, body={"commit": "main"}),
    Route("POST", f"{G}/cherry-pick", WRITERS, body={"commit": "main"}),
    Route("POST", f"{G}/reset", ADMINS, body={"to": "main"}),
    Route("POST", f"{G}/schema/plan", ADMINS, body={"schema": WIDER}),
    Route("POST", f"{G}/schema/apply", ADMINS, body={"schema": WIDER}),
    Route("GET", f"{G}/queries", READERS),
    Route("POST", f"{G}/queries/{{name}}", READERS, f"{G}/queries/friends", {"params": {"n": "Ada"}}, refusal=404),
    Route("POST", "/mcp", READERS, body=LIST_TOOLS, refusal=400),
    Route("POST", "/mcp/{graph}", READERS, body=LIST_TOOLS),
]


def serve_every_route(home: Path) -> Served:
    """Start a server over a graph that has a branch and a tag for each role, and vectors."""
    embedding = EmbedOptions(provider=EmbedProvider.HASH)
    served = serving(home, options=replace(FAST, embedding=embedding))
    served.graph.apply_schema(WIDER)
    for name in ("side", *(f"old/of-{role}" for role in ROLES)):
        served.graph.branches.create(name)
    for role in ROLES:
        served.graph.tags.create(f"v/of-{role}")
    return served


def request(served: Served, route: Route, role: str, graph: str = "people") -> tuple[int, str]:
    """Return the status and body of a route's answer to a role, without the id of the request."""
    url = (route.url or route.path).replace("{graph}", graph).replace("ROLE", role)
    url = url.replace("HEAD", served.graph.snapshot().commit.id)
    headers = {}
    if role == "bad":
        headers = {"Authorization": "Bearer og_never_was_there_at_all_000000000000000"}
    elif role != "none":
        headers = served.as_role(role)
    if isinstance(route.body, bytes):
        answer = served.client.request(route.method, url, content=route.body, headers=headers)
    else:
        body = None if route.body is None else _named(route.body, role)
        answer = served.client.request(route.method, url, json=body, headers=headers)
    return answer.status_code, answer.text.replace(answer.headers["x-request-id"], "")


def _named(body: dict[str, Any], role: str) -> dict[str, Any]:
    return {
        key: _named(value, role)
        if isinstance(value, dict)
        else value.replace("ROLE", role)
        if isinstance(value, str)
        else value
        for key, value in body.items()
    }
