"""The rows of one type, each looked at once: ids, keys, values, unique groups."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.commit.requirements import normalised
from omnigraph.engine.checking.duplicate_hashes import RepeatedHashes
from omnigraph.engine.checking.rule_violations import Broken, BrokenRule
from omnigraph.engine.decoding.row_ids import derived_id_texts
from omnigraph.engine.writing.unique import row_of, unique_message
from omnigraph.engine.writing.value_rules import check_values
from omnigraph.engine.writing.violations import Findings, quoted
from omnigraph.schema.arrow import DST, ID, SRC
from omnigraph.schema.catalog import AnyType, Property
from omnigraph.schema.types import EnumOf, Scalar, ValueType, VectorOf
from omnigraph.storage.column_hashing import Hashes, hashes_of
from omnigraph.storage.columnar_sets import mask_of, one_array, repeats
from omnigraph.storage.lance_table import Table

BATCH_ROWS = 65_536
MOST_SUSPECTS = 1_000_000
"""So many rows that share a hash with another are compared; beyond that, what is counted is a lower bound."""

Watch = Callable[[int], None]
"""Is told of rows as they are read."""


@dataclass(frozen=True, slots=True)
class RowsChecked:
    """What was found in one table, and how many rows it really has."""

    rows: int
    broken: tuple[BrokenRule, ...]


def check_rows(table: Table, type_: AnyType, *, is_deep: bool = False, watch: Watch = lambda _: None) -> RowsChecked:
    """Read what the rules of the type are about, or `is_deep` every column but blobs.

    Whatever Lance raises over damaged files is raised as it comes.
    """
    ruled = _ruled(type_, is_deep=is_deep)
    groups = [(ID,), *type_.unique]
    own = [name for name in type_.key if name in (SRC, DST)]
    names = [ID, *own, *type_.key, *(p.name for p in ruled.properties), *(name for one in groups for name in one)]
    broken = Broken(type_.name)
    rows = 0
    with ExitStack() as stack:
        hashes = [stack.enter_context(RepeatedHashes()) for _ in groups]
        for batch in table.batches(list(dict.fromkeys(names)), batch_rows=BATCH_ROWS):
            part = pa.Table.from_batches([batch])
            rows += part.num_rows
            _check_ids(type_, part, broken)
            _check_values(ruled, part, broken, is_deep=is_deep)
            for columns, own_hashes in zip(groups, hashes, strict=True):
                held = _held(part, columns)
                own_hashes.add(hashes_of(held.columns) if held.num_rows else np.empty(0, np.uint64))
            watch(part.num_rows)
        for columns, own_hashes in zip(groups, hashes, strict=True):
            shared = own_hashes.shared()
            if len(shared):
                _check_repeated(table, type_, columns, shared, broken)
    return RowsChecked(rows, tuple(broken.rules()))


def _ruled(type_: AnyType, *, is_deep: bool) -> AnyType:
    """The type with only those properties that are read."""
    about = {limits.property for limits in type_.ranges} | {rule.property for rule in type_.checks}
    is_read = [
        p.type is not Scalar.BLOB and (is_deep or p.name in about or isinstance(p.type, EnumOf))
        for p in type_.properties
    ]
    return replace(type_, properties=tuple(p for p, wanted in zip(type_.properties, is_read, strict=True) if wanted))


def _check_ids(type_: AnyType, rows: pa.Table, broken: Broken) -> None:
    ids = rows.column(ID)
    broken.add("id_null", ids.null_count, ("a row has no id",))
    if not type_.key:
        return
    keys = [one_array(rows.column(name)) for name in type_.key]
    is_whole = np.ones(rows.num_rows, np.bool_)
    for column in (one_array(ids), *keys):
        is_whole &= mask_of(column.is_valid())
    chosen = pa.array(is_whole)
    types = [_type_of(type_, name) for name in type_.key]
    made = derived_id_texts(types, [column.filter(chosen) for column in keys])
    found = one_array(ids).filter(chosen)
    differs = pc.indices_nonzero(pc.not_equal(made, found))
    examples = (
        f"{type_.name} {quoted(found[at].as_py())} has the key of {quoted(made[at].as_py())}"
        for at in differs.to_pylist()
    )
    broken.add("id_not_of_key", len(differs), examples)


def _type_of(type_: AnyType, name: str) -> ValueType:
    declared = type_.property(name)
    return Scalar.STRING if declared is None else declared.type


def _check_values(ruled: AnyType, rows: pa.Table, broken: Broken, *, is_deep: bool) -> None:
    if not ruled.properties:
        return
    findings = Findings()
    check_values(ruled, rows, findings)
    for violation in findings.violations:
        broken.add(violation.rule, 1, (violation.message,))
    if is_deep:
        for p in ruled.properties:
            count = _not_finite(p, one_array(rows.column(p.name)))
            broken.add("finite", count, (f"{ruled.name}.{p.name}: a value is not a finite number",))


def _not_finite(p: Property, column: pa.Array) -> int:
    if isinstance(p.type, VectorOf):
        column = column.drop_null().flatten()
    elif p.type not in (Scalar.F32, Scalar.F64):
        return 0
    return int(pc.sum(pc.invert(pc.is_finite(column))).as_py() or 0)


# --- rows that are there twice ---------------------------------------------------------------------------


def _held(rows: pa.Table, columns: Sequence[str]) -> pa.Table:
    """A unique group of the rows that have no null in it."""
    group = normalised(rows.select(list(columns)))
    for name in columns:
        column = group.column(name)
        if column.null_count:
            group = group.filter(pc.is_valid(column))
    return group


def _check_repeated(table: Table, type_: AnyType, columns: tuple[str, ...], shared: Hashes, broken: Broken) -> None:
    """Compare the rows that share a hash: hardly ever are they different all the same."""
    suspects = pa.concat_tables(_suspects(table, columns, shared))
    later, first = repeats(suspects.select(list(columns)).columns)
    pairs = zip(later.tolist(), first.tolist(), strict=True)
    if columns == (ID,):
        ids = suspects.column(ID)
        broken.add(
            "id_repeated", len(later), (f"{type_.name} {quoted(ids[at].as_py())} is there twice" for at, _ in pairs)
        )
        return
    values = suspects.select(list(columns))
    broken.add(
        "unique",
        len(later),
        (
            unique_message(
                type_, columns, row_of(values, at), suspects.column(ID)[to].as_py(), suspects.column(ID)[at].as_py()
            )
            for at, to in pairs
        ),
    )


def _suspects(table: Table, columns: tuple[str, ...], shared: Hashes) -> Iterator[pa.Table]:
    names = list(dict.fromkeys([ID, *columns]))
    count = 0
    for batch in table.batches(names, batch_rows=BATCH_ROWS):
        rows = normalised(pa.Table.from_batches([batch]))
        for name in columns:
            rows = rows.filter(pc.is_valid(rows.column(name)))
        if rows.num_rows:
            rows = rows.filter(pa.array(np.isin(hashes_of(rows.select(list(columns)).columns), shared)))
        yield rows
        count += rows.num_rows
        if count > MOST_SUSPECTS:
            return
