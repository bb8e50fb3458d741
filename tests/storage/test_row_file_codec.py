"""Files of one row that are encoded here are those that Lance writes, byte by byte."""

import datetime as dt
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest
from lance.fragment import write_fragments

from omnigraph.storage.fragment_list import build_fragment_json
from omnigraph.storage.lance_table import build_physical_schema
from omnigraph.storage.layout import LANCE_STORAGE_VERSION
from omnigraph.storage.row_file_codec import OtherFormatError, RowFileLayout, learn_layout

INSTANT = pa.timestamp("us", "UTC")
TYPES = {
    "s": pa.utf8(),
    "b": pa.bool_(),
    "i": pa.int32(),
    "l": pa.int64(),
    "u": pa.uint32(),
    "w": pa.uint64(),
    "f": pa.float32(),
    "d": pa.float64(),
    "day": pa.date32(),
    "at": INSTANT,
}
VALUES: dict[str, Any] = {
    "id": "one",
    "s": "text",
    "b": True,
    "i": -1,
    "l": 2**62,
    "u": 2**32 - 1,
    "w": 2**64 - 1,
    "f": -0.0,
    "d": float("nan"),
    "day": dt.date(1969, 12, 31),
    "at": dt.datetime(2026, 1, 2, 3, 4, 5, 6, dt.UTC),
}


def build_schema(types: dict[str, pa.DataType], **metadata: str) -> pa.Schema:
    id_field = pa.field("id", pa.utf8(), nullable=False, metadata=metadata or None)
    return build_physical_schema(pa.schema([id_field, *(pa.field(name, type_) for name, type_ in types.items())]))


class Table:
    """A table, and the files of one row that Lance writes for it."""

    def __init__(self, path: Path, schema: pa.Schema) -> None:
        self.schema = schema
        self.dataset = lance.write_dataset(
            schema.empty_table(),
            str(path / "t"),
            enable_stable_row_ids=True,
            data_storage_version=LANCE_STORAGE_VERSION,
        )
        self.data = path / "t" / "data"

    def write(self, rows: pa.Table) -> tuple[dict[str, Any], bytes]:
        (fragment,) = write_fragments(rows, self.dataset, mode="append")
        described = build_fragment_json(fragment)
        return described, (self.data / described["files"][0]["path"]).read_bytes()

    def learn(self, values: dict[str, Any], known: RowFileLayout | None = None) -> RowFileLayout:
        rows = pa.Table.from_pylist([values], self.schema)
        return learn_layout(*self.write(rows), rows.to_batches()[0], known)


def test_rows_of_all_types_are_encoded_as_lance_does(tmp_path: Path) -> None:
    table = Table(tmp_path, build_schema(TYPES))
    layout = table.learn(VALUES)
    names = list(TYPES)

    for omitted in range(0, 1 << len(names), 37):
        values = {**VALUES, **{name: None for at, name in enumerate(names) if omitted >> at & 1}}
        rows = pa.Table.from_pylist([values], table.schema)
        _, data = table.write(rows)

        assert layout.encode(rows.to_batches()[0]) == data, values


@pytest.mark.parametrize("metadata", [{}, {"omnigraph:made": "true"}])
def test_texts_of_any_length_are_encoded_as_lance_does(tmp_path: Path, metadata: dict[str, str]) -> None:
    table = Table(tmp_path, build_schema({"s": pa.utf8(), "t": pa.utf8()}, **metadata))

    for length in (0, 1, 20, 43, 44, 45, 63, 64, 107, 108, 128, 1_000, 16_383, 16_384, 40_000):
        for character in ("a", "ü", "\N{GRINNING FACE}"):
            # It compares all bytes. Lance writes the metadata of a column in any order, and so differs from itself.
            table.learn({"id": "x" * (1 + length), "s": character * length, "t": "y" * (length // 2)})


def test_a_row_in_the_middle_of_a_table_is_encoded(tmp_path: Path) -> None:
    table = Table(tmp_path, build_schema(TYPES))
    layout = table.learn(VALUES)
    values = {**VALUES, "id": "two", "b": False, "l": 7, "s": "other"}
    rows = pa.Table.from_pylist([VALUES, values, VALUES], table.schema)
    _, data = table.write(pa.Table.from_pylist([values], table.schema))

    assert layout.encode(rows.slice(1, 1).to_batches()[0]) == data


def test_only_forms_that_were_compared_are_known(tmp_path: Path) -> None:
    table = Table(tmp_path, build_schema({"s": pa.utf8()}))
    both = pa.Table.from_pylist([{"id": "a", "s": "b"}], table.schema).to_batches()[0]
    null = pa.Table.from_pylist([{"id": "a", "s": None}], table.schema).to_batches()[0]
    layout = table.learn({"id": "x", "s": "y"})
    assert (layout.is_known(both), layout.is_known(null)) == (True, False)

    layout = table.learn({"id": "x", "s": None}, layout)

    assert layout.is_known(both)
    assert layout.is_known(null)


@pytest.mark.parametrize(
    "type_, value", [(pa.list_(pa.int64()), [1]), (pa.list_(pa.float32(), 2), [1.0, 2.0]), (pa.binary(), b"x")]
)
def test_other_types_are_left_to_lance(tmp_path: Path, type_: pa.DataType, value: object) -> None:
    table = Table(tmp_path, build_schema({"x": type_}))

    with pytest.raises(OtherFormatError):
        table.learn({"id": "a", "x": value})


def test_a_row_with_a_blob_is_left_to_lance(tmp_path: Path) -> None:
    """Its type can't be hashed, unlike those of Arrow."""
    schema = build_schema({}).append(lance.blob_field("x"))
    table = Table(tmp_path, schema)
    rows = pa.Table.from_arrays([pa.array(["a"]), lance.blob_array([b"x"])], schema=schema)

    with pytest.raises(OtherFormatError):
        learn_layout(*table.write(rows), rows.to_batches()[0], None)


@pytest.mark.parametrize("at", [0, 30, -1, -20, -60])
def test_a_file_with_other_bytes_is_no_model(tmp_path: Path, at: int) -> None:
    table = Table(tmp_path, build_schema(TYPES))
    rows = pa.Table.from_pylist([VALUES], table.schema)
    fragment, data = table.write(rows)
    changed = bytearray(data)
    changed[at] ^= 1

    with pytest.raises(OtherFormatError):
        learn_layout(fragment, bytes(changed), rows.to_batches()[0], None)


@pytest.mark.parametrize("size", [0, 10, 100])
def test_a_truncated_file_is_no_model(tmp_path: Path, size: int) -> None:
    table = Table(tmp_path, build_schema(TYPES))
    rows = pa.Table.from_pylist([VALUES], table.schema)
    fragment, data = table.write(rows)

    with pytest.raises(OtherFormatError):
        learn_layout(fragment, data[:size], rows.to_batches()[0], None)
