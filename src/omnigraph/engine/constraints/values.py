"""Check the rules that concern a single row: required, enum, `@range`, `@check`, and record size."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.engine.constraints.record_size import (
    MAX_BLOB_BYTES,
    MAX_RECORD_BYTES,
    find_oversized_blobs,
    find_oversized_records,
)
from omnigraph.engine.constraints.violations import ConstraintFindings, quote_value
from omnigraph.schema.arrow import END_NAMES, ID
from omnigraph.schema.catalog import AnyType, CheckRule, Property, RangeRule
from omnigraph.schema.regex import compile_pattern
from omnigraph.schema.types import EnumOf

# Values of an enum that a message lists.
_MAX_LISTED_VALUES = 20


@dataclass(frozen=True, slots=True)
class BrokenValue:
    """A value of one row that breaks a rule; `row` is the row's position."""

    row: int
    rule: str
    property: str
    value: object
    message: str


def check_values(type_: AnyType, rows: pa.Table, findings: ConstraintFindings) -> None:
    """Check every rule over single values, column by column, and add the violations to `findings`."""
    broken = [missing for prop in type_.properties for missing in _find_missing(type_, prop, rows)]
    broken += find_broken_values(type_, rows)
    if broken:
        ids = rows.column(ID).take(pa.array([value.row for value in broken])).to_pylist()
        for value, row_id in zip(broken, ids, strict=True):
            findings.add(value.rule, type_.name, row_id, value.message, (value.property,))


def find_broken_values(type_: AnyType, rows: pa.Table) -> list[BrokenValue]:
    """Return the values that break a rule over present values: enum, range, check, size. A row may break several."""
    broken: list[BrokenValue] = []
    for prop in type_.properties:
        if isinstance(prop.type, EnumOf):
            broken += _find_outside_enum(type_, prop, prop.type, rows)
    for limits in type_.ranges:
        broken += _find_outside_range(type_, limits, rows)
    for rule in type_.checks:
        broken += _find_pattern_mismatches(type_, rule, rows)
    broken += _find_oversized(type_, rows)
    return broken


def _find_missing(type_: AnyType, prop: Property, rows: pa.Table) -> Iterator[BrokenValue]:
    if prop.nullable or not rows.column(prop.name).null_count:
        return
    ids = rows.column(ID)
    for row, _ in _find_offending(rows, prop.name, pc.is_null):
        yield BrokenValue(row, "required", prop.name, None, format_missing_value(type_, prop, ids[row].as_py()))


def _find_outside_enum(type_: AnyType, prop: Property, enum: EnumOf, rows: pa.Table) -> Iterator[BrokenValue]:
    allowed = pa.array(enum.values, pa.string())
    listed = ", ".join(enum.values[:_MAX_LISTED_VALUES]) + (", …" if len(enum.values) > _MAX_LISTED_VALUES else "")
    for row, value in _find_offending(rows, prop.name, lambda column: _is_none_of(column, allowed)):
        message = f"invalid enum value {quote_value(value)} for {type_.name}.{prop.name} (expected: {listed})"
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
    # The pattern runs once per distinct value; Arrow then finds the rows.
    values = column.unique().to_pylist()
    mismatches = [value for value in values if value is not None and pattern.search(value) is None]
    if not mismatches:
        return
    value_set = pa.array(mismatches, pa.string())
    for row, value in _find_offending(rows, rule.property, lambda column: pc.is_in(column, value_set=value_set)):
        where = f"{type_.name}.{rule.property}"
        message = f'@check violation on {where}: {quote_value(value)} does not match "{rule.pattern}"'
        yield BrokenValue(row, "check", rule.property, value, message)


def _find_oversized(type_: AnyType, rows: pa.Table) -> Iterator[BrokenValue]:
    ids = rows.column(ID)
    for record in find_oversized_records(type_, rows):
        column = END_NAMES.get(record.column, record.column)
        message = (
            f"{type_.name} {quote_value(ids[record.row].as_py())} has {record.size} bytes as a record, but the limit is"
            f" {MAX_RECORD_BYTES}; `{column}` has most of them: shorten it, or store it in a Blob"
        )
        value = rows.column(record.column)[record.row].as_py()
        yield BrokenValue(record.row, "size", column, value, message)
    for blob in find_oversized_blobs(type_, rows):
        message = (
            f"{type_.name}.{blob.column} of {quote_value(ids[blob.row].as_py())} has {blob.size} bytes, but the limit"
            f" of a Blob is {MAX_BLOB_BYTES}; split it into several"
        )
        # No value: the column has a reference here, or bytes that are too many to show.
        yield BrokenValue(blob.row, "size", blob.column, None, message)


def _find_offending(
    rows: pa.Table, name: str, test: Callable[[pa.ChunkedArray], pa.ChunkedArray]
) -> Iterator[tuple[int, object]]:
    """Iterate over the position and value of every row that breaks a rule, where `test` is true."""
    column = rows.column(name)
    # Only the few rows that break the rule become Python values.
    positions = pc.indices_nonzero(test(column))
    return zip(positions.to_pylist(), column.take(positions).to_pylist(), strict=True)


def format_missing_value(type_: AnyType, p: Property, row_id: str) -> str:
    """Format the message about a row that lacks the value of a required property."""
    message = f"{type_.name}.{p.name} is required, but {quote_value(row_id)} has none"
    return message if p.embedding is None else f"{message}; {_format_remedy(type_, p)}"


def _format_remedy(type_: AnyType, p: Property) -> str:
    """Format how to resolve a required vector that is missing."""
    assert p.embedding is not None  # noqa: S101 - callers pass embedded vectors only
    return (
        f"give it together with `{p.embedding.source}`, or declare it nullable (`{p.type}?`)"
        f" and let `omnigraph embed --type {type_.name}` compute it"
    )
