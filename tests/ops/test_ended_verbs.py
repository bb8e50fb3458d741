"""A verb that is ended while it works, wherever that is, leaves a sound graph and nothing of its own."""

from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from datetime import timedelta
from itertools import count
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pytest

import damaging as harm
import omnigraph as og
from omnigraph.errors import Kind, OmnigraphError
from omnigraph.ops.maintenance_worker import LocalOptimizeWorker
from omnigraph.ops.session import with_cancellation
from omnigraph.options import EmbedOptions, EmbedProvider
from omnigraph.storage.lance_table import LanceTable
from worlds import FAST, runtime

SCHEMA = """
node Doc { name: String @key  text: String?  vec: Vector(4)? @embed("text") }
node Tag { name: String @key }
"""
OPTIONS = replace(
    FAST, embedding=EmbedOptions(provider=EmbedProvider.HASH), upkeep=replace(FAST.upkeep, merged_fragments=2)
)
NO_TIME = timedelta()


class EndedError(OmnigraphError):
    """Nobody waits any more."""

    kind = Kind.EXHAUSTED
    code = "ended"


class Asked:
    """Says that a verb may go on, so many times."""

    def __init__(self, times: int | None = None) -> None:
        self.times, self.count = times, 0

    def __call__(self) -> None:
        if self.count == self.times:
            raise EndedError
        self.count += 1


def new_graph(place: Path) -> og.Graph:
    graph = og.create_graph(str(place), SCHEMA, runtime=runtime(OPTIONS))
    for number in range(4):
        graph.mutate(
            f'query q() {{ insert Doc {{ name: "d{number}", text: "t{number}" }} insert Tag {{ name: "t{number}" }} }}'
        )
    graph.mutate('query q() { update Doc set { text: "other" } where name = "d0" }')
    return graph


def asking(graph: og.Graph, asked: Callable[[], None]) -> og.Graph:
    return og.Graph(with_cancellation(graph._session, asked))


def files_of(graph: og.Graph) -> set[str]:
    root = Path(graph.uri)
    return {str(path.relative_to(root)) for path in root.rglob("*") if path.is_file()}


READS: dict[str, Callable[[og.Graph], object]] = {
    "history": lambda graph: graph.history("Doc", "d0"),
    "history of nobody": lambda graph: graph.history("Doc", "d3"),
    "commits": lambda graph: graph.commits(filters={"actor": "nobody"}),
    "changes": lambda graph: [one.to_json() for one in graph.changes()],
    "counted changes": lambda graph: [one.summary() for one in graph.changes()],
    "check": lambda graph: graph.check(deep=True),
    "a preview of repair": lambda graph: graph.repair(),
    "a deep preview of repair": lambda graph: graph.repair(deep=True),
    "a preview of cleanup": lambda graph: msgspec.structs.replace(graph.cleanup(keep=1, grace=NO_TIME), before=""),
}


@pytest.fixture(scope="module")
def graph(tmp_path_factory: pytest.TempPathFactory) -> og.Graph:
    return new_graph(tmp_path_factory.mktemp("reads") / "g")


@pytest.mark.parametrize("verb", READS)
def test_a_read_ends_wherever_it_is_told_to(verb: str, graph: og.Graph) -> None:
    read, all_of_them = READS[verb], Asked()
    before, whole = files_of(graph), read(asking(graph, all_of_them))

    for times in range(all_of_them.count):
        with pytest.raises(EndedError):
            read(asking(graph, Asked(times)))

    assert all_of_them.count > 2
    assert read(asking(graph, Asked(all_of_them.count))) == whole
    assert files_of(graph) == before


def test_an_embedding_that_is_ended_has_whole_batches(tmp_path: Path) -> None:
    graph = new_graph(tmp_path / "g")
    done: list[int] = []
    found = None

    for times in count():
        before = files_of(graph)
        try:
            found = asking(graph, Asked(times)).embed("Doc", batch=2)
        except EndedError:
            filled = graph.table("Doc").to_table(columns=["vec"])["vec"].is_valid().to_pylist().count(True)
            done.append(filled)
            assert filled or files_of(graph) == before
        else:
            break

    assert set(done) == {0, 2}
    assert found is not None
    assert found.properties[0].waiting == 2
    assert not graph.check(deep=True).findings
    assert not graph.operations().pending


class Hasty(ThreadPoolExecutor):
    """Is done with whatever it is given before it can be taken back."""

    def submit(self, *given: Any, **named: Any) -> Future[Any]:
        future = super().submit(*given, **named)
        future.exception(60)
        return future


def test_an_optimisation_that_is_ended_leaves_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    graph = new_graph(tmp_path / "g")
    before, head = files_of(graph), graph.snapshot().commit.id
    monkeypatch.setattr("omnigraph.ops.optimize.create_pool", lambda threads, _name: Hasty(threads))

    with pytest.raises(EndedError):
        asking(graph, Asked(0)).optimize()

    assert files_of(graph) == before
    assert graph.snapshot().commit.id == head


def test_an_optimisation_is_ended_while_it_works(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    graph = new_graph(tmp_path / "g")
    before, head = files_of(graph), graph.snapshot().commit.id
    compact = LocalOptimizeWorker.compact

    def waits(hands: LocalOptimizeWorker, *given: object) -> object:
        assert hands._is_stopped.wait(60)
        return compact(hands, *given)  # type: ignore[arg-type]  # handed on as they are

    monkeypatch.setattr(LocalOptimizeWorker, "compact", waits)
    with pytest.raises(EndedError):
        asking(graph, Asked(3)).optimize()

    assert files_of(graph) == before
    assert graph.snapshot().commit.id == head
    assert not graph.operations().pending


def test_a_cleanup_that_is_ended_is_finished_by_the_next(tmp_path: Path) -> None:
    graph = new_graph(tmp_path / "g")
    rows = graph.query("query q() { match { $d: Doc } return { $d.name, $d.text } }").rows()
    ended = 0

    for times in count():
        try:
            asking(graph, Asked(times)).cleanup(keep=1, grace=NO_TIME, confirm=True)
        except EndedError:
            ended += 1
            assert graph.query("query q() { match { $d: Doc } return { $d.name, $d.text } }").rows() == rows
        else:
            break

    assert ended > 3
    assert not graph.check(deep=True).has_errors
    assert not graph.cleanup(keep=1, grace=NO_TIME).tables


# --- repairs ---------------------------------------------------------------------------------------------


@pytest.fixture
def damaged(tmp_path: Path) -> og.Graph:
    """Both branches have lost people, to whom edges lead."""
    graph = harm.made(tmp_path / "g")
    harm.removed(harm.data_file)(Path(graph.uri))
    return graph


def test_a_preview_of_a_repair_ends_wherever_it_is_told_to(damaged: og.Graph) -> None:
    all_of_them = Asked()
    before, whole = files_of(damaged), asking(damaged, all_of_them).repair()

    for times in range(all_of_them.count):
        with pytest.raises(EndedError):
            asking(damaged, Asked(times)).repair()

    assert all_of_them.count > 10
    assert {one.branch for one in whole.tables} == {"main", "side"}
    assert asking(damaged, Asked(all_of_them.count)).repair() == whole
    assert files_of(damaged) == before


def test_a_repair_that_has_published_something_tells_of_it(damaged: og.Graph) -> None:
    before = files_of(damaged)
    ended, done = 0, None

    for times in count():
        try:
            done = asking(damaged, Asked(times)).repair(confirm=True, force=True)
        except EndedError:
            ended += 1
            assert files_of(damaged) == before
        else:
            break

    assert ended > 3
    assert done is not None
    assert {(one.branch, one.outcome.value) for one in done.tables} == {("main", "published"), ("side", "published")}


def in_single_rows(monkeypatch: pytest.MonkeyPatch, room: str) -> None:
    """From now on each row of the tables there is a batch."""
    batches = LanceTable.iter_batches

    def single(table: LanceTable, *given: Any, **named: Any) -> Iterator[pa.RecordBatch]:
        return batches(table, *given, **(named | {"batch_rows": 1} if table.path.startswith(room) else named))

    monkeypatch.setattr(LanceTable, "iter_batches", single)


def test_a_repair_is_asked_with_every_batch_that_it_reads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    graph = og.create_graph(str(tmp_path / "g"), "node Tag { name: String @key }", runtime=runtime(OPTIONS))
    graph.load([{"type": "Tag", "data": {"name": f"t{number}"}} for number in range(8)], mode="append")
    few, many = Asked(), Asked()

    asking(graph, few).repair(deep=True)
    in_single_rows(monkeypatch, "nodes/")
    asking(graph, many).repair(deep=True)

    assert many.count - few.count == 2 * (8 - 1)  # once for the ids, once for every column


def test_a_repair_is_asked_with_every_batch_of_ends(damaged: og.Graph, monkeypatch: pytest.MonkeyPatch) -> None:
    few, many = Asked(), Asked()

    asking(damaged, few).repair()
    in_single_rows(monkeypatch, "edges/")
    asking(damaged, many).repair()

    assert many.count - few.count == 1 + 2  # of two edges the second: once for the table, once for each branch
