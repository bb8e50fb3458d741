"""Several writers of one process that update one row with a Blob: none of them fails, and none is lost."""

import threading
from pathlib import Path

import pytest

import omnigraph as og
from omnigraph.commit.commit_queue import get_queue
from omnigraph.ops import mutate
from omnigraph.runtime import Runtime
from worlds import FAST

SCHEMA = "node Photo { name: String @key  views: I64  image: Blob? }\n"
VIEW = 'query q() { update Photo set { views: views + 1 } where name = "a" }'
READ = "query q() { match { $p: Photo } return { $p.views as n } }"
WRITERS = 6
ROUNDS = 3


@pytest.fixture
def graph(tmp_path: Path) -> og.Graph:
    graph = og.create_graph(str(tmp_path / "g"), SCHEMA)
    graph.mutate('query q() { insert Photo { name: "a", views: 0, image: "base64:aGVsbG8=" } }')
    return graph


def view_at_once(graph: og.Graph, writers: int = WRITERS) -> list[Exception]:
    """Let writers count views at the same time; return their errors."""
    errors: list[Exception] = []
    begun = threading.Barrier(writers)

    def work() -> None:
        begun.wait()
        for _ in range(ROUNDS):
            try:
                graph.mutate(VIEW)
            except og.ConflictError as error:
                errors.append(error)

    threads = [threading.Thread(target=work) for _ in range(writers)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return errors


def test_each_writer_of_a_row_with_a_blob_succeeds(graph: og.Graph) -> None:
    errors = view_at_once(graph)

    assert errors == []
    assert graph.query(READ).rows() == [{"n": WRITERS * ROUNDS}]
    assert graph.check(deep=True).findings == ()
    stream = graph.blob("Photo", "a", "image")
    assert stream is not None
    assert stream.read() == b"hello"


class Overtaken:
    """Faults: whenever a write has been staged, another thread updates the row, unless it would have to wait."""

    def __init__(self) -> None:
        self.graph: og.Graph | None = None
        self.overtakes = 0

    def reach(self, point: str) -> None:
        if point != "publish.staged" or self.graph is None:
            return
        graph = self.graph
        if get_queue(graph._session.log)._holder == threading.get_ident():
            return
        self.graph = None
        thread = threading.Thread(target=graph.mutate, args=(VIEW,))
        thread.start()
        thread.join()
        self.graph = graph
        self.overtakes += 1


def open_overtaken(graph: og.Graph) -> tuple[og.Graph, Overtaken]:
    faults = Overtaken()
    overtaken = og.open_graph(graph.uri, runtime=Runtime(options=FAST, faults=faults))
    faults.graph = overtaken
    return overtaken, faults


def test_a_writer_that_is_overtaken_again_and_again_gets_its_turn(graph: og.Graph) -> None:
    overtaken, faults = open_overtaken(graph)

    overtaken.mutate(VIEW)

    assert graph.query(READ).rows() == [{"n": faults.overtakes + 1}]


def test_a_large_blob_keeps_no_other_writer_waiting(graph: og.Graph, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mutate, "MAX_TURN_BLOB_BYTES", 4)
    overtaken, faults = open_overtaken(graph)

    with pytest.raises(og.ConflictError):
        overtaken.mutate(VIEW)

    assert graph.query(READ).rows() == [{"n": faults.overtakes}]
