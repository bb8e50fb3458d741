"""Deletion files as Lance writes them, and what they say: the same as Lance itself says of the rows that live."""

import struct
from pathlib import Path

import lance
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import omnigraph as og
from omnigraph.storage.deletion_vectors import (
    DeletionsError,
    decode_deletions,
    invert_offsets,
    to_live_positions,
    to_offsets,
)
from omnigraph.storage.lance_table import ADDRESS, LanceTable
from omnigraph.storage.row_addresses import RowAddressMap
from omnigraph.storage.table_cache import PinUnreadableError
from worlds import runtime

ROWS = 200_000


def written(place: Path, deleted: list[int]) -> lance.FragmentMetadata:
    """A fragment of which these rows were deleted."""
    dataset = lance.write_dataset(pa.table({"n": np.arange(ROWS)}), place)
    metadata = dataset.get_fragments()[0].delete_rows(deleted)
    assert metadata is not None
    return metadata


CASES = {
    "few": [0, 5, 199_999],
    "one": [65_536],
    "spread": list(range(0, ROWS, 17)),
    "dense": [row for row in range(ROWS) if row % 5],
    "a run": list(range(30_000, 190_000)),
    "a part that is full": list(range(65_536, 131_072)),
    "of several kinds": [1, *range(65_600, 131_000), *range(131_072, ROWS, 40)],
}


@pytest.mark.parametrize("case", CASES)
def test_what_lance_wrote_is_read(case: str, tmp_path: Path) -> None:
    metadata = written(tmp_path / "t", CASES[case])
    file = metadata.deletion_file
    assert file is not None

    data = (tmp_path / "t" / file.path(0)).read_bytes()

    assert decode_deletions(data, len(CASES[case]), ROWS, is_bitmap=file.file_type == "bitmap").tolist() == CASES[case]


def test_lance_writes_both_kinds(tmp_path: Path) -> None:
    kinds = {case: written(tmp_path / case, CASES[case]).deletion_file for case in ("few", "spread")}

    assert {case: file and file.file_type for case, file in kinds.items()} == {"few": "array", "spread": "bitmap"}


@st.composite
def bitmaps(draw: st.DrawFn) -> tuple[bytes, list[int]]:
    """A bitmap of the portable form with parts of all three kinds, and its numbers."""
    highs = sorted(draw(st.sets(st.integers(0, 60_000), max_size=6)))
    has_runs = draw(st.booleans())
    bodies: list[bytes] = []
    heads: list[tuple[int, int]] = []
    marks: list[bool] = []
    numbers: list[int] = []
    for high in highs:
        starts = sorted(draw(st.sets(st.integers(0, 6_000), min_size=1, max_size=4)))
        most = [after - before for before, after in zip(starts, [*starts[1:], 6_550], strict=True)]
        runs = [(10 * start, draw(st.integers(1, 10 * size - 1))) for start, size in zip(starts, most, strict=True)]
        low = [number for start, size in runs for number in range(start, start + size)]
        is_run = has_runs and draw(st.booleans())
        if is_run:
            body = struct.pack("<H", len(runs)) + b"".join(struct.pack("<HH", start, size - 1) for start, size in runs)
        elif len(low) <= 4_096:
            body = np.array(low, "<u2").tobytes()
        else:
            bits = np.zeros(65_536, np.uint8)
            bits[low] = 1
            body = np.packbits(bits, bitorder="little").tobytes()
        bodies.append(body)
        heads.append((high, len(low) - 1))
        marks.append(is_run)
        numbers += [high << 16 | number for number in low]
    if has_runs and not highs:
        has_runs = False
    data = struct.pack("<I", 12_347 | (len(highs) - 1) << 16) if has_runs else struct.pack("<II", 12_346, len(highs))
    if has_runs:
        data += np.packbits(np.array(marks, np.uint8), bitorder="little").tobytes()
    data += b"".join(struct.pack("<HH", *head) for head in heads)
    if not has_runs or len(highs) >= 4:
        first = len(data) + 4 * len(highs)
        sizes = np.cumsum([0, *map(len, bodies)])[:-1]
        data += (first + sizes).astype("<u4").tobytes()
    return data + b"".join(bodies), numbers


@given(bitmaps())
@settings(max_examples=60, deadline=None)
def test_parts_of_all_kinds_are_read(given_: tuple[bytes, list[int]]) -> None:
    data, numbers = given_

    assert decode_deletions(data, len(numbers), 1 << 32, is_bitmap=True).tolist() == numbers


@pytest.mark.parametrize("case", ["few", "spread", "of several kinds"])
def test_what_is_cut_off_is_refused_wherever_it_ends(case: str, tmp_path: Path) -> None:
    file = written(tmp_path / "t", CASES[case]).deletion_file
    assert file is not None
    data = (tmp_path / "t" / file.path(0)).read_bytes()

    for size in [*range(min(len(data), 40)), *range(40, len(data), max(len(data) // 50, 1))]:
        with pytest.raises(DeletionsError):
            decode_deletions(data[:size], len(CASES[case]), ROWS, is_bitmap=file.file_type == "bitmap")


def test_another_number_of_rows_is_refused(tmp_path: Path) -> None:
    file = written(tmp_path / "t", CASES["spread"]).deletion_file
    assert file is not None
    data = (tmp_path / "t" / file.path(0)).read_bytes()

    with pytest.raises(DeletionsError, match="it has 11,765 rows, and should have 11,764"):
        decode_deletions(data, 11_764, ROWS, is_bitmap=True)


def listed(offsets: list[int | None], type_: pa.DataType | None = None) -> bytes:
    """An Arrow file of these offsets."""
    table = pa.table({"row_id": pa.array(offsets, type_ or pa.uint32())})
    sink = pa.BufferOutputStream()
    with pa.ipc.new_file(sink, table.schema) as file:
        file.write_table(table)
    return bytes(sink.getvalue())


@pytest.mark.parametrize(
    "data",
    [
        listed([3, 10]),
        listed([3, 3]),
        listed([3, None]),
        listed([3, 4], pa.int64()),
        listed([3, 4], pa.float64()),
    ],
    ids=["beyond the rows", "twice", "null", "of 64 bits", "fractions"],
)
def test_offsets_that_no_rows_have_are_refused(data: bytes) -> None:
    assert decode_deletions(listed([9, 3]), 2, 10, is_bitmap=False).tolist() == [3, 9]

    with pytest.raises(DeletionsError):
        decode_deletions(data, 2, 10, is_bitmap=False)


def test_parts_that_do_not_ascend_are_refused() -> None:
    heads = struct.pack("<HHHH", 1, 0, 0, 0)
    data = struct.pack("<II", 12_346, 2) + heads + struct.pack("<II", 24, 26) + struct.pack("<HH", 5, 6)

    with pytest.raises(DeletionsError, match="distinct rows"):
        decode_deletions(data, 2, ROWS, is_bitmap=True)


def test_runs_are_not_made_before_they_are_counted() -> None:
    """A bit that flipped may tell of billions of rows."""
    heads = b"".join(struct.pack("<HH", high, 0xFFFF) for high in range(3))
    run = struct.pack("<HHH", 1, 0, 0xFFFF)
    data = struct.pack("<I", 12_347 | 2 << 16) + b"\x07" + heads + 3 * run

    assert len(decode_deletions(data, 3 << 16, 3 << 16, is_bitmap=True)) == 3 << 16
    with pytest.raises(DeletionsError, match="it has 196,608 rows, and should have 5"):
        decode_deletions(data, 5, ROWS, is_bitmap=True)
    few = struct.pack("<I", 12_347) + b"\x01" + struct.pack("<HH", 0, 4) + run
    with pytest.raises(DeletionsError, match="its runs do not have 5 rows"):
        decode_deletions(few, 5, ROWS, is_bitmap=True)


deletions = st.sets(st.integers(0, 60)).map(sorted).map(lambda rows: np.array(rows, np.int64))


@given(deletions)
def test_places_and_offsets_are_each_others_inverse(deleted: np.ndarray[tuple[int], np.dtype[np.int64]]) -> None:
    living = [row for row in range(70) if row not in set(deleted.tolist())]

    assert invert_offsets(deleted, 70).tolist() == living
    assert to_offsets(deleted, np.arange(len(living))).tolist() == living
    assert to_live_positions(deleted, np.array(living)).tolist() == list(range(len(living)))


@given(st.lists(st.tuples(st.integers(1, 9), st.sets(st.integers(0, 8))), min_size=1, max_size=5), st.data())
def test_addresses_are_found_from_positions_and_back(parts: list[tuple[int, set[int]]], data: st.DataObject) -> None:
    parts = [(rows, {row for row in gone if row < rows}) for rows, gone in parts]
    numbers = data.draw(st.permutations(range(10, 10 + len(parts))))
    offsets = {number: np.array(sorted(gone), np.int64) for number, (_, gone) in zip(numbers, parts, strict=True)}
    addresses = [
        number << 32 | row
        for number, (rows, gone) in zip(numbers, parts, strict=True)
        for row in range(rows)
        if row not in gone
    ]
    places = RowAddressMap(
        numbers=numbers,
        live_rows=[rows - len(gone) for rows, gone in parts],
        deleted=[len(gone) for _, gone in parts],
        read_deleted_offsets=lambda asked: [offsets[number] for number in asked],
    )
    chosen = np.array(data.draw(st.lists(st.integers(0, max(len(addresses) - 1, 0)))) if addresses else [], np.int64)

    found = places.to_addresses(chosen)

    assert found.tolist() == [addresses[place] for place in chosen.tolist()]
    assert places.to_positions(found).tolist() == chosen.tolist()


# --- of a table ------------------------------------------------------------------------------------------


@pytest.fixture
def graph(tmp_path: Path) -> og.Graph:
    """Two fragments, both with deleted rows."""
    graph = og.create_graph(str(tmp_path / "g"), "node P {\n    k: I64 @key\n}", runtime=runtime())
    for start in (0, 100):
        graph.load(nodes={"P": pa.table({"k": np.arange(start, start + 100)})}, mode="append")
    graph.mutate("query q() { delete P where k < 7 }")
    graph.mutate("query q() { delete P where k > 190 }")
    return graph


def table_of(graph: og.Graph) -> LanceTable:
    session = graph._session
    return session.open_tables(session.resolve_snapshot()).open_table("node:P")


@pytest.mark.parametrize("small", [1, 100, 101])
def test_a_table_tells_what_was_deleted_as_lance_does(
    graph: og.Graph, small: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("omnigraph.storage.lance_table.MIN_DELETION_FILE_ROWS", small)
    table = table_of(graph)
    numbers = [one.number for one in table.list_fragments()]

    found = table.read_deleted_offsets(numbers)

    living = table.scan([], with_address=True).column(ADDRESS).to_numpy()
    told = [np.setdiff1d(np.arange(100), living[living >> np.uint64(32) == number] & 0xFFFF) for number in numbers]
    assert [one.tolist() for one in found] == [one.tolist() for one in told]
    assert sum(map(len, found)) == 16
    assert table.get_address_map().to_addresses(np.arange(184)).tolist() == living.tolist()


@pytest.mark.parametrize("what", ["removed", "cut off"])
def test_a_damaged_deletion_file_is_named(
    what: str, graph: og.Graph, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("omnigraph.storage.lance_table.MIN_DELETION_FILE_ROWS", 1)
    table = table_of(graph)
    (file,) = [one for one in (tmp_path / "g").rglob("_deletions/*") if one.name.startswith("0-")]
    if what == "removed":
        file.unlink()
    else:
        file.write_bytes(file.read_bytes()[:50])

    with pytest.raises(PinUnreadableError, match=f"_deletions/{file.name}"):
        table.read_deleted_offsets([0])
