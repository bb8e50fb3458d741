"""Busy routes are called directly, and answer as they do through FastAPI."""

from collections.abc import Iterator
from typing import Any

import pytest
from fastapi.testclient import TestClient

from omnigraph.server.http import direct_routes
from omnigraph.server.http.app import ROUTERS, build_app
from serving import ADD, ALL, Served, serving


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    server = serving(tmp_path_factory.mktemp("direct"))
    yield server
    server.service.close()


CALLS: list[tuple[str, str, Any]] = [
    ("POST", "/graphs/people/queries/friends", {"params": {"n": "Ada"}}),
    ("POST", "/graphs/people/queries/nobody", {}),
    ("POST", "/graphs/people/query", {"query": ALL}),
    ("POST", "/graphs/people/query", {"query": ALL, "limit": 3}),
    ("POST", "/graphs/people/query", {"query": "query"}),
    ("POST", "/graphs/nowhere/query", {"query": ALL}),
    ("POST", f"/graphs/{'x' * 80}/query", {"query": ALL}),
    ("POST", "/graphs//query", {"query": ALL}),
    ("POST", "/graphs/people/query/", {"query": ALL}),
    ("POST", "/graphs/people/query?branch=main", {"query": ALL}),
    ("POST", "/graphs/people/mutate", {"query": ADD}),
    ("GET", "/graphs/people/query", None),
    ("GET", "/graphs/people/operations", None),
    ("DELETE", "/graphs/people/branches/a/b", None),
]


def answer(served: Served, call: tuple[str, str, Any]) -> tuple[int, str, list[tuple[str, str]]]:
    """Return everything of an answer but its id."""
    method, path, body = call
    client = TestClient(build_app(served.service), base_url="http://localhost:8080", raise_server_exceptions=False)
    response = client.request(method, path, json=body, headers=served.as_role("reader"))
    id_ = response.headers["x-request-id"]
    headers = sorted((name, value) for name, value in response.headers.items() if value != id_)
    return response.status_code, response.text.replace(id_, "ID"), headers


@pytest.mark.parametrize("call", CALLS, ids=lambda call: f"{call[0]} {call[1][:40]} {call[2]}")
def test_both_ways_answer_the_same(call: tuple[str, str, Any], served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    direct = answer(served, call)
    monkeypatch.setattr(direct_routes.DirectRoutes, "_add", lambda *_: None)

    assert direct == answer(served, call)


def test_the_busy_routes_are_direct() -> None:
    routes = direct_routes.DirectRoutes(None, ROUTERS)._routes  # type: ignore[arg-type]  # it is not called

    assert {("POST", "queries", 5), ("POST", "query", 4), ("POST", "mutate", 4)} <= routes.keys()
    # Routes with parameters in the query string, and paths that take more than one part, are not.
    assert ("POST", "load", 4) not in routes
    assert [key for key in routes if key[0] == "DELETE"] == [("DELETE", "running", 5)]
