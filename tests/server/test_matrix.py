"""Every route for everybody: who is not recognised gets 401, who may not gets 403 (404 for stored queries)."""

from collections.abc import Iterator

import pytest
from fastapi.routing import APIRoute

from omnigraph import __version__
from omnigraph.policy import Action
from omnigraph.server.http.app import ROUTERS
from omnigraph.server.http.routes_server import find_source_version
from server_routes import ROLES, ROUTES, UNKNOWN, Route, request, serve_every_route
from serving import Served


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    found = serve_every_route(tmp_path_factory.mktemp("matrix"))
    yield found
    found.service.close()


def test_the_table_has_every_route() -> None:
    there = {
        (method, route.path)
        for router in ROUTERS
        for route in router.routes
        if isinstance(route, APIRoute)
        for method in route.methods or ()
    }

    pages = ("/", "/explorer", "/explorer/", "/explorer/{name:path}")
    in_the_open = {(method, path) for method in ("GET", "HEAD") for path in ("/healthz", "/readyz", *pages)}
    # The page itself, and the exchange of a code for a token: tests/server/test_explorer_token.py, tests/explorer.
    in_the_open |= {("POST", "/explorer/token")}
    # These need a place for graphs of clients, and policies that name them: see test_graph_root.py.
    elsewhere = {("POST", "/graphs"), ("DELETE", "/graphs/{graph}")}
    assert {(route.method, route.path) for route in ROUTES} == there - in_the_open - elsewhere


@pytest.mark.parametrize("route", ROUTES, ids=str)
def test_only_who_may_gets_in(route: Route, served: Served) -> None:
    found = {role: request(served, route, role)[0] for role in ROLES}

    expected = {role: 401 if role in UNKNOWN else route.refusal for role in ROLES if role not in route.who}
    assert {role: found[role] for role in expected} == expected
    assert {role: found[role] // 100 for role in route.who} == dict.fromkeys(route.who, 2)


@pytest.mark.parametrize("route", [route for route in ROUTES if "{graph}" in route.path], ids=str)
def test_who_may_nothing_does_not_learn_which_graphs_there_are(route: Route, served: Served) -> None:
    assert request(served, route, "nobody") == request(served, route, "nobody", "secret")


@pytest.mark.parametrize("path", ["/healthz", "/readyz"])
def test_health_needs_no_token(path: str, served: Served) -> None:
    assert served.client.get(path).status_code == 200


def test_health_says_which_release_and_revision_it_is(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    class Installed:
        def read_text(self, name: str) -> str | None:
            assert name == "direct_url.json"
            return '{"url": "x", "vcs_info": {"vcs": "git", "commit_id": "4be1"}}'

    monkeypatch.setattr("importlib.metadata.distribution", lambda _: Installed())
    find_source_version.cache_clear()

    try:
        told = served.client.get("/healthz").json()
    finally:
        find_source_version.cache_clear()

    assert told == {"status": "ok", "version": __version__, "source_version": "4be1", "internal_schema_version": 4}


@pytest.mark.parametrize("text", [None, '{"url": "file:///x", "dir_info": {"editable": true}}', "nonsense"])
def test_a_package_that_came_from_no_repository_has_no_revision(
    text: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Installed:
        def read_text(self, _: str) -> str | None:
            return text

    monkeypatch.setattr("importlib.metadata.distribution", lambda _: Installed())

    assert find_source_version.__wrapped__() is None


@pytest.mark.parametrize("path", ["/graphs/people/nothing", "/docs", "/redoc"])
def test_who_is_not_recognised_does_not_learn_which_paths_there_are(path: str, served: Served) -> None:
    assert served.client.get(path).status_code == 401
    assert served.client.get(path, headers=served.as_role("admin")).status_code == 404


@pytest.mark.parametrize("action", list(Action))
def test_an_actor_without_any_policy_may_nothing(action: Action, served: Served) -> None:
    hosted = served.service.registry.graphs["people"]
    tokens = served.service.tokens
    assert tokens is not None
    nobody = tokens.authenticate(served.as_role("nobody")["Authorization"])
    assert nobody is not None

    assert not hosted.allows(nobody, action, branch="main")
    assert not hosted.allows(nobody, action)
