"""Every route for everybody: who is not recognised gets 401, who may not gets 403 (404 for stored queries)."""

import json
from collections.abc import Iterator
from dataclasses import replace

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


def find_parameters() -> dict[tuple[str, str], list[str]]:
    """The names that may stand in the query string, by method and path of the routes."""
    return {
        (method, route.path): [field.alias for field in route.dependant.query_params]
        for router in ROUTERS
        for route in router.routes
        if isinstance(route, APIRoute)
        for method in route.methods or ()
    }


@pytest.mark.parametrize("route", ROUTES, ids=str)
def test_every_route_refuses_parameters_that_it_does_not_have(route: Route, served: Served) -> None:
    known = find_parameters()[route.method, route.path]
    url = route.url or route.path

    def ask(name: str) -> str:
        asked = replace(route, url=f"{url}{'&' if '?' in url else '?'}{name}=true")
        status, text = request(served, asked, "admin")
        assert (status, json.loads(text)["code"]) == (400, "bad_request")
        return text

    # Of two letters, one is too few to tell what was meant.
    misspelled = {name: ask(f"{name}_") for name in known if len(name) > 3}

    assert "parameter `q_9`; it has" in ask("q_9")
    assert [name for name, text in misspelled.items() if f"did you mean `{name}`?" not in text] == []


@pytest.mark.parametrize("method, path", [("POST", "/graphs"), ("DELETE", "/graphs/people"), ("GET", "/healthz")])
def test_so_do_those_beside_the_table(method: str, path: str, served: Served) -> None:
    answer = served.client.request(method, f"{path}?q_9=true", headers=served.as_role("admin"))

    assert (answer.status_code, answer.json()["code"]) == (400, "bad_request")


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
