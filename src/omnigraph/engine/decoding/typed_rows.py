"""Rows of one type from decoded columns: required values checked, ids assigned, in the schema of the table."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import repeat
from operator import is_
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from msgspec import UNSET, UnsetType

from omnigraph.engine.constraints.values import find_broken_values
from omnigraph.engine.decoding.json_columns import DecodedColumn, decode_json_column
from omnigraph.engine.decoding.object_decoder import Columns
from omnigraph.engine.decoding.record_error import RECORD_RULE, FurtherProblem, RecordError
from omnigraph.engine.row_ids import derive_ids, generate_ids
from omnigraph.engine.writing.blob_claims import find_unreadable_claims
from omnigraph.ids import Ids
from omnigraph.schema.arrow import DST, ID, SRC, build_arrow_schema, to_arrow_type
from omnigraph.schema.catalog import AnyType, EdgeType, Property
from omnigraph.schema.types import Scalar
from omnigraph.schema.values import describe_type, format_value, to_json
from omnigraph.storage.blob_sources import NO_SOURCES, BlobSources

FROM, TO = "from", "to"
EXTERNAL_NAMES = {SRC: FROM, DST: TO}

RejectedRecord: TypeAlias = tuple[RecordError, bytes]


@dataclass(frozen=True, slots=True, kw_only=True)
class TypedRows:
    """Some records of one type.

    `rows` has the columns of the type's table, in order, and `lines` the line of each row. A property that a record
    omits has its default in `rows`, or null. `left_out` distinguishes it from an explicit null: a mask, true where the
    property was omitted, for each property that at least one record omits; and for `id` where a new one was generated.
    """

    type: AnyType
    rows: pa.Table
    lines: pa.Array
    left_out: Mapping[str, pa.Array]


@dataclass(frozen=True, slots=True, kw_only=True)
class DecodedRows:
    """Decoded columns before validation: the properties, `id`, and for an edge `from` and `to`."""

    lines: npt.NDArray[np.int64]
    columns: Mapping[str, DecodedColumn]

    def count_values(self) -> npt.NDArray[np.int64]:
        """Count the values that each row does not omit."""
        counts = np.full(len(self.lines), len(self.columns))
        for column in self.columns.values():
            if column.left_out is not None:
                counts -= column.left_out.to_numpy(zero_copy_only=False)
        return counts

    def filter(self, is_kept: npt.NDArray[np.bool_]) -> "DecodedRows":
        """Return only these rows."""
        if is_kept.all():
            return self
        chosen, places = pa.array(is_kept), np.cumsum(is_kept) - 1
        columns = {
            name: DecodedColumn(
                array=column.array.filter(chosen),
                misfits={int(places[row]): misfit for row, misfit in column.misfits.items() if is_kept[row]},
                left_out=None if column.left_out is None else column.left_out.filter(chosen),
            )
            for name, column in self.columns.items()
        }
        return DecodedRows(lines=self.lines[is_kept], columns=columns)


@dataclass(frozen=True, slots=True, kw_only=True)
class RowOrigin:
    """The origin of rows, for messages, and how to treat them.

    With `is_partial`, a required property may be omitted unless it is part of the key: in a merge the stored row may
    have it. `blobs` are the locations that a Blob's URI may refer to.
    """

    file: str
    unit: str = "line"
    is_partial: bool = False
    blobs: BlobSources = NO_SOURCES


Problems: TypeAlias = dict[int, list[tuple[str | None, str | None, str]]]
"""The problems of each row that has any: property, value, reason."""


# --- columns -----------------------------------------------------------------------------------------


def list_id_columns(type_: AnyType) -> tuple[str, ...]:
    """List the fields of a record that hold ids, in the order in which they are checked."""
    return (FROM, TO, ID) if isinstance(type_, EdgeType) else (ID,)


def _list_columns(type_: AnyType) -> tuple[Property, ...]:
    ids = [Property(name=name, type=Scalar.STRING, nullable=True) for name in list_id_columns(type_)]
    return (*ids, *type_.properties)


def decode_rows(type_: AnyType, lines: npt.NDArray[np.int64], columns: Columns) -> DecodedRows:
    """Decode the JSON values of records: their ids and properties."""
    return DecodedRows(
        lines=lines, columns={p.name: _decode_property(p, columns[p.name]) for p in _list_columns(type_)}
    )


def decode_values(type_: AnyType, lines: Sequence[int], records: Sequence[Mapping[str, object]]) -> DecodedRows:
    """Decode records with their JSON values by name."""
    columns: Columns = {p.name: [record.get(p.name, UNSET) for record in records] for p in _list_columns(type_)}
    return decode_rows(type_, np.array(lines, np.int64), columns)


def _decode_property(p: Property, values: list[object]) -> DecodedColumn:
    """Decode a property's JSON values into a column; an omitted value becomes the default, or null."""
    kinds = set(map(type, values))
    if UnsetType not in kinds:
        return decode_json_column(p.type, values, kinds)
    is_absent = np.fromiter(map(is_, values, repeat(UNSET)), bool, len(values))
    default = to_json(p.type, p.default) if p.has_default else None
    column = decode_json_column(p.type, [default if value is UNSET else value for value in values])
    return replace(column, left_out=pa.array(is_absent))


def decode_placed(
    type_: AnyType, placed: Mapping[str, int], rows: int, decode: Callable[[Property, int], DecodedColumn]
) -> dict[str, DecodedColumn]:
    """Decode the columns of a source that has them at these places, and add those that it lacks."""
    return {
        p.name: decode(p, placed[p.name]) if p.name in placed else _build_absent_column(p, rows)
        for p in _list_columns(type_)
    }


def _build_absent_column(p: Property, rows: int) -> DecodedColumn:
    """Build the column of a property that no record has."""
    left_out = pa.array(np.ones(rows, bool))
    if not p.has_default or p.default is None:
        return DecodedColumn(array=pa.nulls(rows, to_arrow_type(p.type)), left_out=left_out)
    one = decode_json_column(p.type, [to_json(p.type, p.default)]).array
    return DecodedColumn(array=one.take(pa.array(np.zeros(rows, np.int64))), left_out=left_out)


def concat_rows(parts: Sequence[DecodedRows]) -> DecodedRows:
    """Concatenate the rows of all parts, sorted by line."""
    if len(parts) == 1:
        return parts[0]
    lines = np.concatenate([part.lines for part in parts])
    order = np.argsort(lines, kind="stable")
    places = np.empty_like(order)
    places[order] = np.arange(len(order))
    is_in_order = bool((order == np.arange(len(order))).all())
    starts = np.cumsum([0, *(len(part.lines) for part in parts)])
    columns: dict[str, DecodedColumn] = {}
    for name in parts[0].columns:
        filled = [part.columns[name] for part in parts]
        array = pa.concat_arrays([one.array for one in filled])
        left_out = None
        if any(one.left_out is not None for one in filled):
            left_out = pa.concat_arrays([_get_absent_mask(one) for one in filled])
        misfits = {
            int(places[start + row]): misfit
            for start, one in zip(starts, filled, strict=False)
            for row, misfit in one.misfits.items()
        }
        if not is_in_order:
            chosen = pa.array(order)
            array, left_out = array.take(chosen), None if left_out is None else left_out.take(chosen)
        columns[name] = DecodedColumn(array=array, misfits=misfits, left_out=left_out)
    return DecodedRows(lines=lines[order], columns=columns)


def _get_absent_mask(column: DecodedColumn) -> pa.Array:
    return pa.array(np.zeros(len(column.array), bool)) if column.left_out is None else column.left_out


# --- rows --------------------------------------------------------------------------------------------


def validate_rows(
    type_: AnyType, read: DecodedRows, origin: RowOrigin, ids: Ids, text_of: Callable[[int], bytes]
) -> tuple[TypedRows, list[RejectedRecord]]:
    """Validate rows: return the valid ones with their ids, and the others with their errors, both in input order.

    `text_of` returns the text of a record by its line.
    """
    rejected: list[RejectedRecord] = []
    problems = _find_problems(type_, read, origin)
    if problems:
        read = _reject_rows(type_, read, problems, origin, rejected, text_of)
    own = {name: read.columns[name].array for name in list_id_columns(type_)}
    own[ID] = _build_ids(type_, read, ids)
    problems = _find_id_problems(type_, read, own[ID])
    if problems:
        is_kept = np.ones(len(read.lines), bool)
        is_kept[list(problems)] = False
        own = {name: array.filter(pa.array(is_kept)) for name, array in own.items()}
        read = _reject_rows(type_, read, problems, origin, rejected, text_of)
    schema = build_arrow_schema(type_)
    arrays = [own[name] if name in own else read.columns[name].array for name in map(_to_external_name, schema.names)]
    names = [p.name for p in type_.properties] if type_.key else [ID, *(p.name for p in type_.properties)]
    masks = {name: read.columns[name].left_out for name in names}
    rows = TypedRows(
        type=type_,
        rows=pa.Table.from_arrays(arrays, schema=schema),
        lines=pa.array(read.lines),
        left_out={name: mask for name, mask in masks.items() if mask is not None and mask.true_count},
    )
    return rows, sorted(rejected, key=lambda one: one[0].line)


def _to_external_name(name: str) -> str:
    return EXTERNAL_NAMES.get(name, name)


def _reject_rows(
    type_: AnyType,
    read: DecodedRows,
    problems: Problems,
    origin: RowOrigin,
    rejected: list[RejectedRecord],
    text_of: Callable[[int], bytes],
) -> DecodedRows:
    broken = _find_broken_values(type_, read, list(problems))
    for row, ((name, value, reason), *others) in problems.items():
        line = int(read.lines[row])
        error = RecordError(origin.file, line, type_.name, name, value, reason, origin.unit)
        error.with_more(FurtherProblem(RECORD_RULE, *other) for other in others)
        rejected.append((error.with_more(broken.get(row, ())), text_of(line)))
    is_kept = np.ones(len(read.lines), bool)
    is_kept[list(problems)] = False
    return read.filter(is_kept)


def _find_broken_values(type_: AnyType, read: DecodedRows, rows: list[int]) -> dict[int, list[FurtherProblem]]:
    """Return the rules over single values that rejected rows break too."""
    positions = pa.array(rows, pa.int64())
    own = {name: read.columns[name].array.take(positions) for name in list_id_columns(type_)}
    columns = {p.name: read.columns[p.name].array.take(positions) for p in type_.properties}
    names = build_arrow_schema(type_).names
    arrays = [own.get(_to_external_name(name), columns.get(name)) for name in names]
    broken: dict[int, list[FurtherProblem]] = {}
    for value in find_broken_values(type_, pa.Table.from_arrays(arrays, names=names)):
        # The size is that of the whole record, whose other values may be missing here.
        if value.rule != "size":
            text = format_value(value.value, is_typed=True)
            problem = FurtherProblem(value.rule, value.property, text, value.message)
            broken.setdefault(rows[value.row], []).append(problem)
    return broken


def find_further_problems(type_: AnyType, values: Mapping[str, object], origin: RowOrigin) -> list[FurtherProblem]:
    """Return the problems of a record's known properties, where it is rejected for another reason."""
    read = decode_values(type_, [1], [values])
    problems = [FurtherProblem(RECORD_RULE, *problem) for problem in _find_problems(type_, read, origin).get(0, ())]
    return problems + _find_broken_values(type_, read, [0]).get(0, [])


def _find_problems(type_: AnyType, read: DecodedRows, origin: RowOrigin) -> Problems:
    problems: Problems = {}
    for name in list_id_columns(type_):
        _check_ids(name, read.columns[name], problems)
    for p in type_.properties:
        column = read.columns[p.name]
        for row, (value, reason) in column.misfits.items():
            problems.setdefault(row, []).append((p.name, value, reason))
        if p.type is Scalar.BLOB:
            for row, (uri, reason) in find_unreadable_claims(column.array, origin.blobs).items():
                problems.setdefault(row, []).append((p.name, format_value(uri), reason))
        if column.array.null_count and not p.nullable:
            _check_present(p, column, problems, may_be_absent=origin.is_partial and p.name not in type_.key)
    return problems


def _check_present(p: Property, column: DecodedColumn, problems: Problems, *, may_be_absent: bool) -> None:
    for row, is_absent in _find_nulls(column, may_be_absent=may_be_absent):
        if is_absent:
            problems.setdefault(row, []).append((p.name, None, f"a value is required: {describe_type(p.type)}"))
        else:
            problems.setdefault(row, []).append((p.name, "null", f"expected {describe_type(p.type)}, got null"))


def _check_ids(name: str, column: DecodedColumn, problems: Problems) -> None:
    for row, (value, reason) in column.misfits.items():
        problems.setdefault(row, []).append((name, value, reason))
    for row in pc.indices_nonzero(pc.equal(column.array, "")).to_pylist():
        problems.setdefault(row, []).append((name, '""', "an id is not empty"))
    if column.array.null_count:
        for row, is_absent in _find_nulls(column, may_be_absent=name == ID):
            if is_absent:
                problems.setdefault(row, []).append((name, None, f"an edge needs `{name}`, the id of a node"))
            else:
                problems.setdefault(row, []).append((name, "null", "expected a string, got null"))


def _find_nulls(column: DecodedColumn, *, may_be_absent: bool) -> list[tuple[int, bool]]:
    """Find the rows without a value that is not a misfit, and whether each was omitted rather than null."""
    is_null = column.array.is_null()
    if column.left_out is None:
        return [(row, False) for row in pc.indices_nonzero(is_null).to_pylist() if row not in column.misfits]
    if may_be_absent:
        is_null = pc.and_not(is_null, column.left_out)
    rows = pc.indices_nonzero(is_null)
    pairs = zip(rows.to_pylist(), column.left_out.take(rows).to_pylist(), strict=True)
    return [(row, is_absent) for row, is_absent in pairs if row not in column.misfits]


# --- ids ---------------------------------------------------------------------------------------------


def _build_ids(type_: AnyType, read: DecodedRows, ids: Ids) -> pa.Array:
    if type_.key:
        columns = [read.columns[_to_external_name(name)].array for name in type_.key]
        types = [p.type if (p := type_.find_property(name)) else Scalar.STRING for name in type_.key]
        return derive_ids(types, columns)
    given = read.columns[ID].array
    if not given.null_count:
        return given
    made = generate_ids(ids, given.null_count)
    return made if len(made) == len(given) else pc.replace_with_mask(given, given.is_null(), made)


def _find_id_problems(type_: AnyType, read: DecodedRows, ids: pa.Array) -> Problems:
    problems: Problems = {}
    if not type_.key:
        return problems
    key = ", ".join(map(_to_external_name, type_.key))
    for row in pc.indices_nonzero(pc.equal(ids, "")).to_pylist():
        problems[row] = [(key, '""', "the key is empty, and the id is made of it")]
    given = read.columns[ID].array
    if given.null_count == len(given):
        return problems
    for row in pc.indices_nonzero(pc.not_equal(given, ids)).to_pylist():
        has, derived = given[row].as_py(), ids[row].as_py()
        reason = (
            f"the id {format_value(has)} does not agree with the key ({key}), which makes it {format_value(derived)}"
        )
        problems.setdefault(row, []).append((ID, format_value(has), reason))
    return problems
