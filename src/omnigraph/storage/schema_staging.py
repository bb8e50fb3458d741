"""A table's columns changed, staged: renamed, dropped, added, reordered, made nullable, all at once.

Rows stay where they are, with their row ids, and indexes on columns that live on stay in use. Only a new column that is
filled has files written for it. Lance finds a column by the number of its field, never by its name, so a column that
lives on keeps its number, and a new one gets a number that no file of the table has used.
"""

import json
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from lance.fragment import FragmentMetadata
from lance.schema import LanceSchema

from omnigraph.storage.checksum_stamping import stamp_fragment
from omnigraph.storage.columnar_sets import repeat_scalar
from omnigraph.storage.io_counters import attribute_requests
from omnigraph.storage.lance_table import LanceTable, build_physical_schema
from omnigraph.storage.staging import StagedWrite, WriteKind
from omnigraph.storage.table_cache import translate_rewrite_errors

_NO_PARENT = -1
_TEMPORARY_PREFIX = "__omnigraph_"
"""How a column is called for a moment while another one has its name; no property begins like that."""
_NAME_PART, _NUMBER_PART, _PARENT_PART, _NULLABLE_PART = 2, 3, 4, 6
"""The parts of a stored field, by Lance's numbers for them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NewColumns:
    """How a table shall look: its columns, the old name of each that lives on, what fills others."""

    schema: pa.Schema
    old_names: Mapping[str, str]
    """By new name; a column that is not there is new."""
    fills: Mapping[str, pa.Scalar]
    """What every row gets in a new column; in others it is null."""


def stage_columns(table: LanceTable, wanted: NewColumns, made: Callable[[Sequence[str]], None]) -> StagedWrite:
    """The whole change; files are written only for columns that are filled, and only if there are rows.

    `made` hears of each file as soon as it is there, by its name relative to the root.
    """
    dataset = table.handles.open(table.path, table.version)
    fragments = [fragment.metadata for fragment in dataset.get_fragments()]
    stored = _group_by_column(dataset.lance_schema)
    numbers = {new: [_read_number(one) for one in stored[old]] for new, old in wanted.old_names.items()}
    used = [_read_number(one) for fields in stored.values() for one in fields]
    used += [number for fragment in fragments for file in fragment.files for number in file.fields]
    files: list[str] = []
    if wanted.fills and fragments:
        known = {file.path for fragment in fragments for file in fragment.files}
        fragments, filled = _fill_columns(table, wanted, known, made)
        numbers |= filled
        used += [number for some in filled.values() for number in some]
        files = [file for fragment in fragments for file in _list_new_files(table, fragment, known)]
    fields = list(_iter_renumbered(build_physical_schema(wanted.schema), numbers, max(used) + 1))
    return StagedWrite(
        change=WriteKind.SCHEMA,
        path=table.path,
        base=table.version,
        blobs=tuple(files),
        base_rows=table.count(),
        fields=tuple(field.hex() for field in fields),
        fragments=tuple(json.dumps(fragment.to_json()) for fragment in fragments),
    )


def build_schema(staged: StagedWrite, stored: LanceSchema) -> LanceSchema:
    """The schema that a staged change gives a table, whose own metadata stays."""
    make, (metadata, *_) = _split_schema(stored)
    return make(metadata, *(bytes.fromhex(field) for field in staged.fields))


def build_relaxed_schema(staged: StagedWrite, stored: LanceSchema) -> LanceSchema | None:
    """The stored schema with those columns nullable that a staged change makes so; None when there are none.

    Lance takes this as a change of its own, before any other.
    """
    make, (metadata, *fields) = _split_schema(stored)
    wanted = {_read_number(field) for field in map(bytes.fromhex, staged.fields) if _is_nullable(field)}
    relaxed = [_make_nullable(field) if _read_number(field) in wanted else field for field in fields]
    return make(metadata, *relaxed) if relaxed != list(fields) else None


def build_freed_schema(staged: StagedWrite, stored: LanceSchema) -> LanceSchema | None:
    """The stored schema with other names for columns whose names a staged change gives to others; None for none.

    Lance takes a column, old or new, that gets the name of another one for that other one, with a wrong number.
    """
    make, (metadata, *fields) = _split_schema(stored)
    wanted = {
        _read_text(one, _NAME_PART): _read_number(one) for one in map(bytes.fromhex, staged.fields) if _is_column(one)
    }
    freed = [
        _replace_name(field, f"{_TEMPORARY_PREFIX}{_read_number(field)}")
        if _is_column(field) and wanted.get(_read_text(field, _NAME_PART), _read_number(field)) != _read_number(field)
        else field
        for field in fields
    ]
    return make(metadata, *freed) if freed != list(fields) else None


def list_field_numbers(schema: LanceSchema) -> set[int]:
    """The numbers of all fields, nested ones too."""
    return {_read_number(field) for fields in _group_by_column(schema).values() for field in fields}


def _split_schema(schema: LanceSchema) -> tuple[Callable[..., LanceSchema], tuple[Any, ...]]:
    """What Lance's own pickling makes of a schema: how to make one, of its metadata and the bytes of its fields."""
    found: Any = schema.__reduce__()
    return found[0], found[1]


def _list_new_files(table: LanceTable, fragment: FragmentMetadata, known: Collection[str]) -> list[str]:
    return [f"{table.path}/data/{file.path}" for file in fragment.files if file.path not in known]


def _fill_columns(
    table: LanceTable, wanted: NewColumns, known: Collection[str], made: Callable[[Sequence[str]], None]
) -> tuple[list[FragmentMetadata], dict[str, list[int]]]:
    """Every fragment with a file of the filled columns, and the numbers that these have got."""
    dataset = table.handles.open(table.path, table.version)
    # The column that has the name may be about to go: Lance finds columns by their numbers, so any name will do here.
    names = {name: f"{_TEMPORARY_PREFIX}{name}" if name in dataset.schema.names else name for name in wanted.fills}
    schema = pa.schema([wanted.schema.field(name).with_name(names[name]) for name in wanted.fills])

    def fill(batch: pa.RecordBatch) -> pa.RecordBatch:
        columns = [repeat_scalar(one, batch.num_rows) for one in wanted.fills.values()]
        return pa.RecordBatch.from_arrays(
            [one.cast(f.type) for one, f in zip(columns, schema, strict=True)], schema=schema
        )

    fragments: list[FragmentMetadata] = []
    schema_then: LanceSchema | None = None
    store = table.handles.store
    errors = translate_rewrite_errors(
        f"write columns of {table.path}", table.path, table.version, table.handles.explain
    )
    with attribute_requests(store.runtime.telemetry, "table"), errors:
        for fragment in dataset.get_fragments():
            metadata, schema_then = fragment.merge_columns(fill, columns=[dataset.schema.names[0]])
            made(_list_new_files(table, metadata, known))
            stamped = stamp_fragment(store, table.path, metadata.to_json(), made, known)
            fragments.append(FragmentMetadata.from_json(json.dumps(stamped)))
    assert schema_then is not None  # noqa: S101 - there is a fragment
    columns = _group_by_column(schema_then)
    return fragments, {name: [_read_number(one) for one in columns[names[name]]] for name in wanted.fills}


# --- fields as Lance writes them ------------------------------------------------------------------------


def _group_by_column(schema: LanceSchema) -> dict[str, list[bytes]]:
    """The stored fields of each column: its own, and behind it those of what is nested in it."""
    _, (_, *fields) = _split_schema(schema)
    found: dict[str, list[bytes]] = {}
    current: list[bytes] = []
    for field in fields:
        if _is_column(field):
            current = found[_read_text(field, _NAME_PART)] = []
        current.append(field)
    return found


def _iter_renumbered(schema: pa.Schema, numbers: Mapping[str, Sequence[int]], free: int) -> Iterator[bytes]:
    """The fields of a schema with the numbers that its columns have; others get free ones."""
    for name, fields in _group_by_column(LanceSchema.from_pyarrow(schema)).items():
        given = numbers.get(name)
        if given is None:
            given = range(free, free + len(fields))
            free += len(fields)
        new = {_read_number(field): number for field, number in zip(fields, given, strict=True)}
        for field in fields:
            yield _replace_numbers(field, new[_read_number(field)], new.get(_read_parent(field), _NO_PARENT))


def _replace_numbers(field: bytes, number: int, parent: int) -> bytes:
    others = [(part, data) for part, data in _iter_parts(field) if part not in (_NUMBER_PART, _PARENT_PART)]
    own = [
        (_NUMBER_PART, _encode_varint_part(_NUMBER_PART, number)),
        (_PARENT_PART, _encode_varint_part(_PARENT_PART, parent)),
    ]
    return b"".join(data for _, data in sorted((*others, *own), key=lambda one: one[0]))


def _replace_name(field: bytes, name: str) -> bytes:
    others = [(part, data) for part, data in _iter_parts(field) if part != _NAME_PART]
    text = name.encode()
    own = (_NAME_PART, bytes([_NAME_PART << 3 | 2, len(text)]) + text)  # a text of less than 128 bytes
    return b"".join(data for _, data in sorted((*others, own), key=lambda one: one[0]))


def _is_column(field: bytes) -> bool:
    return _read_parent(field) == _NO_PARENT


def _make_nullable(field: bytes) -> bytes:
    if _is_nullable(field):
        return field
    parts = [*_iter_parts(field), (_NULLABLE_PART, _encode_varint_part(_NULLABLE_PART, 1))]
    return b"".join(data for _, data in sorted(parts, key=lambda one: one[0]))


def _is_nullable(field: bytes) -> bool:
    return bool(_read_signed(field, _NULLABLE_PART))


def _read_number(field: bytes) -> int:
    return _read_signed(field, _NUMBER_PART)


def _read_parent(field: bytes) -> int:
    return _read_signed(field, _PARENT_PART)


def _read_signed(field: bytes, wanted: int) -> int:
    """A number of a field; one that is 0 is not written."""
    for part, data in _iter_parts(field):
        if part == wanted:
            value, _ = _read_varint(data, 1)
            return value - (1 << 64) if value >> 63 else value
    return 0


def _read_text(field: bytes, wanted: int) -> str:
    for part, data in _iter_parts(field):
        if part == wanted:
            size, start = _read_varint(data, 1)
            return data[start : start + size].decode()
    return ""


def _iter_parts(message: bytes) -> Iterator[tuple[int, bytes]]:
    """The parts of a message in Protocol Buffers' form, each with its number and its bytes as they stand."""
    at = 0
    while at < len(message):
        start = at
        key, at = _read_varint(message, at)
        match key & 7:
            case 0:
                _, at = _read_varint(message, at)
            case 1:
                at += 8
            case 2:
                size, at = _read_varint(message, at)
                at += size
            case 5:
                at += 4
            case kind:
                msg = f"Lance wrote a field with a part of kind {kind}, which is not known here"
                raise ValueError(msg)
        yield key >> 3, message[start:at]


def _read_varint(data: bytes, at: int) -> tuple[int, int]:
    """A number, and where it ends."""
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            return value, at


def _encode_varint_part(part: int, value: int) -> bytes:
    if not value:
        return b""
    left = value & ((1 << 64) - 1)
    found = [part << 3]
    while True:
        found.append((left & 0x7F) | (0x80 if left > 0x7F else 0))
        left >>= 7
        if not left:
            return bytes(found)
