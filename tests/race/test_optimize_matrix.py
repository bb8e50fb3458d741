"""The row and the column of maintenance in the conflict matrix: whoever writes beside it, both stay as they are."""

import shutil
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

import omnigraph as og
from conflict_cells import contents
from load_calls import edge, loaded, node, person
from mutating import new_graph
from race.test_conflict_matrix import FIRST, SECOND, outcome
from upkeep_calls import AtPoint, fragments, indexed_rows, opened, optimized
from worlds import runtime

POINTS = ("upkeep.compacted", "publish.flushed")
"""When the rows are rewritten and not indexed yet; when everything is ready for the swap."""
RELYING = ("append d", "append an edge to b", "merge a", "merge b", "update a", "update b", "delete b", "upsert a")
"""Writes that rely on persons, and that a new person does not disturb."""


@pytest.fixture(scope="module")
def seeded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The graph of the conflict matrix, every person, city and edge in a fragment of its own."""
    root = tmp_path_factory.mktemp("matrix")
    graph = new_graph(root)
    loaded(graph, "append", person("a", age=1, email="a@"))
    loaded(graph, "append", person("b", age=2))
    loaded(graph, "append", node("City", "r", name="Rome"), node("Team", name="t"), edge("Leads", "t", "a"))
    return root / "g"


@dataclass
class Meanwhile:
    """Faults that do something, once, when a write has staged its rows; and count how often the write is run."""

    action: Callable[[], object]
    runs: int = 0

    def reach(self, point: str) -> None:
        """Called by the publisher."""
        if point == "publish.staged":
            self.runs += 1
            if self.runs == 1:
                self.action()


def behind(graph: og.Graph, meanwhile: Meanwhile) -> og.Graph:
    """Another handle on the graph, whose next write comes behind what is done meanwhile."""
    other = og.open_graph(graph.uri, runtime=runtime())
    other._session.store.runtime = replace(runtime(), faults=meanwhile)
    return other


def copied(seeded: Path, place: Path) -> og.Graph:
    shutil.copytree(seeded, place)
    return og.open_graph(str(place), runtime=runtime())


@pytest.mark.parametrize("second", SECOND)
def test_a_write_is_neither_refused_nor_run_again_because_of_maintenance(
    seeded: Path, tmp_path: Path, second: str
) -> None:
    serial, graph = copied(seeded, tmp_path / "serial"), copied(seeded, tmp_path / "g")
    wanted = outcome(SECOND[second], serial)
    meanwhile = Meanwhile(lambda: optimized(graph, all_indexes=False))

    found = outcome(SECOND[second], behind(graph, meanwhile))

    assert "optimize" in [commit.operation for commit in graph.commits()]
    assert (found, meanwhile.runs) == (wanted, 1)
    assert contents(graph) == contents(serial)


@pytest.mark.parametrize("second", RELYING)
def test_rows_that_maintenance_moved_are_known_again(seeded: Path, tmp_path: Path, second: str) -> None:
    """With another write of the table between, what was relied on is looked at again, among rows that have moved."""
    serial, graph = copied(seeded, tmp_path / "serial"), copied(seeded, tmp_path / "g")
    FIRST["append c"](serial)
    wanted = outcome(SECOND[second], serial)
    meanwhile = Meanwhile(lambda: (FIRST["append c"](graph), optimized(graph, all_indexes=False)))

    found = outcome(SECOND[second], behind(graph, meanwhile))

    assert (found, meanwhile.runs) == (wanted, 1)
    assert contents(graph) == contents(serial)


@pytest.mark.parametrize("point", POINTS)
@pytest.mark.parametrize("first", FIRST)
def test_maintenance_takes_a_write_along_that_came_meanwhile(
    seeded: Path, tmp_path: Path, first: str, point: str
) -> None:
    serial, graph = copied(seeded, tmp_path / "serial"), copied(seeded, tmp_path / "g")
    FIRST[first](serial)

    meanwhile = AtPoint(point, lambda: FIRST[first](graph))
    done = opened(graph.uri, faults=meanwhile).optimize()

    assert not meanwhile.times
    assert not done.has_failed
    assert contents(graph) == contents(serial)
    optimized(graph, all_indexes=False)
    assert fragments(graph, "Person") == 1
    assert set(indexed_rows(graph).values()) == {1.0}
    assert contents(graph) == contents(serial)


def test_however_many_rows_maintenance_moved_they_are_known_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("omnigraph.commit.requirements.MAX_COMPARED_ROWS", 3)
    graph = new_graph(tmp_path)
    for name in "abcdef":
        loaded(graph, "append", person(name, age=1))
    meanwhile = Meanwhile(lambda: (optimized(graph), loaded(graph, "append", person("x", age=1))))

    behind(graph, meanwhile).load([person(name, mood="sad") for name in "abcdef"], mode="merge")

    assert meanwhile.runs == 1
    assert sum('"sad"' in line for line in contents(graph)) == 6


def test_a_row_that_was_written_anew_is_told_from_one_that_was_moved(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("omnigraph.commit.requirements.MAX_COMPARED_ROWS", 3)
    graph = new_graph(tmp_path)
    for name in "abcdef":
        loaded(graph, "append", person(name, age=1))
    meanwhile = Meanwhile(lambda: (loaded(graph, "merge", person("c", age=7)), optimized(graph)))

    behind(graph, meanwhile).load([person(name, mood="sad") for name in "abcdef"], mode="merge")

    assert meanwhile.runs == 2, "it read the new age of c before it wrote"
    assert sum('"age": 7' in line and '"sad"' in line for line in contents(graph)) == 1


# --- a change of the schema -------------------------------------------------------------------------------


PEOPLE = "node P { k: String @key  n: I64 @index }\n"
FILLED = "node P { k: String @key  n: I64 @index  m: I32 @default(7) }\n"
RENAMED = 'node P { k: String @key  nn: I64 @index @rename_from("n") }\n'


def numbered(place: Path) -> og.Graph:
    """Three fragments of a row each."""
    graph = og.create_graph(str(place), PEOPLE, runtime=runtime())
    for number in range(3):
        graph.load([{"type": "P", "data": {"k": f"p{number}", "n": number}}], mode="append")
    return graph


@pytest.mark.parametrize("schema", [FILLED, RENAMED], ids=["filled", "renamed"])
def test_a_schema_is_changed_although_maintenance_was_faster(tmp_path: Path, schema: str) -> None:
    graph = numbered(tmp_path / "g")
    meanwhile = AtPoint("publish.flushed", lambda: optimized(graph))

    opened(graph.uri, faults=meanwhile).apply_schema(schema)

    assert not meanwhile.times
    assert fragments(graph, "P") == 1
    assert sorted(graph.table("P").to_table(["id"])["id"].to_pylist()) == ["p0", "p1", "p2"]
    assert set(indexed_rows(graph).values()) == {1.0}


@pytest.mark.parametrize("schema", [FILLED, RENAMED], ids=["filled", "renamed"])
def test_maintenance_is_planned_again_when_the_schema_was_changed(tmp_path: Path, schema: str) -> None:
    graph, serial = numbered(tmp_path / "g"), numbered(tmp_path / "serial")
    serial.apply_schema(schema)
    meanwhile = AtPoint("publish.flushed", lambda: graph.apply_schema(schema))

    done = opened(graph.uri, faults=meanwhile).optimize()

    assert not meanwhile.times
    assert not done.has_failed
    assert fragments(graph, "P") == 1
    assert contents(graph) == contents(serial)
    assert set(indexed_rows(graph).values()) == {1.0}
