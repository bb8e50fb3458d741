"""Rules that a row keeps or breaks on its own: required, enum, range, check."""

from collections.abc import Callable, Iterator

import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.engine.violations import Findings, quoted
from omnigraph.schema.arrow import ID
from omnigraph.schema.catalog import AnyType, CheckRule, Property, RangeRule
from omnigraph.schema.patterns import compile_pattern
from omnigraph.schema.types import EnumOf

_MOST_VALUES = 20


def check_values(type_: AnyType, rows: pa.Table, findings: Findings) -> None:
    """Every rule over single values, for all rows at once."""
    for prop in type_.properties:
        _check_required(type_, prop, rows, findings)
        if isinstance(prop.type, EnumOf):
            _check_enum(type_, prop, prop.type, rows, findings)
    for limits in type_.ranges:
        _check_range(type_, limits, rows, findings)
    for rule in type_.checks:
        _check_pattern(type_, rule, rows, findings)


def _check_required(type_: AnyType, prop: Property, rows: pa.Table, findings: Findings) -> None:
    if prop.nullable:
        return
    for row_id, _ in _offending(rows, prop.name, pc.is_null):
        findings.add(
            "required", type_.name, row_id, f"{type_.name}.{prop.name} is required, but {quoted(row_id)} has none"
        )


def _check_enum(type_: AnyType, prop: Property, enum: EnumOf, rows: pa.Table, findings: Findings) -> None:
    allowed = pa.array(enum.values, pa.string())
    known = ", ".join(enum.values[:_MOST_VALUES]) + (", …" if len(enum.values) > _MOST_VALUES else "")
    for row_id, value in _offending(rows, prop.name, lambda column: _is_none_of(column, allowed)):
        message = f"invalid enum value {quoted(value)} for {type_.name}.{prop.name} (expected: {known})"
        findings.add("enum", type_.name, row_id, message)


def _is_none_of(column: pa.ChunkedArray, allowed: pa.Array) -> pa.ChunkedArray:
    return pc.and_(pc.is_valid(column), pc.invert(pc.is_in(column, value_set=allowed)))


def _check_range(type_: AnyType, limits: RangeRule, rows: pa.Table, findings: Findings) -> None:
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
        for row_id, value in _offending(rows, limits.property, beyond):
            where = f"{type_.name}.{limits.property}"
            message = f"@range violation on {where}: {quoted(value)} {sign} {name} {quoted(bound)}"
            findings.add("range", type_.name, row_id, message)


def _check_pattern(type_: AnyType, rule: CheckRule, rows: pa.Table, findings: Findings) -> None:
    pattern = compile_pattern(rule.pattern)
    column = rows.column(rule.property)
    unfit = [value for value in column.unique().to_pylist() if value is not None and pattern.search(value) is None]
    if not unfit:
        return
    broken = pa.array(unfit, pa.string())
    for row_id, value in _offending(rows, rule.property, lambda values: pc.is_in(values, value_set=broken)):
        where = f"{type_.name}.{rule.property}"
        message = f'@check violation on {where}: {quoted(value)} does not match "{rule.pattern}"'
        findings.add("check", type_.name, row_id, message)


def _offending(
    rows: pa.Table, name: str, test: Callable[[pa.ChunkedArray], pa.ChunkedArray]
) -> Iterator[tuple[str, object]]:
    """The id and value of every row whose value fails; the test is true where it does."""
    found = rows.select([ID, name]).filter(test(rows.column(name)), null_selection_behavior="drop")
    return zip(found.column(0).to_pylist(), found.column(1).to_pylist(), strict=True)
