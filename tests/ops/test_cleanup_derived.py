"""What readers derived from tables and kept beside them goes with the data that it was derived from."""

import os
from collections.abc import Iterable
from datetime import timedelta
from pathlib import Path

import lance
import pyarrow as pa
import pytest

import omnigraph as og
from collecting import DAY, SCHEMA, pass_time
from omnigraph.engine.tables.derived_format import encode_derived, read_files
from omnigraph.runtime import Runtime
from omnigraph.storage.layout import DERIVED
from upkeep_calls import AtPoint
from worlds import FAST

SEGMENT = "text-0000000000000001-a-1-0-20000-b"


def derive(graph: og.Graph, name: str, files: Iterable[str], text: bytes = b"derived") -> Path:
    """An object beside the tables that says which data files it was derived from."""
    path = Path(graph.uri, DERIVED, name)
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(b"".join(encode_derived(b"omnigraph derived test\n", {}, files, [text], len(text))))
    return path


def data_files(graph: og.Graph, key: str) -> set[str]:
    pin = graph.snapshot().pin(key)
    dataset = lance.dataset(f"{graph.uri}/{pin.path}", version=pin.version)
    return {file.path for one in dataset.get_fragments() for file in one.data_files()}


@pytest.fixture
def graph(tmp_path: Path) -> og.Graph:
    """Two tables of rows, of which one was written anew."""
    made = og.create_graph(str(tmp_path / "g"), SCHEMA, runtime=Runtime(options=FAST))
    made.load(nodes={name: pa.table({"v": [1, 2, 3]}) for name in ("A", "B")}, mode="append")
    return made


def test_what_was_derived_from_data_that_is_collected_goes_with_it_however_young_it_is(graph: og.Graph) -> None:
    old, other = data_files(graph, "node:A"), data_files(graph, "node:B")
    graph.load(nodes={"A": pa.table({"v": [4]})}, mode="overwrite")
    new = data_files(graph, "node:A")
    kept = [derive(graph, SEGMENT, new), derive(graph, "topology-0000000000000002", new | other)]
    dead = [derive(graph, f"{SEGMENT}7", old | new), derive(graph, "topology-0000000000000004", old)]
    pass_time(graph.uri, 2 * DAY)
    for path in dead:
        os.utime(path)

    preview = graph.cleanup(keep=1)
    is_there_after_a_look = all(path.exists() for path in dead)
    done = graph.cleanup(keep=1, confirm=True)

    assert is_there_after_a_look
    assert set(Path(graph.uri, DERIVED).iterdir()) == set(kept)
    assert [[one.files_removed for one in run.tables if one.table_key == DERIVED] for run in (preview, done)] == [
        [2],
        [2],
    ]


def test_what_was_derived_from_data_that_a_tag_keeps_stays(graph: og.Graph) -> None:
    graph.tags.create("then")
    kept = derive(graph, SEGMENT, data_files(graph, "node:A"))
    graph.load(nodes={"A": pa.table({"v": [4]})}, mode="overwrite")
    pass_time(graph.uri, 2 * DAY)

    graph.cleanup(keep=1, confirm=True)

    assert kept.exists()


def test_what_an_earlier_release_stored_goes(graph: og.Graph) -> None:
    outdated = derive(graph, "words-0000000000000001", data_files(graph, "node:A"))

    graph.cleanup(keep=9, confirm=True)

    assert not outdated.exists()


@pytest.mark.parametrize("content", [b"", b"derived", b"derived\n", b"omnigraph derived test\n" + bytes(100)])
def test_what_does_not_say_what_it_was_derived_from_goes(graph: og.Graph, content: bytes) -> None:
    path = derive(graph, SEGMENT, [])
    path.write_bytes(content)
    stranger = path.with_name("text-of-another")
    stranger.write_bytes(content)

    done = graph.cleanup(keep=9, confirm=True)

    assert not path.exists()
    assert (stranger.exists(), done.unknown_files) == (True, ("_derived/text-of-another",))


def test_a_header_longer_than_the_first_read_is_read_whole(graph: og.Graph) -> None:
    files = {f"{number:08}.lance": None for number in range(10_000)}
    old = data_files(graph, "node:A")
    path = derive(graph, SEGMENT, [*files, *old])

    found = read_files(lambda size: path.read_bytes()[:size])

    assert found == frozenset((*files, *old))


def test_what_a_reader_keeps_while_a_cleanup_runs_goes_too(graph: og.Graph) -> None:
    old = data_files(graph, "node:A")
    graph.load(nodes={"A": pa.table({"v": [4]})}, mode="overwrite")
    pass_time(graph.uri, 2 * DAY)
    late: list[Path] = []

    def keep() -> None:
        late.append(derive(graph, SEGMENT, old))

    cleaner = og.open_graph(graph.uri, runtime=Runtime(options=FAST, faults=AtPoint("cleanup.marked", keep)))
    cleaner.cleanup(keep=1, confirm=True)

    assert [path.exists() for path in late] == [False]


def test_what_a_reader_had_half_written_when_it_died_goes_with_the_grace(graph: og.Graph) -> None:
    half = derive(graph, ".tmp-0123456789abcdef", [])
    pass_time(graph.uri, timedelta(minutes=1))

    graph.cleanup(keep=9, grace=timedelta(hours=1), confirm=True)
    is_there_while_young = half.exists()
    graph.cleanup(keep=9, grace=timedelta(), confirm=True)

    assert (is_there_while_young, half.exists()) == (True, False)
