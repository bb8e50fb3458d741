"""The rows of one type, each looked at once: ids, keys, values, unique groups."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.commit.requirements import normalize_zeros
from omnigraph.engine.checking.duplicate_hashes import DuplicateHashes
from omnigraph.engine.checking.rule_violations import RuleViolation, ViolationCounter
from omnigraph.engine.decoding.row_ids import derive_ids
from omnigraph.engine.writing.unique import format_unique_violation, get_row
from omnigraph.engine.writing.value_rules import check_values
from omnigraph.engine.writing.violations import ConstraintFindings, quote_value
from omnigraph.schema.arrow import DST, ID, SRC, build_arrow_schema
from omnigraph.schema.catalog import AnyType, Property
from omnigraph.schema.types import EnumOf, Scalar, ValueType, VectorOf
from omnigraph.storage.column_hashing import Hashes, hash_rows
from omnigraph.storage.columnar_sets import concat_chunks, find_duplicates, to_mask
from omnigraph.storage.lance_table import LanceTable, build_physical_schema


def find_differing_columns(table: LanceTable, type_: AnyType) -> Iterator[str]:
    """What is said of each column that is missing, too many, or of another type; a vector's size is part of that."""
    declared = {one.name: one.type for one in build_physical_schema(build_arrow_schema(type_))}
    there = {one.name: one.type for one in table.schema}
    for name in sorted(declared.keys() | there.keys()):
        expected, found = declared.get(name), there.get(name)
        if expected != found:
            told = f"it is {'missing' if found is None else found}, and should be {expected or 'not there'}"
            yield f"the column `{name}` of {type_.table_key}: {told}"


BATCH_ROWS = 65_536
MAX_SUSPECTS = 1_000_000
"""So many rows that share a hash with another are compared; beyond that, what is counted is a lower bound."""

Watch = Callable[[int], None]
"""Is told of rows as they are read."""


@dataclass(frozen=True, slots=True)
class TableCheckResult:
    """What was found in one table, and how many rows it really has."""

    rows: int
    violations: tuple[RuleViolation, ...]


def check_rows(
    table: LanceTable, type_: AnyType, *, is_deep: bool = False, on_progress: Watch = lambda _: None
) -> TableCheckResult:
    """Read what the rules of the type are about, or `is_deep` every column but blobs.

    Whatever Lance raises over damaged files is raised as it comes.
    """
    ruled = _select_properties(type_, is_deep=is_deep)
    groups = [(ID,), *type_.unique]
    own = [name for name in type_.key if name in (SRC, DST)]
    names = [ID, *own, *type_.key, *(p.name for p in ruled.properties), *(name for one in groups for name in one)]
    broken = ViolationCounter(type_.name)
    rows = 0
    with ExitStack() as stack:
        hashes = [stack.enter_context(DuplicateHashes()) for _ in groups]
        for batch in table.iter_batches(list(dict.fromkeys(names)), batch_rows=BATCH_ROWS):
            part = pa.Table.from_batches([batch])
            rows += part.num_rows
            _check_ids(type_, part, broken)
            _check_values(ruled, part, broken, is_deep=is_deep)
            for columns, own_hashes in zip(groups, hashes, strict=True):
                held = _select_group(part, columns)
                own_hashes.add(hash_rows(held.columns) if held.num_rows else np.empty(0, np.uint64))
            on_progress(part.num_rows)
        for columns, own_hashes in zip(groups, hashes, strict=True):
            shared = own_hashes.find_duplicates()
            if len(shared):
                _check_repeated(table, type_, columns, shared, broken)
    return TableCheckResult(rows, tuple(broken.list_violations()))


def _select_properties(type_: AnyType, *, is_deep: bool) -> AnyType:
    """The type with only those properties that are read."""
    about = {limits.property for limits in type_.ranges} | {rule.property for rule in type_.checks}
    is_read = [
        p.type is not Scalar.BLOB and (is_deep or p.name in about or isinstance(p.type, EnumOf))
        for p in type_.properties
    ]
    return replace(type_, properties=tuple(p for p, wanted in zip(type_.properties, is_read, strict=True) if wanted))


def _check_ids(type_: AnyType, rows: pa.Table, broken: ViolationCounter) -> None:
    ids = rows.column(ID)
    broken.add("id_null", ids.null_count, ("a row has no id",))
    if not type_.key:
        return
    keys = [concat_chunks(rows.column(name)) for name in type_.key]
    is_whole = np.ones(rows.num_rows, np.bool_)
    for column in (concat_chunks(ids), *keys):
        is_whole &= to_mask(column.is_valid())
    chosen = pa.array(is_whole)
    types = [_get_type(type_, name) for name in type_.key]
    made = derive_ids(types, [column.filter(chosen) for column in keys])
    found = concat_chunks(ids).filter(chosen)
    differs = pc.indices_nonzero(pc.not_equal(made, found))
    examples = (
        f"{type_.name} {quote_value(found[at].as_py())} has the key of {quote_value(made[at].as_py())}"
        for at in differs.to_pylist()
    )
    broken.add("id_not_of_key", len(differs), examples)


def _get_type(type_: AnyType, name: str) -> ValueType:
    declared = type_.find_property(name)
    return Scalar.STRING if declared is None else declared.type


def _check_values(ruled: AnyType, rows: pa.Table, broken: ViolationCounter, *, is_deep: bool) -> None:
    if not ruled.properties:
        return
    findings = ConstraintFindings()
    check_values(ruled, rows, findings)
    for violation in findings.violations:
        broken.add(violation.rule, 1, (violation.message,))
    if is_deep:
        for p in ruled.properties:
            count = _count_not_finite(p, concat_chunks(rows.column(p.name)))
            broken.add("finite", count, (f"{ruled.name}.{p.name}: a value is not a finite number",))


def _count_not_finite(p: Property, column: pa.Array) -> int:
    if isinstance(p.type, VectorOf):
        column = column.drop_null().flatten()
    elif p.type not in (Scalar.F32, Scalar.F64):
        return 0
    return int(pc.sum(pc.invert(pc.is_finite(column))).as_py() or 0)


# --- rows that are there twice ---------------------------------------------------------------------------


def _select_group(rows: pa.Table, columns: Sequence[str]) -> pa.Table:
    """A unique group of the rows that have no null in it."""
    group = normalize_zeros(rows.select(list(columns)))
    for name in columns:
        column = group.column(name)
        if column.null_count:
            group = group.filter(pc.is_valid(column))
    return group


def _check_repeated(
    table: LanceTable, type_: AnyType, columns: tuple[str, ...], shared: Hashes, broken: ViolationCounter
) -> None:
    """Compare the rows that share a hash: hardly ever are they different all the same."""
    suspects = pa.concat_tables(_iter_suspects(table, columns, shared))
    later, first = find_duplicates(suspects.select(list(columns)).columns)
    pairs = zip(later.tolist(), first.tolist(), strict=True)
    if columns == (ID,):
        ids = suspects.column(ID)
        broken.add(
            "id_repeated",
            len(later),
            (f"{type_.name} {quote_value(ids[at].as_py())} is there twice" for at, _ in pairs),
        )
        return
    values = suspects.select(list(columns))
    broken.add(
        "unique",
        len(later),
        (
            format_unique_violation(
                type_, columns, get_row(values, at), suspects.column(ID)[to].as_py(), suspects.column(ID)[at].as_py()
            )
            for at, to in pairs
        ),
    )


def _iter_suspects(table: LanceTable, columns: tuple[str, ...], shared: Hashes) -> Iterator[pa.Table]:
    names = list(dict.fromkeys([ID, *columns]))
    count = 0
    for batch in table.iter_batches(names, batch_rows=BATCH_ROWS):
        rows = normalize_zeros(pa.Table.from_batches([batch]))
        for name in columns:
            rows = rows.filter(pc.is_valid(rows.column(name)))
        if rows.num_rows:
            rows = rows.filter(pa.array(np.isin(hash_rows(rows.select(list(columns)).columns), shared)))
        yield rows
        count += rows.num_rows
        if count > MAX_SUSPECTS:
            return
