"""Stage a schema change of a table: rename, drop, add, reorder columns and make them nullable, all in one write.

Rows keep their addresses and row ids, and indexes on retained columns stay in use. Files are written only for new
columns that have a fill value. Lance finds a column by its field id, never by its name, so a retained column keeps its
field id, and a new one gets an id that no file of the table has used.
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
from omnigraph.storage.protobuf import encode_integer, encode_text, iter_parts, join_parts, read_signed, read_text
from omnigraph.storage.staging import StagedWrite, WriteKind
from omnigraph.storage.table_cache import translate_rewrite_errors

_NO_PARENT = -1
# The temporary name of a column whose name another one takes; no property name begins like that.
_TEMPORARY_PREFIX = "__omnigraph_"
# Field numbers of Lance's `Field` message in Protocol Buffers.
_NAME_PART, _NUMBER_PART, _PARENT_PART, _NULLABLE_PART = 2, 3, 4, 6


@dataclass(frozen=True, slots=True, kw_only=True)
class NewColumns:
    """The columns that a table shall have, the old names of retained ones, and the fill values of new ones."""

    schema: pa.Schema
    old_names: Mapping[str, str]
    """The old name of each retained column by its new name; other columns are new."""
    fills: Mapping[str, pa.Scalar]
    """The value that every row gets in a new column; without one it is null."""


def stage_columns(table: LanceTable, columns: NewColumns, on_complete: Callable[[Sequence[str]], None]) -> StagedWrite:
    """Stage a change of columns; files are written only for columns with a fill value, and only if there are rows.

    `on_complete` gets each file as soon as it is written, by its name relative to the root.
    """
    dataset = table.handles.open(table.path, table.version)
    fragments = [fragment.metadata for fragment in dataset.get_fragments()]
    stored = _group_by_column(dataset.lance_schema)
    numbers = {new: [_read_number(field) for field in stored[old]] for new, old in columns.old_names.items()}
    used = [_read_number(field) for stored_fields in stored.values() for field in stored_fields]
    # Files may still have the field ids of dropped columns. A new column with such an id would read their values.
    used += [number for fragment in fragments for file in fragment.files for number in file.fields]
    files: list[str] = []
    if columns.fills and fragments:
        old_files = {file.path for fragment in fragments for file in fragment.files}
        fragments, filled = _fill_columns(table, columns, old_files, on_complete)
        numbers |= filled
        used += [number for filled_numbers in filled.values() for number in filled_numbers]
        files = [file for fragment in fragments for file in _list_new_files(table, fragment, old_files)]
    fields = list(_iter_renumbered(build_physical_schema(columns.schema), numbers, max(used) + 1))
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
    """Return the schema of a table after a staged change; the metadata of the table is kept."""
    build, (metadata, *_) = _split_schema(stored)
    return build(metadata, *(bytes.fromhex(field) for field in staged.fields))


def build_relaxed_schema(staged: StagedWrite, stored: LanceSchema) -> LanceSchema | None:
    """Return the stored schema with the columns nullable that a staged change makes so, or None if there are none.

    Lance accepts this only as a separate change, before any other.
    """
    build, (metadata, *fields) = _split_schema(stored)
    nullable = {_read_number(field) for field in map(bytes.fromhex, staged.fields) if _is_nullable(field)}
    relaxed = [_make_nullable(field) if _read_number(field) in nullable else field for field in fields]
    return build(metadata, *relaxed) if relaxed != list(fields) else None


def build_freed_schema(staged: StagedWrite, stored: LanceSchema) -> LanceSchema | None:
    """Return the stored schema with temporary names for columns whose names other columns take; None if none does.

    Lance takes a column, old or new, that gets the name of another one for that other one, with a wrong field id.
    """
    build, (metadata, *fields) = _split_schema(stored)
    columns = [field for field in map(bytes.fromhex, staged.fields) if _is_column(field)]
    new_numbers = {read_text(field, _NAME_PART): _read_number(field) for field in columns}

    def free_name(field: bytes) -> bytes:
        number = _read_number(field)
        is_taken = _is_column(field) and new_numbers.get(read_text(field, _NAME_PART), number) != number
        return _replace_name(field, f"{_TEMPORARY_PREFIX}{number}") if is_taken else field

    freed = [free_name(field) for field in fields]
    return build(metadata, *freed) if freed != list(fields) else None


def list_field_numbers(schema: LanceSchema) -> set[int]:
    """Return the ids of all fields, including nested ones."""
    return {_read_number(field) for fields in _group_by_column(schema).values() for field in fields}


def _split_schema(schema: LanceSchema) -> tuple[Callable[..., LanceSchema], tuple[Any, ...]]:
    """Return the constructor of a Lance schema and its arguments: the metadata, and the bytes of each field."""
    # A pickled Lance schema consists of its serialized fields.
    reduced: Any = schema.__reduce__()
    return reduced[0], reduced[1]


def _list_new_files(table: LanceTable, fragment: FragmentMetadata, old_files: Collection[str]) -> list[str]:
    return [f"{table.path}/data/{file.path}" for file in fragment.files if file.path not in old_files]


def _fill_columns(
    table: LanceTable,
    columns: NewColumns,
    old_files: Collection[str],
    on_complete: Callable[[Sequence[str]], None],
) -> tuple[list[FragmentMetadata], dict[str, list[int]]]:
    """Write the filled columns; return all fragments with their new files, and the field ids of each column."""
    dataset = table.handles.open(table.path, table.version)
    # A column that is about to be dropped may have the name. Lance finds columns by field id, so any name will do here.
    names = {name: f"{_TEMPORARY_PREFIX}{name}" if name in dataset.schema.names else name for name in columns.fills}
    schema = pa.schema([columns.schema.field(name).with_name(names[name]) for name in columns.fills])

    def fill(batch: pa.RecordBatch) -> pa.RecordBatch:
        values = [repeat_scalar(scalar, batch.num_rows) for scalar in columns.fills.values()]
        arrays = [array.cast(field.type) for array, field in zip(values, schema, strict=True)]
        return pa.RecordBatch.from_arrays(arrays, schema=schema)

    fragments: list[FragmentMetadata] = []
    merged_schema: LanceSchema | None = None
    store = table.handles.store
    errors = translate_rewrite_errors(
        f"write columns of {table.path}", table.path, table.version, table.handles.explain
    )
    with attribute_requests(store.runtime.telemetry, "table"), errors:
        for fragment in dataset.get_fragments():
            # One column is enough: `fill` needs nothing but the number of rows.
            metadata, merged_schema = fragment.merge_columns(fill, columns=[dataset.schema.names[0]])
            on_complete(_list_new_files(table, metadata, old_files))
            stamped = stamp_fragment(store, table.path, metadata.to_json(), on_complete, old_files)
            fragments.append(FragmentMetadata.from_json(json.dumps(stamped)))
    assert merged_schema is not None  # noqa: S101 - the caller has checked that there is a fragment
    stored = _group_by_column(merged_schema)
    return fragments, {name: [_read_number(field) for field in stored[names[name]]] for name in columns.fills}


# --- serialized Lance fields (Protocol Buffers) ---------------------------------------------------------


def _group_by_column(schema: LanceSchema) -> dict[str, list[bytes]]:
    """Return the serialized fields of each column: its own, followed by those nested in it."""
    _, (_, *fields) = _split_schema(schema)
    groups: dict[str, list[bytes]] = {}
    current: list[bytes] = []
    for field in fields:
        if _is_column(field):
            current = groups[read_text(field, _NAME_PART)] = []
        current.append(field)
    return groups


def _iter_renumbered(schema: pa.Schema, numbers: Mapping[str, Sequence[int]], free: int) -> Iterator[bytes]:
    """Yield the fields of a schema with the ids in `numbers`; other columns get ids from `free` on."""
    for name, fields in _group_by_column(LanceSchema.from_pyarrow(schema)).items():
        new_ids = numbers.get(name)
        if new_ids is None:
            new_ids = range(free, free + len(fields))
            free += len(fields)
        renumbered = {_read_number(field): number for field, number in zip(fields, new_ids, strict=True)}
        for field in fields:
            parent = renumbered.get(_read_parent(field), _NO_PARENT)
            yield _replace_numbers(field, renumbered[_read_number(field)], parent)


def _replace_numbers(field: bytes, number: int, parent: int) -> bytes:
    retained = [(part, data) for part, data in iter_parts(field) if part not in (_NUMBER_PART, _PARENT_PART)]
    replaced = [encode_integer(_NUMBER_PART, number), encode_integer(_PARENT_PART, parent)]
    return join_parts([*retained, *replaced])


def _replace_name(field: bytes, name: str) -> bytes:
    retained = [(part, data) for part, data in iter_parts(field) if part != _NAME_PART]
    return join_parts([*retained, encode_text(_NAME_PART, name)])


def _is_column(field: bytes) -> bool:
    return _read_parent(field) == _NO_PARENT


def _make_nullable(field: bytes) -> bytes:
    if _is_nullable(field):
        return field
    return join_parts([*iter_parts(field), encode_integer(_NULLABLE_PART, 1)])


def _is_nullable(field: bytes) -> bool:
    return bool(read_signed(field, _NULLABLE_PART))


def _read_number(field: bytes) -> int:
    return read_signed(field, _NUMBER_PART)


def _read_parent(field: bytes) -> int:
    return read_signed(field, _PARENT_PART)
