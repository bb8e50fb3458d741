"""Every route for everybody: who is not recognised gets 401, who may not gets 403 (404 for stored queries)."""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import pytest
from fastapi.routing import APIRoute

from omnigraph import __version__
from omnigraph.options import EmbedOptions, EmbedProvider
from omnigraph.policy import Action
from omnigraph.server.app import ROUTERS
from omnigraph.server.routes_server import source_version
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
    Route("POST", f"{G}/export", WRITERS, body={}),
    Route("POST", f"{G}/mutate", WRITERS, body={"query": ADD, "params": {"n": "ROLE"}}),
    Route("POST", f"{G}/load", WRITERS, f"{G}/load?mode=merge", body=PEOPLE),
    Route("POST", f"{G}/branches", WRITERS, body={"name": "made/by-ROLE"}),
    Route("DELETE", f"{G}/branches/{{branch:path}}", WRITERS, f"{G}/branches/old/of-ROLE"),
    Route("POST", f"{G}/merge", WRITERS, body={"source": "side"}),
    Route("POST", f"{G}/schema/plan", ADMINS, body={"schema": WIDER}),
    Route("POST", f"{G}/schema/apply", ADMINS, body={"schema": WIDER}),
    Route("GET", f"{G}/queries", READERS),
    Route("POST", f"{G}/queries/{{name}}", READERS, f"{G}/queries/friends", {"params": {"n": "Ada"}}, refusal=404),
    Route("POST", "/mcp", READERS, body=LIST_TOOLS, refusal=400),
    Route("POST", "/mcp/{graph}", READERS, body=LIST_TOOLS),
]


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    embedding = EmbedOptions(provider=EmbedProvider.HASH)
    found = serving(tmp_path_factory.mktemp("matrix"), options=replace(FAST, embedding=embedding))
    found.graph.apply_schema(WIDER)
    for name in ("side", *(f"old/of-{role}" for role in ROLES)):
        found.graph.branches.create(name)
    for role in ROLES:
        found.graph.tags.create(f"v/of-{role}")
    yield found
    found.service.close()


def asked(served: Served, route: Route, role: str, graph: str = "people") -> tuple[int, Any]:
    """The status and body of a route's answer to a role."""
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


def test_the_table_has_every_route() -> None:
    there = {
        (method, route.path)
        for router in ROUTERS
        for route in router.routes
        if isinstance(route, APIRoute)
        for method in route.methods or ()
    }

    assert {(route.method, route.path) for route in ROUTES} == there - {("GET", "/healthz"), ("GET", "/readyz")}


@pytest.mark.parametrize("route", ROUTES, ids=str)
def test_only_who_may_gets_in(route: Route, served: Served) -> None:
    found = {role: asked(served, route, role)[0] for role in ROLES}

    expected = {role: 401 if role in UNKNOWN else route.refusal for role in ROLES if role not in route.who}
    assert {role: found[role] for role in expected} == expected
    assert {role: found[role] // 100 for role in route.who} == dict.fromkeys(route.who, 2)


@pytest.mark.parametrize("route", [route for route in ROUTES if "{graph}" in route.path], ids=str)
def test_who_may_nothing_does_not_learn_which_graphs_there_are(route: Route, served: Served) -> None:
    assert asked(served, route, "nobody") == asked(served, route, "nobody", "secret")


@pytest.mark.parametrize("path", ["/healthz", "/readyz"])
def test_health_needs_no_token(path: str, served: Served) -> None:
    assert served.client.get(path).status_code == 200


def test_health_says_which_release_and_revision_it_is(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    class Installed:
        def read_text(self, name: str) -> str | None:
            assert name == "direct_url.json"
            return '{"url": "x", "vcs_info": {"vcs": "git", "commit_id": "4be1"}}'

    monkeypatch.setattr("importlib.metadata.distribution", lambda _: Installed())
    source_version.cache_clear()

    try:
        told = served.client.get("/healthz").json()
    finally:
        source_version.cache_clear()

    assert told == {"status": "ok", "version": __version__, "source_version": "4be1", "internal_schema_version": 4}


@pytest.mark.parametrize("text", [None, '{"url": "file:///x", "dir_info": {"editable": true}}', "nonsense"])
def test_a_package_that_came_from_no_repository_has_no_revision(
    text: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Installed:
        def read_text(self, _: str) -> str | None:
            return text

    monkeypatch.setattr("importlib.metadata.distribution", lambda _: Installed())

    assert source_version.__wrapped__() is None


@pytest.mark.parametrize("path", ["/", "/graphs/people", "/graphs/people/nothing", "/docs", "/redoc"])
def test_who_is_not_recognised_does_not_learn_which_paths_there_are(path: str, served: Served) -> None:
    assert served.client.get(path).status_code == 401
    assert served.client.get(path, headers=served.as_role("admin")).status_code == 404


@pytest.mark.parametrize("action", list(Action))
def test_an_actor_without_any_policy_may_nothing(action: Action, served: Served) -> None:
    hosted = served.service.hosting.graphs["people"]
    tokens = served.service.tokens
    assert tokens is not None
    nobody = tokens.actor_of(served.as_role("nobody")["Authorization"])
    assert nobody is not None

    assert not hosted.allows(nobody, action, branch="main")
    assert not hosted.allows(nobody, action)
