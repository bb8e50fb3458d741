"""Graphs that clients create and delete: only below a root, and only with a policy that names the action."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

import omnigraph as og
from omnigraph.config.server import build_server_config
from omnigraph.server import graph_root
from omnigraph.storage.local_object_store import LocalObjectStore
from serving import POLICIES, SCHEMA, Served, serving
from worlds import runtime

WRITER = og.Actor(name="writer")
NAMED = """
@id("writers make scratch graphs") permit(
  principal in Group::"writers", action in [Action::"graph_create", Action::"graph_delete"], resource
) when { resource.name like "scratch-*" };
@id("and use them") permit(principal in Group::"writers", action, resource in Graph::"scratch-1");
@id("never this one") forbid(principal, action == Action::"graph_create", resource == Graph::"scratch-no");
"""


def started(home: Path, root: Path | None, **config: Any) -> Served:
    """A server with a root for graphs of clients."""
    (home / "policies").mkdir(parents=True, exist_ok=True)
    return serving(
        home, config={"graph_root": None if root is None else str(root), **config}, policies=POLICIES + NAMED
    )


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Served]:
    found = started(tmp_path / "server", tmp_path / "graphs")
    yield found
    found.service.close()


def ask(served: Served, method: str, path: str, role: str = "writer", **how: Any) -> tuple[int, Any]:
    response = served.client.request(method, path, headers=served.as_role(role), **how)
    return response.status_code, response.json()


def made(served: Served, graph: str = "scratch-1", role: str = "writer", schema: str = SCHEMA) -> tuple[int, Any]:
    return ask(served, "POST", "/graphs", role, json={"graph": graph, "schema": schema})


def test_a_graph_is_created_used_and_deleted(served: Served, tmp_path: Path) -> None:
    status, answer = made(served)
    add = {"query": 'query add() { insert Person { name: "Eve" } }'}

    assert (status, answer["graph"]) == (201, "scratch-1")
    assert ask(served, "POST", "/graphs/scratch-1/mutate", json=add)[0] == 200
    assert "scratch-1" in [graph["id"] for graph in ask(served, "GET", "/graphs")[1]["graphs"]]
    commits = ask(served, "GET", "/graphs/scratch-1/commits")[1]["commits"]
    assert (commits[-1]["id"], commits[-1]["actor"]) == (answer["commit_id"], "writer")
    assert ask(served, "DELETE", "/graphs/scratch-1", params={"confirm": True}) == (200, {"deleted": "scratch-1"})
    assert ask(served, "POST", "/graphs/scratch-1/mutate", json=add)[0] == 404
    assert list((tmp_path / "graphs").iterdir()) == []
    assert 'graph="scratch-1"' not in served.service.metrics.render()


def test_a_policy_about_every_action_does_not_grant_it(served: Served) -> None:
    """Admins may do everything, by a policy that is older than the action."""
    created = made(served, role="admin")
    made(served)
    deleted = ask(served, "DELETE", "/graphs/scratch-1", "admin", params={"confirm": True})

    assert [(status, answer["code"]) for status, answer in (created, deleted)] == [(403, "denied")] * 2


@pytest.mark.parametrize("graph, role", [("other", "writer"), ("scratch-no", "writer"), ("scratch-1", "reader")])
def test_what_no_policy_names_is_denied(graph: str, role: str, served: Served, tmp_path: Path) -> None:
    assert made(served, graph, role)[0] == 403
    assert not (tmp_path / "graphs" / graph).exists()


def test_a_graph_that_may_not_be_seen_looks_like_none(served: Served) -> None:
    made(served)
    there = ask(served, "DELETE", "/graphs/scratch-1", "nobody")
    nowhere = ask(served, "DELETE", "/graphs/scratch-2", "nobody")

    assert (there[0], there[1]["error"]) == (nowhere[0], nowhere[1]["error"])


def test_it_is_off_without_a_root(tmp_path: Path) -> None:
    served = started(tmp_path / "server", None)

    assert [made(served)[1]["code"], made(served, role="reader")[1]["code"]] == ["graphs_fixed", "denied"]
    served.service.close()


@pytest.mark.parametrize("graph", ["../up", "a/b", "", ".", "..", "x" * 64, "é", "scratch-1/../../x", "\0"])
def test_a_name_can_not_lead_out_of_the_root(graph: str, served: Served, tmp_path: Path) -> None:
    before = sorted(tmp_path.rglob("*"))

    assert made(served, graph)[1]["code"] == "bad_request"
    assert sorted(tmp_path.rglob("*")) == before


def test_a_graph_of_the_settings_is_not_deleted(tmp_path: Path) -> None:
    all_names = NAMED.replace(' when { resource.name like "scratch-*" }', "")
    served = serving(tmp_path / "s", config={"graph_root": str(tmp_path / "graphs")}, policies=POLICIES + all_names)

    status, answer = ask(served, "DELETE", "/graphs/people", params={"confirm": True})
    again = made(served, "people")

    assert (status, answer["code"]) == (403, "graph_configured")
    assert (again[0], again[1]["code"]) == (409, "graph_exists")
    assert ask(served, "GET", "/graphs/people/snapshot")[0] == 200
    served.service.close()


def test_deleting_asks_for_a_confirmation(served: Served) -> None:
    made(served)

    assert ask(served, "DELETE", "/graphs/scratch-1")[1]["code"] == "bad_request"
    assert ask(served, "GET", "/graphs/scratch-1/snapshot")[0] == 200


def test_a_wrong_schema_leaves_nothing(served: Served) -> None:
    status, answer = made(served, schema="node Person {")

    assert (status, answer["code"]) == (400, "invalid_source")
    assert made(served)[0] == 201


def test_files_at_the_place_are_left_alone(served: Served, tmp_path: Path) -> None:
    place = tmp_path / "graphs" / "scratch-1"
    place.mkdir(parents=True)
    (place / "mine.txt").write_text("x", encoding="utf-8")

    status, answer = made(served)

    assert (status, answer["code"]) == (409, "graph_exists")
    assert str(tmp_path) not in str(answer)
    assert (place / "mine.txt").read_text(encoding="utf-8") == "x"


def test_there_is_a_limit_of_graphs(tmp_path: Path) -> None:
    served = started(tmp_path / "server", tmp_path / "graphs", max_created_graphs=2)

    assert [made(served, f"scratch-{n}")[0] for n in range(3)] == [201, 201, 422]
    assert ask(served, "DELETE", "/graphs/scratch-0", params={"confirm": True})[0] in {200, 403}
    served.service.close()


def test_of_many_creators_of_one_name_one_succeeds(served: Served) -> None:
    with ThreadPoolExecutor(6) as pool:
        calls = [pool.submit(served.service.graph_root.create, "scratch-1", SCHEMA, WRITER) for _ in range(6)]
    errors = [call.exception() for call in calls]

    assert errors.count(None) == 1
    assert {error.code for error in errors if isinstance(error, og.OmnigraphError)} == {"graph_exists"}


def test_another_server_serves_what_this_one_created(served: Served, tmp_path: Path) -> None:
    made(served)
    other = started(tmp_path / "other", tmp_path / "graphs")
    made(served, "scratch-2")
    other.service.graph_root.refresh()
    seen = set(other.service.registry.graphs)
    ask(served, "DELETE", "/graphs/scratch-1", params={"confirm": True})
    other.service.graph_root.refresh()

    assert seen == {"people", "scratch-1", "scratch-2"}
    assert set(other.service.registry.graphs) == {"people", "scratch-2"}
    other.service.close()


def test_a_deletion_that_died_is_completed(served: Served, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made(served)
    (tmp_path / "graphs" / "scratch-1.deleted").write_bytes(b"")
    served.service.graph_root.refresh()
    gone = "scratch-1" not in served.service.registry.graphs
    taken = made(served)
    monkeypatch.setattr(graph_root, "_DEAD_SECONDS", -1.0)
    served.service.graph_root.refresh()

    assert gone
    assert taken[1]["code"] == "graph_exists"
    assert list((tmp_path / "graphs").iterdir()) == []
    assert made(served)[0] == 201


def test_a_server_may_begin_without_graphs(tmp_path: Path) -> None:
    file = tmp_path / "omnigraph.toml"
    file.write_text('[server]\ngraph_root = "graphs"\nmax_created_graphs = 5\n', encoding="utf-8")
    config = build_server_config(file, {})

    assert (config.graphs, config.graph_root, config.max_created_graphs) == ((), str(tmp_path / "graphs"), 5)


def test_a_directory_that_is_no_graph_is_not_served(tmp_path: Path) -> None:
    (tmp_path / "graphs" / "empty").mkdir(parents=True)
    og.create_graph(str(tmp_path / "graphs" / "real"), SCHEMA, runtime=runtime())
    served = started(tmp_path / "server", tmp_path / "graphs")

    assert set(served.service.registry.graphs) == {"people", "real"}
    served.service.close()


@pytest.mark.parametrize("marker", ["..deleted", "...deleted", ".deleted", "people.deleted"])
def test_a_marker_of_no_graph_below_the_root_removes_nothing(
    marker: str, served: Served, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(graph_root, "_DEAD_SECONDS", -1.0)
    made(served)
    (tmp_path / "graphs" / marker).write_bytes(b"")

    served.service.graph_root.refresh()

    assert ask(served, "GET", "/graphs/scratch-1/snapshot")[0] == 200
    assert ask(served, "GET", "/graphs/people/snapshot")[0] == 200


def test_a_graph_that_is_created_while_the_root_is_listed_stays(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    listing = LocalObjectStore.list_children

    def list_early(store: LocalObjectStore) -> list[str]:
        names = listing(store)
        monkeypatch.setattr(LocalObjectStore, "list_children", listing)
        assert made(served)[0] == 201
        return names

    monkeypatch.setattr(LocalObjectStore, "list_children", list_early)
    served.service.graph_root.refresh()

    assert "scratch-1" in served.service.registry.graphs
