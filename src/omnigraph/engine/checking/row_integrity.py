"""Check the stored rows of one type in one scan: ids, keys, values and unique groups."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.commit.requirements import select_complete
from omnigraph.engine.checking.duplicate_hashes import DuplicateHashes
from omnigraph.engine.checking.rule_violations import RuleViolation, ViolationCounter
from omnigraph.engine.constraints.unique import find_row_clashes
from omnigraph.engine.constraints.values import check_values
from omnigraph.engine.constraints.violations import ConstraintFindings, quote_value
from omnigraph.engine.row_ids import derive_ids
from omnigraph.schema.arrow import DST, ID, SRC, build_arrow_schema
from omnigraph.schema.catalog import AnyType, Property
from omnigraph.schema.types import EnumOf, Scalar, ValueType, VectorOf
from omnigraph.storage.column_hashing import Hashes, hash_rows
from omnigraph.storage.columnar_sets import concat_chunks, to_mask
from omnigraph.storage.lance_table import LanceTable, build_physical_schema

BATCH_ROWS = 65_536
# Up to this many rows that share a hash with another row are compared; beyond that, the count is a lower bound.
MAX_SUSPECTS = 1_000_000

# Called with the number of rows of each batch that was read.
Watch = Callable[[int], None]


def find_differing_columns(table: LanceTable, type_: AnyType) -> Iterator[str]:
    """Yield a message for each column that is missing, not declared, or of another type or vector size."""
    declared = {field.name: field.type for field in build_physical_schema(build_arrow_schema(type_))}
    stored = {field.name: field.type for field in table.schema}
    for name in sorted(declared.keys() | stored.keys()):
        expected = declared.get(name)
        actual = stored.get(name)
        if expected != actual:
            difference = f"it is {'missing' if actual is None else actual}, and should be {expected or 'not there'}"
            yield f"the column `{name}` of {type_.table_key}: {difference}"


@dataclass(frozen=True, slots=True)
class TableCheckResult:
    """The violations in one table, and the actual number of its rows."""

    rows: int
    violations: tuple[RuleViolation, ...]


def check_rows(
    table: LanceTable, type_: AnyType, *, is_deep: bool = False, on_progress: Watch = lambda _: None
) -> TableCheckResult:
    """Check the columns that rules of the type depend on, or with `is_deep` every column but blobs.

    Errors that Lance raises for damaged files are not translated.
    """
    ruled = _select_properties(type_, is_deep=is_deep)
    groups = [(ID,), *type_.unique]
    end_columns = [name for name in type_.key if name in (SRC, DST)]
    group_columns = [name for group in groups for name in group]
    names = [ID, *end_columns, *type_.key, *(p.name for p in ruled.properties), *group_columns]
    violations = ViolationCounter(type_.name)
    rows = 0
    with ExitStack() as stack:
        hashes = [stack.enter_context(DuplicateHashes()) for _ in groups]
        for batch in table.iter_batches(list(dict.fromkeys(names)), batch_rows=BATCH_ROWS):
            chunk = pa.Table.from_batches([batch])
            rows += chunk.num_rows
            _check_ids(type_, chunk, violations)
            _check_values(ruled, chunk, violations, is_deep=is_deep)
            # Only hashes are collected here: 8 bytes per row and group, whatever the size of the values.
            for columns, group_hashes in zip(groups, hashes, strict=True):
                group = select_complete(chunk.select(list(columns)), columns)
                group_hashes.add(hash_rows(group.columns) if group.num_rows else np.empty(0, np.uint64))
            on_progress(chunk.num_rows)
        for columns, group_hashes in zip(groups, hashes, strict=True):
            shared = group_hashes.find_duplicates()
            if len(shared):
                _check_repeated(table, type_, columns, shared, violations)
    return TableCheckResult(rows, tuple(violations.list_violations()))


def _select_properties(type_: AnyType, *, is_deep: bool) -> AnyType:
    """Return the type with only the properties that the check reads."""
    ruled = {limits.property for limits in type_.ranges} | {rule.property for rule in type_.checks}
    properties = [
        p
        for p in type_.properties
        if p.type is not Scalar.BLOB and (is_deep or p.name in ruled or isinstance(p.type, EnumOf))
    ]
    return replace(type_, properties=tuple(properties))


def _check_ids(type_: AnyType, rows: pa.Table, violations: ViolationCounter) -> None:
    ids = rows.column(ID)
    violations.add("id_null", ids.null_count, ("a row has no id",))
    if not type_.key:
        return
    keys = [concat_chunks(rows.column(name)) for name in type_.key]
    # Only complete rows: a missing id was counted above, and an incomplete key has no id.
    is_complete = np.ones(rows.num_rows, np.bool_)
    for column in (concat_chunks(ids), *keys):
        is_complete &= to_mask(column.is_valid())
    selection = pa.array(is_complete)
    types = [_get_type(type_, name) for name in type_.key]
    derived = derive_ids(types, [column.filter(selection) for column in keys])
    stored = concat_chunks(ids).filter(selection)
    differs = pc.indices_nonzero(pc.not_equal(derived, stored))
    examples = (
        f"{type_.name} {quote_value(stored[row].as_py())} has the key of {quote_value(derived[row].as_py())}"
        for row in differs.to_pylist()
    )
    violations.add("id_not_of_key", len(differs), examples)


def _get_type(type_: AnyType, name: str) -> ValueType:
    # The ends of an edge may be part of its key; they are ids, not properties.
    declared = type_.find_property(name)
    return Scalar.STRING if declared is None else declared.type


def _check_values(ruled: AnyType, rows: pa.Table, violations: ViolationCounter, *, is_deep: bool) -> None:
    if not ruled.properties:
        return
    findings = ConstraintFindings()
    check_values(ruled, rows, findings)
    for violation in findings.violations:
        violations.add(violation.rule, 1, (violation.message,))
    if is_deep:
        for p in ruled.properties:
            count = _count_not_finite(p, concat_chunks(rows.column(p.name)))
            violations.add("finite", count, (f"{ruled.name}.{p.name}: a value is not a finite number",))


def _count_not_finite(p: Property, column: pa.Array) -> int:
    if isinstance(p.type, VectorOf):
        column = column.drop_null().flatten()
    elif p.type not in (Scalar.F32, Scalar.F64):
        return 0
    return int(pc.sum(pc.invert(pc.is_finite(column))).as_py() or 0)


# --- duplicate rows --------------------------------------------------------------------------------------


def _check_repeated(
    table: LanceTable, type_: AnyType, columns: tuple[str, ...], shared: Hashes, violations: ViolationCounter
) -> None:
    """Compare the rows that share a hash, and add those that are duplicates to the violations."""
    # Different rows can have the same hash, although hardly ever: values decide.
    suspects = pa.concat_tables(_iter_suspects(table, columns, shared))
    clashes = find_row_clashes(type_, columns, suspects)
    if columns == (ID,):
        repeated = (f"{type_.name} {quote_value(row_id.as_py())} is there twice" for row_id in clashes.ids)
        violations.add("id_repeated", len(clashes), repeated)
    else:
        # `map` is lazy: only the first few examples are formatted.
        violations.add("unique", len(clashes), map(clashes.format_violation, range(len(clashes))))


def _iter_suspects(table: LanceTable, columns: tuple[str, ...], shared: Hashes) -> Iterator[pa.Table]:
    names = list(dict.fromkeys([ID, *columns]))
    count = 0
    for batch in table.iter_batches(names, batch_rows=BATCH_ROWS):
        rows = select_complete(pa.Table.from_batches([batch]), columns)
        if rows.num_rows:
            rows = rows.filter(pa.array(np.isin(hash_rows(rows.select(list(columns)).columns), shared)))
        yield rows
        count += rows.num_rows
        if count > MAX_SUSPECTS:
            return
