"""What a policy forbids leaves no name behind: messages, branches and graphs are absent wherever history is listed."""

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from omnigraph.config.server import HostedGraph
from omnigraph.server.http.app import build_app
from omnigraph.server.service import Service
from serving import ADD, Served, serving

SECRETS = ("vault/gold", "secret plan")


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """Serve a branch that was taken from a forbidden one, and main, into which a forbidden one was merged."""
    server = serving(tmp_path_factory.mktemp("hidden"))
    graph = server.graph
    graph.branches.create("vault/gold")
    graph.mutate(ADD, params={"n": "Zoe"}, branch="vault/gold", message="secret plan", actor="vault/gold")
    graph.branches.create("public", from_="vault/gold")
    graph.branches.create("vault/silver")
    graph.merge("vault/gold", into="main")
    yield server
    server.service.close()


@pytest.mark.parametrize(
    "path",
    [
        "/branches",
        "/commits?branch=public",
        "/commits?branch=public&filter=message%3Dsecret",
        "/commits?branch=public&filter=actor%3Dvault/gold",
        "/commits?all_branches=true",
        "/commits/{gold}",
        "/commits/{gold}?branch=public",
        "/snapshot?branch=public",
        "/history?type=Person&id=Zoe",
        "/operations",
        "/recoveries",
        "/tags",
    ],
)
def test_no_route_names_what_the_reader_may_not_read(path: str, served: Served) -> None:
    gold = served.graph.snapshot(branch="vault/gold").commit.id

    answer = served.client.get(f"/graphs/people{path.format(gold=gold)}", headers=served.as_role("reader"))

    assert answer.status_code in {200, 404}, answer.text
    assert [secret for secret in SECRETS if secret in answer.text] == []
    assert "vault" not in answer.text


def test_an_admin_sees_all_of_it(served: Served) -> None:
    answers = [
        served.client.get(f"/graphs/people{path}", headers=served.as_role("admin")).text
        for path in ("/branches", "/commits?branch=public", "/history?type=Person&id=Zoe")
    ]

    assert all("vault/gold" in answer for answer in answers)
    assert "secret plan" in answers[1]


def test_a_hidden_commit_keeps_its_place_in_the_history(served: Served) -> None:
    def list_ids(role: str) -> list[str]:
        answer = served.client.get("/graphs/people/commits?branch=public", headers=served.as_role(role))
        return [commit["id"] for commit in json.loads(answer.text)["commits"]]

    assert list_ids("reader") == list_ids("admin")


@pytest.mark.parametrize("branch", ["public", "main"])
def test_no_digest_checks_guesses_of_what_a_commit_hides(branch: str, served: Served) -> None:
    answers = [
        served.client.get(f"/graphs/people/commits?branch={branch}", headers=served.as_role(role)).json()["commits"]
        for role in ("reader", "admin")
    ]

    hidden = [(shown["digest"], whole["digest"]) for shown, whole in zip(*answers, strict=True) if shown != whole]
    assert hidden
    assert all(shown is None and whole is not None for shown, whole in hidden)


def test_a_filter_is_no_oracle_for_hidden_messages(served: Served) -> None:
    path = "/graphs/people/commits?branch=public&filter=message%3Dsecret"

    answer = served.client.get(path, headers=served.as_role("reader"))

    assert answer.json()["commits"] == []
    assert served.client.get(path, headers=served.as_role("admin")).json()["commits"] != []


def test_metrics_name_only_graphs_that_the_actor_may_see(tmp_path: Path) -> None:
    server = serving(tmp_path)
    hidden = HostedGraph(id="merger", uri=server.graph.uri)
    config = replace(server.service.config, graphs=(*server.service.config.graphs, hidden))
    (tmp_path / "policies" / "all.cedar").write_text(
        'permit(principal in Group::"admins", action, resource);'
        'permit(principal in Group::"readers", action, resource in Graph::"people");'
        'permit(principal in Group::"readers", action, resource == Graph::"people");',
        encoding="utf-8",
    )
    server.service.close()
    service = Service.start(config, server.service.runtime)
    texts = {}
    try:
        client = TestClient(build_app(service), base_url="http://localhost:8080")
        client.get("/graphs/merger/snapshot", headers=server.as_role("admin"))
        for role in ("reader", "admin"):
            texts[role] = client.get("/metrics", headers=server.as_role(role)).text
    finally:
        service.close()

    assert "merger" not in texts["reader"]
    assert "people" in texts["reader"]
    assert "merger" in texts["admin"]
