"""What is kept for the next process is right or is not used; losing it costs time only."""

import logging
import threading
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from omnigraph.engine.tables import graph_cache
from omnigraph.engine.tables.csr import build_csr
from omnigraph.engine.tables.graph_cache import GraphCache
from omnigraph.engine.tables.row_layout import Layout
from omnigraph.engine.tables.topology import EdgeEndpoints, Topology, TopologyLayouts
from omnigraph.engine.tables.topology_codec import decode_topology, encode_topology
from omnigraph.errors import BadArgumentError
from omnigraph.ops.open import open_session
from omnigraph.ops.session import Session
from omnigraph.options import Options
from omnigraph.storage.derived_cache import DerivedCache
from omnigraph.storage.fragment_list import Fragment
from omnigraph.storage.layout import build_version_key
from row_worlds import new_session, view_of
from s3_server import fresh_uri, s3_server
from topology_past import Past, assert_equal, topology_of
from worlds import FAST, runtime


@pytest.fixture(autouse=True)
def every_topology_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(graph_cache, "MIN_DERIVED_EDGES", 1)


@pytest.fixture
def past(tmp_path: Path) -> Past:
    """A graph with a past, whose topology was made and kept."""
    made = Past(new_session(tmp_path / "g"), 7)
    while len(made.edges) < 20:
        made.step()
    topology_of(made.session)
    made.session.reads.wait_for_workers()
    return made


def reopened(session: Session, *, is_read_only: bool = False, options: Options = FAST) -> Session:
    return open_session(session.uri, is_read_only=is_read_only, runtime=runtime(options))


def kept_files(session: Session) -> list[Path]:
    return sorted(Path(session.uri).glob("_derived/*"))


def alone(session: Session) -> Topology:
    """The topology, made by somebody who keeps nothing."""
    return topology_of(session, GraphCache(Options()))


def test_the_next_process_makes_nothing(past: Past, monkeypatch: pytest.MonkeyPatch) -> None:
    session = reopened(past.session)
    monkeypatch.setattr(graph_cache, "resolve_endpoints", lambda *_: pytest.fail("it was made again"))

    found = topology_of(session)

    monkeypatch.undo()
    assert_equal(found, alone(session))


def test_the_planner_knows_what_is_kept(past: Past) -> None:
    session, view = reopened(past.session), view_of(past.session)
    edge = view.catalog.edges["E"]

    assert session.reads.has_topology(view, edge)
    for path in kept_files(session):
        path.unlink()
    assert not reopened(past.session).reads.has_topology(view, edge)


def test_what_is_kept_of_an_older_version_is_brought_up_to_date(past: Past) -> None:
    for _ in range(12):
        past.step()
        session = reopened(past.session, is_read_only=True)  # so that the same old one is found again and again

        assert_equal(topology_of(session), alone(session))


def test_it_is_replaced_once_much_has_changed(past: Past) -> None:
    (before,) = kept_files(past.session)
    content = before.read_bytes()
    for _ in range(6):
        past.step()

    session = reopened(past.session)
    topology_of(session)
    session.reads.wait_for_workers()

    assert kept_files(session) == [before]
    assert before.read_bytes() != content


@pytest.mark.parametrize("kind", ["removed", "truncated", "empty", "garbage", "of another format", "a directory"])
def test_whatever_is_wrong_with_it_is_made_good(kind: str, past: Past, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, logger="omnigraph")
    (path,) = kept_files(past.session)
    content = path.read_bytes()
    path.unlink()
    match kind:
        case "truncated":
            path.write_bytes(content[:-70])
        case "empty":
            path.write_bytes(b"")
        case "garbage":
            path.write_bytes(bytes(len(content)))
        case "of another format":
            path.write_bytes(content.replace(b"topology 1", b"topology 9", 1))
        case "a directory":
            path.mkdir()

    session = reopened(past.session)
    found = topology_of(session)
    session.reads.wait_for_workers()

    assert_equal(found, alone(session))
    assert bool(caplog.records) == (kind != "removed")
    if kind != "a directory":
        assert path.read_bytes() == content


def test_what_happens_to_the_file_later_does_not_reach_a_reader(past: Past) -> None:
    session = reopened(past.session)
    found = topology_of(session)
    (path,) = kept_files(session)

    with path.open("r+b") as file:
        file.write(b"\xff" * path.stat().st_size)
        file.truncate(1)

    assert_equal(found, alone(session))


def test_a_read_only_handle_reads_it_and_writes_nothing(tmp_path: Path) -> None:
    past = Past(new_session(tmp_path / "g", Options(derived_cache=False)), 7)
    while len(past.edges) < 20:
        past.step()
    reader = reopened(past.session, is_read_only=True)

    topology_of(reader)
    reader.reads.wait_for_workers()

    assert kept_files(reader) == []


@pytest.mark.parametrize("keep_derived", [None, True])
def test_a_handle_that_may_keep_it_does_so(tmp_path: Path, keep_derived: bool | None) -> None:
    past = Past(new_session(tmp_path / "g", Options(derived_cache=False)), 7)
    while len(past.edges) < 20:
        past.step()
    reader = open_session(past.session.uri, is_read_only=False, runtime=runtime(FAST), keep_derived=keep_derived)

    topology_of(reader)
    reader.reads.wait_for_workers()

    assert len(kept_files(reader)) == 1


def test_a_handle_that_may_write_can_still_keep_nothing(tmp_path: Path) -> None:
    past = Past(new_session(tmp_path / "g", Options(derived_cache=False)), 7)
    while len(past.edges) < 20:
        past.step()
    writer = open_session(past.session.uri, is_read_only=False, runtime=runtime(FAST), keep_derived=False)

    topology_of(writer)
    writer.reads.wait_for_workers()

    assert kept_files(writer) == []


def test_a_handle_cannot_be_read_only_and_keep_it(past: Past) -> None:
    with pytest.raises(BadArgumentError, match="`keep_derived` can't be True"):
        open_session(past.session.uri, is_read_only=True, runtime=runtime(FAST), keep_derived=True)


def test_what_was_derived_from_a_state_that_was_collected_meanwhile_is_not_kept(past: Past) -> None:
    (kept,) = kept_files(past.session)
    kept.unlink()
    reader = reopened(past.session)
    held_up = threading.Event()

    def encode() -> list[memoryview | bytes]:
        held_up.wait()
        return [b"what the state said"]

    tables = [view_of(reader).get_table(type_) for type_ in view_of(reader).catalog.nodes.values()]
    reader.reads.store_derived([(f"_derived/{kept.name}", encode)], tables)
    Path(reader.uri, build_version_key(tables[0].path, tables[0].version)).unlink()
    held_up.set()
    reader.reads.wait_for_workers()

    assert kept_files(reader) == []


def test_it_can_be_turned_off(past: Past, monkeypatch: pytest.MonkeyPatch) -> None:
    for path in kept_files(past.session):
        path.write_bytes(b"poison")
    session = reopened(past.session, options=Options(derived_cache=False))
    monkeypatch.setattr(DerivedCache, "read", lambda *_: pytest.fail("it was read"))
    monkeypatch.setattr(DerivedCache, "write", lambda *_: pytest.fail("it was written"))

    topology_of(session)
    session.reads.wait_for_workers()

    assert [path.read_bytes() for path in kept_files(session)] == [b"poison"]


def test_a_place_where_nothing_can_be_written_is_in_nobodys_way(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    past = Past(new_session(tmp_path / "g"), 7)
    (tmp_path / "g" / "_derived").write_text("not a directory")
    while len(past.edges) < 20:
        past.step()

    with caplog.at_level(logging.DEBUG, logger="omnigraph"):
        topology_of(past.session)
        past.session.reads.wait_for_workers()

    kept = [record.levelno for record in caplog.records if "could not keep" in record.getMessage()]
    assert kept == [logging.DEBUG]


def test_what_an_older_graph_left_is_no_obstacle_and_no_answer(past: Past, tmp_path: Path) -> None:
    root = tmp_path / "again"
    (root / "_derived").mkdir(parents=True)
    for path in kept_files(past.session):
        (root / "_derived" / path.name).write_bytes(path.read_bytes())

    other = Past(new_session(root), 8)
    while len(other.edges) < 5:
        other.step()

    assert_equal(topology_of(other.session), alone(other.session))


def test_few_edges_are_not_worth_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    past = Past(new_session(tmp_path / "g"), 7)
    while len(past.edges) < 20:
        past.step()

    topology_of(past.session)
    past.session.reads.wait_for_workers()

    assert kept_files(past.session) == []


@pytest.fixture(scope="module")
def storage() -> Iterator[dict[str, str]]:
    with s3_server() as options:
        yield options


def test_on_an_object_store_it_is_one_object(storage: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    options = Options(storage=storage, backoff_seconds=0.01)
    past = Past(new_session(fresh_uri(), options), 7)
    while len(past.edges) < 10:
        past.step()
    topology_of(past.session)
    past.session.reads.wait_for_workers()
    session = reopened(past.session, options=options)
    monkeypatch.setattr(graph_cache, "resolve_endpoints", lambda *_: pytest.fail("it was made again"))

    found = topology_of(session)

    assert len(session.store.objects.list_under("_derived")) == 1
    monkeypatch.undo()
    assert_equal(found, alone(session))


# --- the bytes alone --------------------------------------------------------------------------------


def some_topology(edges: list[tuple[int, int]]) -> Topology:
    source, target = (np.array([edge[side] for edge in edges], np.int32) for side in (0, 1))
    fragments = [Fragment(n, rows, 0, (f"{n}.lance",), None, 100) for n, rows in enumerate((len(edges), 4, 6))]
    return Topology(TopologyLayouts(*(Layout((fragment,)) for fragment in fragments)), EdgeEndpoints(source, target))


EDGES = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 5)), max_size=30)


@settings(max_examples=100)
@given(EDGES)
def test_a_topology_is_read_as_it_was_written(edges: list[tuple[int, int]]) -> None:
    topology = some_topology(edges)

    found = decode_topology(memoryview(b"".join(encode_topology(topology))))

    assert found is not None
    assert found.layouts == topology.layouts
    assert_equal(found, topology)


@pytest.mark.parametrize("edges", [[(0, 1), (0, 1), (3, 5), (2, 0)], [(1, 2)]])
def test_no_bit_can_flip_unnoticed(edges: list[tuple[int, int]]) -> None:
    topology = some_topology(edges)
    content = bytearray(b"".join(encode_topology(topology)))

    for place in range(len(content)):
        content[place] ^= 1 << (place % 8)
        found = decode_topology(memoryview(bytes(content)))
        if found is not None:  # padding, or `into`, which is then made again
            assert_equal(found, topology)
        content[place] ^= 1 << (place % 8)


def test_no_end_can_be_missing_unnoticed() -> None:
    content = b"".join(encode_topology(some_topology([(0, 1), (3, 5), (2, 0)])))

    assert all(decode_topology(memoryview(content[:size])) is None for size in range(len(content)))
    assert decode_topology(memoryview(content + b"\0")) is None


def test_a_list_that_does_not_fit_its_tables_is_not_used() -> None:
    topology = some_topology([(0, 1), (3, 5)])
    topology.lists["out"] = build_csr(np.array([0], np.int32), np.array([1], np.int32), 2, 6)

    assert decode_topology(memoryview(b"".join(encode_topology(topology)))) is None
