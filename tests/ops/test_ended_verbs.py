"""A verb that is ended while it works, wherever that is, leaves a sound graph and nothing of its own."""

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from itertools import count
from pathlib import Path

import pytest

import omnigraph as og
from omnigraph.errors import Kind, OmnigraphError
from omnigraph.ops.session import while_wanted
from omnigraph.ops.upkeep_hands import LocalHands
from omnigraph.options import EmbedOptions, EmbedProvider
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
    return og.Graph(while_wanted(graph._session, asked))


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
    "a preview of cleanup": lambda graph: replace(graph.cleanup(keep=1, grace=NO_TIME), before=""),
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


def test_an_optimisation_that_is_ended_leaves_no_file(tmp_path: Path) -> None:
    graph = new_graph(tmp_path / "g")
    before, head = files_of(graph), graph.snapshot().commit.id

    with pytest.raises(EndedError):
        asking(graph, Asked(0)).optimize()

    assert files_of(graph) == before
    assert graph.snapshot().commit.id == head


def test_an_optimisation_is_ended_while_it_works(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    graph = new_graph(tmp_path / "g")
    before, head = files_of(graph), graph.snapshot().commit.id
    compact = LocalHands.compact

    def waits(hands: LocalHands, *given: object) -> object:
        assert hands._is_over.wait(60)
        return compact(hands, *given)  # type: ignore[arg-type]  # handed on as they are

    monkeypatch.setattr(LocalHands, "compact", waits)
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
