"""Whatever has to read a damaged file in order to write another one says so: the file is to blame, nobody else."""

import random
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

import omnigraph as og
from load_calls import node
from upkeep_calls import opened
from worlds import runtime

SCHEMA = "node P { name: String @key  age: I64 @index  note: String? }\n"
WITHOUT_NOTE = SCHEMA.replace("  note: String?", "")
MANY = 500

Way = Callable[[Path], object]


def cut(file: Path) -> None:
    """Half of a file is gone."""
    file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])


def blank(file: Path) -> None:
    """All of it is."""
    file.write_bytes(b"")


def scramble(file: Path) -> None:
    """What is in it is something else, but for the end, by which it is known to be a file of rows."""
    data = file.read_bytes()
    kept = len(data) // 4
    file.write_bytes(random.Random(5).randbytes(len(data) - kept) + data[-kept:])


@pytest.fixture
def graph(template: Path, tmp_path: Path) -> og.Graph:
    return opened(str(shutil.copytree(template, tmp_path / "g")))


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two fragments, one of which has lost a row."""
    graph = og.create_graph(str(tmp_path_factory.mktemp("damaged") / "g"), SCHEMA, runtime=runtime())
    for first in (0, MANY):
        rows = [node("P", name=f"p{n}", age=n, note=f"{n * 7_919:x}") for n in range(first, first + MANY)]
        graph.load(rows, mode="append")
    graph.mutate('query q() { delete P where name = "p5" }')
    return Path(graph.uri)


def damage(graph: og.Graph, room: str, way: Way) -> None:
    """Damage the files of the table in one of its directories."""
    place = Path(graph.uri) / graph.snapshot().pin("node:P").path / room
    for file in sorted(place.iterdir()):
        way(file)


WORK: dict[str, Callable[[og.Graph], object]] = {
    "drop for good": lambda graph: graph.apply_schema(WITHOUT_NOTE, allow_data_loss=True),
    "delete": lambda graph: graph.mutate('query q() { delete P where name = "p6" }'),
    "update": lambda graph: graph.mutate('query q() { update P set { age: 1 } where name = "p6" }'),
    "merge rows": lambda graph: graph.load([node("P", name="p6", age=1, note="x")], mode="merge"),
    "query": lambda graph: graph.query("query q() { match { $p: P } return { $p.name, $p.note } }").to_arrow(),
}


@pytest.mark.parametrize("way", [cut, blank, scramble])
@pytest.mark.parametrize("room", ["data", "_deletions"])
@pytest.mark.parametrize("work", WORK)
def test_work_that_reads_a_damaged_file_is_told_that(work: str, room: str, way: Way, graph: og.Graph) -> None:
    damage(graph, room, way)

    with pytest.raises(og.PinUnreadableError):
        WORK[work](opened(graph.uri))


@pytest.mark.parametrize("way", [cut, blank, scramble])
@pytest.mark.parametrize("room", ["data", "_deletions"])
def test_maintenance_reports_a_damaged_file_and_changes_nothing(room: str, way: Way, graph: og.Graph) -> None:
    before = graph.snapshot().commit.id
    damage(graph, room, way)

    (done,) = opened(graph.uri).optimize(all_indexes=True).tables

    assert "can't be read" in (done.error or "")
    assert graph.snapshot().commit.id == before
