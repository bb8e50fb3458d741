"""When a column is read whole: at once if it is light, later if it has paid, never if there is no room."""

import numpy as np
import pyarrow as pa
import pytest

from omnigraph.engine.tables import column_store
from omnigraph.engine.tables.column_residency import ColumnCosts, estimate_column_bytes
from omnigraph.engine.tables.row_layout import Layout, mask_values, pack_bitmap
from omnigraph.storage.fragment_list import Fragment

SCHEMA = pa.schema(
    {
        "id": pa.string(),
        "n": pa.int64(),
        "ok": pa.bool_(),
        "place": pa.list_(pa.float32(), 100),
        "tags": pa.list_(pa.string()),
    }
)
ROWS = 1_000_000
ROOM = 10**9


def layout(rows: int = ROWS, nbytes: int = 0) -> Layout:
    return Layout((Fragment(0, rows, 0, ("0.lance",), None, nbytes),))


def costs(limit_bytes: int = ROOM, nbytes: int = 0) -> ColumnCosts:
    return ColumnCosts(layout(nbytes=nbytes), SCHEMA, limit_bytes)


@pytest.mark.parametrize(
    "column, expected",
    [("n", 8 * ROWS), ("ok", ROWS // 8), ("place", 400 * ROWS), ("id", 24 * ROWS), ("tags", 64 * ROWS)],
)
def test_the_size_of_a_column_follows_from_its_type(column: str, expected: int) -> None:
    assert estimate_column_bytes(layout(), SCHEMA, column) == expected


def test_texts_may_be_all_that_large_files_hold() -> None:
    assert estimate_column_bytes(layout(nbytes=10**9), SCHEMA, "id") == 10**9 - 408 * ROWS - ROWS // 8


def test_a_light_column_is_read_whole_at_once() -> None:
    assert costs().should_load("n", 1)


def test_a_large_column_is_read_whole_once_that_has_paid() -> None:
    judged = costs()

    asked = [judged.should_load("id", 20) for _ in range(100)]

    assert asked[0] is False
    assert asked[-1] is True
    assert asked == sorted(asked)


def test_many_rows_pay_at_once() -> None:
    assert costs().should_load("id", ROWS // 10)


def test_a_column_without_room_is_never_read_whole() -> None:
    assert not any(costs(limit_bytes=10**6).should_load("id", ROWS) for _ in range(100))


def test_long_vectors_are_not_kept_for_a_filter() -> None:
    judged = costs(limit_bytes=4 * ROOM)

    assert judged.has_room_for("place")
    assert judged.is_heavy("place")
    assert not judged.is_heavy("id")


def test_a_structure_pays_at_once_for_a_small_table_and_later_for_a_large_one() -> None:
    small = ColumnCosts(layout(1_000), SCHEMA, ROOM)
    large = costs()

    assert small.has_paid("index")
    assert [large.has_paid("index") for _ in range(5)] == [False, False, False, True, True]


def test_more_text_than_32_bits_count_becomes_large(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(column_store, "_MAX_TEXT_BYTES", 10)
    chunks = [pa.array(["some text", None]), pa.array(["more text"])]

    found = column_store.concat_chunks(chunks, pa.string())

    assert found.type == pa.large_string()
    assert mask_values(found, pack_bitmap(np.array([True, True, False]))).to_pylist() == ["some text", None, None]


@pytest.mark.parametrize(
    "values",
    [
        pa.array([1, None, 3], pa.int64()),
        pa.array(["a", None, "b"]),
        pa.array([True, None, False]),
        pa.array([[1], None, [2, 3]]),
        pa.array([[1.0, 2.0], None, [3.0, 4.0]], pa.list_(pa.float32(), 2)),
        pa.array([{"x": 1}, None, {"x": 3}]),
    ],
    ids=lambda values: str(values.type),
)
@pytest.mark.parametrize("cut", [0, 1])
def test_holes_are_null_in_a_column_of_any_type(values: pa.Array, cut: int) -> None:
    seen = values.slice(cut)
    living = np.array([False, True, True])[cut:]

    found = mask_values(seen, pack_bitmap(living))

    expected = [value if lives else None for value, lives in zip(seen.to_pylist(), living, strict=True)]
    assert found.to_pylist() == expected
    assert found.type == values.type
    found.validate(full=True)
