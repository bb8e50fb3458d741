"""Rules that a row keeps or breaks on its own: required, enum, range, check, size."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.engine.writing.record_size import (
    MAX_BLOB_BYTES,
    MAX_RECORD_BYTES,
    find_oversized_blobs,
    find_oversized_records,
)
from omnigraph.engine.writing.stale_embeddings import format_missing_value
from omnigraph.engine.writing.violations import ConstraintFindings, quote_value
from omnigraph.schema.arrow import DST, ID, SRC
from omnigraph.schema.catalog import AnyType, CheckRule, Property, RangeRule
from omnigraph.schema.regex import compile_pattern
from omnigraph.schema.types import EnumOf

_MAX_LISTED_VALUES = 20
_ENDS = {SRC: "from", DST: "to"}
"""What records call these columns."""


@dataclass(frozen=True, slots=True)
class BrokenValue:
    """A value of one row that breaks a rule; `row` is the row's position."""

    row: int
    rule: str
    property: str
    value: object
    message: str


def check_values(type_: AnyType, rows: pa.Table, findings: ConstraintFindings) -> None:
    """Every rule over single values, for all rows at once."""
    broken = [one for prop in type_.properties for one in _find_missing(type_, prop, rows)]
    broken += find_broken_values(type_, rows)
    if broken:
        ids = rows.column(ID).take(pa.array([one.row for one in broken])).to_pylist()
        for one, row_id in zip(broken, ids, strict=True):
            findings.add(one.rule, type_.name, row_id, one.message, (one.property,))


def find_broken_values(type_: AnyType, rows: pa.Table) -> list[BrokenValue]:
    """Every rule over values that are there: enum, range, check, size. A row may break several."""
    found = [
        one
        for prop in type_.properties
        if isinstance(prop.type, EnumOf)
        for one in _find_outside_enum(type_, prop, prop.type, rows)
    ]
    found += [one for limits in type_.ranges for one in _find_outside_range(type_, limits, rows)]
    found += [one for rule in type_.checks for one in _find_pattern_mismatches(type_, rule, rows)]
    found += _find_oversized(type_, rows)
    return found


def _find_missing(type_: AnyType, prop: Property, rows: pa.Table) -> Iterator[BrokenValue]:
    if prop.nullable or not rows.column(prop.name).null_count:
        return
    ids = rows.column(ID)
    for row, _ in _find_offending(rows, prop.name, pc.is_null):
        yield BrokenValue(row, "required", prop.name, None, format_missing_value(type_, prop, ids[row].as_py()))


def _find_outside_enum(type_: AnyType, prop: Property, enum: EnumOf, rows: pa.Table) -> Iterator[BrokenValue]:
    allowed = pa.array(enum.values, pa.string())
    known = ", ".join(enum.values[:_MAX_LISTED_VALUES]) + (", …" if len(enum.values) > _MAX_LISTED_VALUES else "")
    for row, value in _find_offending(rows, prop.name, lambda column: _is_none_of(column, allowed)):
        message = f"invalid enum value {quote_value(value)} for {type_.name}.{prop.name} (expected: {known})"
        yield BrokenValue(row, "enum", prop.name, value, message)


def _is_none_of(column: pa.ChunkedArray, allowed: pa.Array) -> pa.ChunkedArray:
    return pc.and_(pc.is_valid(column), pc.invert(pc.is_in(column, value_set=allowed)))


def _find_outside_range(type_: AnyType, limits: RangeRule, rows: pa.Table) -> Iterator[BrokenValue]:
    arrow = rows.schema.field(limits.property).type
    sides: tuple[tuple[object, str, str, Callable[..., pa.ChunkedArray]], ...] = (
        (limits.low, "<", "min", pc.less),
        (limits.high, ">", "max", pc.greater),
    )
    for bound, sign, name, is_beyond in sides:
        if bound is None:
            continue
        scalar = pa.scalar(bound, arrow)
        beyond = lambda column, test=is_beyond, limit=scalar: test(column, limit)  # noqa: E731 - bound now, not later
        for row, value in _find_offending(rows, limits.property, beyond):
            where = f"{type_.name}.{limits.property}"
            message = f"@range violation on {where}: {quote_value(value)} {sign} {name} {quote_value(bound)}"
            yield BrokenValue(row, "range", limits.property, value, message)


def _find_pattern_mismatches(type_: AnyType, rule: CheckRule, rows: pa.Table) -> Iterator[BrokenValue]:
    pattern = compile_pattern(rule.pattern)
    column = rows.column(rule.property)
    unfit = [value for value in column.unique().to_pylist() if value is not None and pattern.search(value) is None]
    if not unfit:
        return
    broken = pa.array(unfit, pa.string())
    for row, value in _find_offending(rows, rule.property, lambda values: pc.is_in(values, value_set=broken)):
        where = f"{type_.name}.{rule.property}"
        message = f'@check violation on {where}: {quote_value(value)} does not match "{rule.pattern}"'
        yield BrokenValue(row, "check", rule.property, value, message)


def _find_oversized(type_: AnyType, rows: pa.Table) -> Iterator[BrokenValue]:
    ids = rows.column(ID)
    for one in find_oversized_records(type_, rows):
        message = (
            f"{type_.name} {quote_value(ids[one.row].as_py())} has {one.size} bytes as a record, and {MAX_RECORD_BYTES} is"
            f" the most; `{_ENDS.get(one.column, one.column)}` has most of them: shorten it, or keep it in a Blob"
        )
        value = rows.column(one.column)[one.row].as_py()
        yield BrokenValue(one.row, "size", _ENDS.get(one.column, one.column), value, message)
    for one in find_oversized_blobs(type_, rows):
        message = (
            f"{type_.name}.{one.column} of {quote_value(ids[one.row].as_py())} has {one.size} bytes, and"
            f" {MAX_BLOB_BYTES} is the most for a Blob; keep it in parts"
        )
        yield BrokenValue(one.row, "size", one.column, None, message)


def _find_offending(
    rows: pa.Table, name: str, test: Callable[[pa.ChunkedArray], pa.ChunkedArray]
) -> Iterator[tuple[int, object]]:
    """The position and value of every row whose value fails; the test is true where it does."""
    column = rows.column(name)
    places = pc.indices_nonzero(test(column))
    return zip(places.to_pylist(), column.take(places).to_pylist(), strict=True)
