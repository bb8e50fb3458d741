"""The rows of tiny files in the file of a version: what is carried comes back as it was, and damage is noticed."""

import datetime as dt
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

import omnigraph as og
from mutating import run
from omnigraph.storage import carried_rows
from omnigraph.storage.carried_rows import (
    CarriedRows,
    add_carried,
    add_keys,
    decode_carried,
    decode_section,
    encode_carried,
    encode_keys,
    encode_section,
)
from omnigraph.storage.layout import build_version_key
from omnigraph.storage.version_codec import split_file
from upkeep_calls import MAINTAINED, exported, settled
from worlds import CALM, runtime

NOW = dt.datetime(2026, 2, 3, 4, 5, 6, 789, dt.UTC)
COLUMNS = {
    "text": pa.array(["ä", None, ""], pa.utf8()),
    "truth": pa.array([True, None, False]),
    "small": pa.array([-(2**31), None, 1], pa.int32()),
    "large": pa.array([2**63 - 1, None, 0], pa.int64()),
    "count": pa.array([2**64 - 1, None, 0], pa.uint64()),
    "half": pa.array([0.1, None, -0.0], pa.float32()),
    "real": pa.array([0.1, None, float("inf")], pa.float64()),
    "day": pa.array([dt.date(1, 1, 1), None, dt.date(9999, 12, 31)], pa.date32()),
    "instant": pa.array([NOW, None, NOW], pa.timestamp("us", "UTC")),
}
NUMBERS = {name: number for number, name in enumerate(COLUMNS, 3)}
FILES = ("a.lance", "b.lance")


def carried(rows: pa.Table) -> CarriedRows:
    data = encode_carried(FILES, rows, NUMBERS)
    assert data is not None
    decoded = decode_carried(data)
    assert decoded is not None
    return decoded


@pytest.mark.parametrize("name", COLUMNS)
def test_each_type_comes_back_as_it_was(name: str) -> None:
    decoded = carried(pa.table({name: COLUMNS[name]}))

    assert (decoded.files, decoded.rows) == (FILES, 3)
    assert decoded.get_column(NUMBERS[name], COLUMNS[name].type) == COLUMNS[name]


def test_long_texts_and_other_types_are_left_to_the_file() -> None:
    rows = pa.table({"text": ["x" * 300], "truth": [True], "list": [[1]], "unknown": ["new"]})

    decoded = carried(rows)

    assert decoded.get_column(NUMBERS["text"], pa.utf8()) is None
    assert decoded.get_column(NUMBERS["truth"], pa.bool_()) == pa.array([True])
    assert decoded.get_column(NUMBERS["truth"], pa.list_(pa.int64())) is None
    assert decoded.get_column(NUMBERS["truth"], pa.utf8()) is None, "the column has another type by now"
    assert set(decoded.columns) == {NUMBERS["truth"]}


@pytest.mark.parametrize("rows", [0, carried_rows.MAX_CARRIED_ROWS + 1])
def test_many_rows_are_not_carried(rows: int) -> None:
    assert encode_carried(FILES, pa.table({"text": ["x"] * rows}), NUMBERS) is None


def test_the_newest_files_are_carried() -> None:
    first = dict.fromkeys(range(carried_rows.MAX_CARRIED_FILES), b"x" * 100)

    more = add_carried(first, {1_000: b"y" * 100})
    large = add_carried(more, {1_001: b"z" * (carried_rows.MAX_CARRIED_BYTES - 150)})

    assert list(more) == [*range(1, carried_rows.MAX_CARRIED_FILES), 1_000]
    assert list(large) == [1_000, 1_001]


def test_keys_of_a_compacted_file_come_back() -> None:
    columns = {3: pa.array([f"k{number}" for number in range(300)]), 7: pa.array([None, *range(299)], pa.int64())}

    data = encode_keys(FILES, columns)
    assert data is not None
    decoded = decode_carried(data)

    assert decoded is not None
    assert (decoded.files, decoded.rows) == (FILES, 300)
    assert {number: decoded.get_column(number, values.type) for number, values in columns.items()} == columns
    assert decode_carried(data[:-9]) is None
    assert decode_carried(data[:20] + b"damaged" + data[27:]) is None


@pytest.mark.parametrize(
    "columns",
    [
        {},
        {3: pa.array([], pa.utf8())},
        {3: pa.array(["x"] * 3_000)},
        {3: pa.array(["a", "b"]), 4: pa.array(["x" * 300, "y"])},
        {3: pa.array(["a"]), 4: pa.array([[1]])},
    ],
)
def test_keys_that_are_too_many_or_too_long_are_left_to_the_page(columns: dict[int, pa.Array]) -> None:
    assert encode_keys(FILES, columns) is None


def test_keys_take_no_more_memory_than_they_should(monkeypatch: pytest.MonkeyPatch) -> None:
    data = encode_keys(FILES, {3: pa.array(["x" * 200] * 2_000)})
    assert data is not None
    assert len(data) < 8_000, "400 KB of equal texts"
    assert decode_carried(data) is not None

    monkeypatch.setattr(carried_rows, "_MAX_DECODED_BYTES", 100_000)

    assert decode_carried(data) is None


def test_keys_are_carried_until_they_are_too_many() -> None:
    rows = {5: b"\x93 rows"}
    keys = {number: b"\x78" + bytes(3_000) for number in (4, 9, 12)}

    first = add_keys(rows, {4: keys[4]}, rows=50_000)
    second = add_keys(first, {9: keys[9]}, rows=50_000)

    assert list(second.items()) == [(4, keys[4]), (5, rows[5]), (9, keys[9])]
    assert add_keys(second, {12: keys[12]}, rows=50_000) == rows, "the page is written"
    assert add_keys(first, {9: None}, rows=50_000) == rows
    assert add_keys(rows, {4: keys[4]}, rows=3_000) == rows, "writing the page takes less"


def test_a_damaged_section_counts_as_none() -> None:
    entries = {1: b"one", 7: b"seven"}
    section = encode_section(entries)
    before = b"the list of indexes"

    assert decode_section(before + section, len(before) + len(section)) == entries
    for at in range(len(section)):
        damaged = bytearray(before + section)
        damaged[len(before) + at] ^= 1
        assert decode_section(bytes(damaged), len(damaged)) == {}, at
    assert decode_section(before, len(before)) == {}
    assert encode_section({}) == b""


SCHEMA = "node P { name: String @key  age: I32?  email: String? @unique }"


def version_file(graph: og.Graph, branch: str = "main") -> Path:
    pin = graph.snapshot(branch=branch).pin("node:P")
    return Path(graph.uri, build_version_key(pin.path, pin.version))


def test_a_new_process_finds_carried_rows_as_their_files_have_them(tmp_path: Path) -> None:
    graph = og.create_graph(str(tmp_path / "g"), SCHEMA, runtime=runtime(CALM))
    for number in range(6):
        run(graph, f'insert P {{ name: "k{number}", age: {number}, email: "e{number}" }}')
    run(graph, 'delete P where name = "k3"')
    run(graph, 'update P set { email: "other" } where name = "k4"')
    cold = og.open_graph(graph.uri, runtime=runtime(CALM))

    for taken in ("e1", "other"):
        with pytest.raises(og.ConstraintError, match=taken):
            run(cold, f'insert P {{ name: "new", email: "{taken}" }}')
    for free in ("e3", "e4"):
        run(cold, f'insert P {{ name: "{free}", email: "{free}" }}')
    assert run(cold, 'update P set { age: 9 } where name = "k3"').affected_nodes == 0
    assert run(cold, 'update P set { age: 9 } where name = "k5"').affected_nodes == 1

    assert exported(og.open_graph(graph.uri, runtime=runtime(CALM))) == exported(cold)
    assert b'"k5"' in exported(cold)


def test_a_process_that_writes_two_branches_in_turn_carries_the_rows_of_both(tmp_path: Path) -> None:
    graph = og.create_graph(str(tmp_path / "g"), SCHEMA, runtime=runtime(CALM))
    run(graph, 'insert P { name: "first" }')
    graph.branches.create("side")
    for number in range(4):
        for branch in ("main", "side"):
            graph.mutate(f'query q() {{ insert P {{ name: "k{number}" }} }}', branch=branch)

    for branch in ("main", "side"):
        _, found = split_file(version_file(graph, branch).read_bytes())
        assert len(found) == 5


def test_a_version_does_not_grow_with_the_rows_that_were_written_alone(tmp_path: Path) -> None:
    graph = og.create_graph(str(tmp_path / "g"), SCHEMA, runtime=runtime(MAINTAINED))
    sizes = []
    for more in (20, 60):
        for number in range(more):
            run(graph, f'insert P {{ name: "k{more}-{number}", email: "e{more}-{number}" }}')
        settled(graph)
        run(graph, f'insert P {{ name: "last{more}" }}')
        settled(graph)
        sizes.append(version_file(graph).stat().st_size)

    assert sizes[1] < sizes[0] + 500, sizes
    assert graph.snapshot().pin("node:P").rows == 82


@pytest.mark.parametrize("limit, kept", [(2**20, 3), (0, 0)])
def test_what_versions_carry_is_kept_under_the_memory_limit_of_the_graph(tmp_path: Path, limit: int, kept: int) -> None:
    graph = og.create_graph(str(tmp_path / "g"), SCHEMA, runtime=runtime(replace(CALM, cache_bytes=limit)))
    for number in range(3):
        run(graph, f'insert P {{ name: "k{number}", email: "e{number}" }}')

    session = graph._session
    pin = graph.snapshot().pin("node:P")
    assert len(session.handles.carried.get_read(pin.path, pin.version)) == kept
    assert (session.reads.get_stats().nbytes > 3 * 100) == bool(kept)
    # Without memory for it, a process still hands on what it has written.
    assert len(split_file(version_file(graph).read_bytes())[1]) == 3
