"""The values of an algorithm that a server runs become a property in one commit, signed by the token's owner."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import omnigraph as og
from omnigraph.config.server import HostedGraph
from serving import Served, serving
from worlds import runtime

SCHEMA = "node Person { name: String @key  group: String?  age: I64? }\nedge Knows: Person -> Person\n"


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Served]:
    graph = og.create_graph(str(tmp_path / "groups.omni"), SCHEMA, runtime=runtime())
    pairs = 'insert Knows { from: "cleo", to: "bob" }'
    people = " ".join(f'insert Person {{ name: "{name}", age: 7 }}' for name in ("ann", "bob", "cleo"))
    graph.mutate(f"query q() {{ {people} {pairs} }}")
    graph.branches.create("side")
    hosted = (HostedGraph(id="groups", uri=graph.uri),)
    found = serving(tmp_path / "home", config={"graphs": hosted})
    yield found
    found.service.close()


def run(served: Served, role: str, **body: object) -> Any:
    call = {"name": "connected_components", "edges": ["Knows"], "into": "Person.group", **body}
    return served.client.post("/graphs/groups/algorithms", json=call, headers=served.as_role(role))


def groups(graph: og.Graph, branch: str = "main") -> list[object]:
    text = "match { $p: Person } return { $p.group, $p.age } order { $p.name }"
    return [tuple(row.values()) for row in graph.query(text, branch=branch).rows()]


def test_values_become_a_property_of_the_branch_in_one_commit(served: Served, tmp_path: Path) -> None:
    graph = og.open_graph(str(tmp_path / "groups.omni"), runtime=runtime())
    before = graph.commits(branch="side")

    answer = run(served, "writer", branch="side", message="groups of people")

    assert answer.status_code == 200, answer.text
    commits = graph.commits(branch="side")
    assert [row["component"] for row in answer.json()["rows"]] == ["ann", "bob", "bob"]
    assert groups(graph, "side") == [("ann", 7), ("bob", 7), ("bob", 7)]
    assert len(commits) == len(before) + 1
    assert (commits[0].actor, commits[0].message) == ("writer", "groups of people")
    assert commits[0].id in " ".join(answer.json()["notes"])
    assert groups(graph) == [(None, 7)] * 3


def test_equal_values_again_make_no_commit(served: Served, tmp_path: Path) -> None:
    graph = og.open_graph(str(tmp_path / "groups.omni"), runtime=runtime())
    assert run(served, "writer").status_code == 200
    head = graph.snapshot().commit.id

    answer = run(served, "writer")

    assert answer.status_code == 200
    assert any("nothing to change" in note for note in answer.json()["notes"])
    assert graph.snapshot().commit.id == head


@pytest.mark.parametrize(
    "role, body, status",
    [("reader", {}, 403), ("writer", {"into": "Person.age"}, 400), ("writer", {"into": "No.x"}, 400)],
)
def test_who_may_not_write_and_what_can_not_be_written_change_nothing(
    served: Served, tmp_path: Path, role: str, body: dict[str, str], status: int
) -> None:
    graph = og.open_graph(str(tmp_path / "groups.omni"), runtime=runtime())
    head = graph.snapshot().commit.id

    assert run(served, role, **body).status_code == status

    assert graph.snapshot().commit.id == head
    assert run(served, "reader", into=None).status_code == 200
