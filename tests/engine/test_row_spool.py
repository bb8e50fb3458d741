"""The rows of a load between reading and writing: in few open files, and found again by their positions."""

import resource
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import omnigraph as og
from omnigraph.engine.bulk import row_spool as spool_module
from omnigraph.engine.bulk.row_spool import LINE, Spool, SpoolError
from omnigraph.engine.decoding.typed_rows import TypedRows
from omnigraph.lang.source import Source
from omnigraph.schema.arrow import build_arrow_schema
from omnigraph.schema.bind import load_schema
from worlds import runtime

CATALOG = load_schema(Source("node A { v: I64 }\nnode B { v: I64 }\nnode C { v: I64 }", "s.pg"))


def window(name: str, first: int, rows: int) -> TypedRows:
    """Rows whose value and line is their number."""
    type_ = CATALOG.nodes[name]
    numbers = pa.array(np.arange(first, first + rows))
    table = pa.Table.from_arrays([numbers.cast(pa.string()), numbers], schema=build_arrow_schema(type_))
    return TypedRows(type=type_, rows=table, lines=numbers, left_out={})


@pytest.fixture
def spool(monkeypatch: pytest.MonkeyPatch) -> Iterator[Spool]:
    monkeypatch.setattr(spool_module, "MAX_OPEN_FILES", 2)
    with Spool(keeps_left_out=False) as made:
        yield made


def test_rows_that_went_into_several_files_are_read_in_their_order(spool: Spool) -> None:
    for round_ in range(4):
        for name in "ABC":
            spool.add(0, window(name, 10 * round_, 10))

    spool.seal()

    for name in "ABC":
        found = spool.types[name]
        assert len(found.paths) == 4
        assert found.read_columns(["v"]).column(0).to_pylist() == list(range(40))


def test_rows_are_found_by_their_positions_across_files(spool: Spool) -> None:
    for round_ in range(4):
        for name in "ABC":
            spool.add(0, window(name, 10 * round_, 10))
    spool.seal()

    for asked in ([], [0], [9, 10], [11, 12, 39], list(range(40))):
        found = spool.types["B"].take(np.array(asked, np.int64), [LINE])

        assert found.column(0).to_pylist() == asked


def test_the_type_that_got_rows_last_keeps_its_file(spool: Spool) -> None:
    for name in "ABACA":
        spool.add(0, window(name, 0, 1))

    spool.seal()

    assert {name: len(found.paths) for name, found in spool.types.items()} == {"A": 1, "B": 1, "C": 1}


def test_a_type_that_is_only_named_has_no_file_and_no_rows(spool: Spool) -> None:
    spool.declare_type(CATALOG.nodes["A"])

    spool.seal()

    found = spool.types["A"]
    assert (found.rows, found.paths, found.read_columns(["v"]).num_rows) == (0, (), 0)
    assert found.take(np.empty(0, np.int64), ["v"]).num_rows == 0


@pytest.fixture
def few_files() -> Iterator[None]:
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (256, before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, before)


@pytest.mark.usefixtures("few_files")
def test_a_load_of_more_types_than_files_may_be_open_is_read(tmp_path: Path) -> None:
    types = 300
    schema = "\n".join(f"node T{number} {{ v: I64 }}" for number in range(types))
    graph = og.create_graph(str(tmp_path / "g"), schema, runtime=runtime())
    records = [{"type": f"T{number}", "data": {"v": number}} for number in range(types)]

    done = graph.load(records, mode="append", dry_run=True)

    assert sum(one.inserted for one in done.nodes.values()) == types


def test_a_lack_of_open_files_is_not_told_as_a_lack_of_space() -> None:
    assert str(SpoolError("x", "Too many open files")).endswith("let the process open more files (ulimit -n)")
    assert "free some space" in str(SpoolError("x", "No space left on device"))
