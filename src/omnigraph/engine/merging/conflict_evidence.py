"""What the base and both sides say of rows that break a rule together, so that whoever reads it can act on it."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa

from omnigraph.engine.merging.conflict_values import ENDS, format_column
from omnigraph.engine.merging.conflicts import Conflict, ConflictKind, Conflicts
from omnigraph.engine.merging.criss_cross_base import BaseTable
from omnigraph.engine.merging.side_changes import find_column
from omnigraph.engine.merging.table_merge import MergeInputs
from omnigraph.engine.writing.violations import MAX_REPORTED_PROBLEMS, ConstraintViolation
from omnigraph.schema.arrow import ID, SRC
from omnigraph.schema.catalog import AnyType
from omnigraph.storage.columnar_sets import concat_chunks

_KINDS = {"unique": ConflictKind.UNIQUE_VIOLATION, "card": ConflictKind.CARDINALITY_VIOLATION}


@dataclass(frozen=True, slots=True)
class ConflictEvidence:
    """By id, what each of the three states says; nothing of a row that it has not."""

    base: Mapping[str, object]
    ours: Mapping[str, object]
    theirs: Mapping[str, object]

    def attach(self, conflict: Conflict, row_id: str | None) -> Conflict:
        """A conflict about that row, with the values."""
        key = row_id or ""
        return replace(conflict, base=self.base.get(key), ours=self.ours.get(key), theirs=self.theirs.get(key))


def read_evidence(sides: MergeInputs, type_: AnyType, ids: Sequence[str], columns: Sequence[str]) -> ConflictEvidence:
    """What the states have in some columns of some rows: the value of one column, or by name those of several."""
    wanted = pa.array(ids, pa.string())
    return ConflictEvidence(
        *(_read_values(sides, type_, table, wanted, columns) for table in _list_tables(sides, type_))
    )


def _list_tables(sides: MergeInputs, type_: AnyType) -> list[BaseTable | None]:
    versions = (sides.find_table(view, type_) for view in (sides.ours, sides.theirs))
    return [sides.find_base_table(type_), *(None if one is None else BaseTable(version=one) for one in versions)]


def _read_values(
    sides: MergeInputs, type_: AnyType, table: BaseTable | None, ids: pa.Array, columns: Sequence[str]
) -> dict[str, object]:
    if table is None:
        return {}
    rows = sides.read_rows(type_, table, ids)
    parts = [
        format_column(type_, name, concat_chunks(rows.column(name)))
        if find_column(type_, table.version.type, name) is not None
        else [None] * rows.num_rows
        for name in columns
    ]
    names = [ENDS.get(name, name) for name in columns]
    values = parts[0] if len(parts) == 1 else [dict(zip(names, row, strict=True)) for row in zip(*parts, strict=True)]
    return dict(zip(rows.column(ID).to_pylist(), values, strict=True))


def _read_edge_evidence(sides: MergeInputs, edge: AnyType, sources: Sequence[str]) -> ConflictEvidence:
    """By source, the ids of the edges that leave it, at most so many."""
    parts = []
    for table in _list_tables(sides, edge):
        found: dict[str, list[str]] = {source: [] for source in sources}
        if table is not None:
            rows = sides.read_rows_where(edge, table, SRC, pa.array(sources, pa.string())).sort_by(ID)
            for source, edge_id in zip(rows.column(SRC).to_pylist(), rows.column(ID).to_pylist(), strict=True):
                if len(found[source]) < MAX_REPORTED_PROBLEMS:
                    found[source].append(edge_id)
        parts.append(found)
    return ConflictEvidence(*parts)


def add_violations(
    sides: MergeInputs, types: Mapping[str, AnyType], violations: Sequence[ConstraintViolation], conflicts: Conflicts
) -> None:
    """Rows that the merged state would have, and that break its schema; of those that are shown, with their values."""
    room = conflicts.remaining
    for one in violations[room:]:
        conflicts.add(_get_kind(one), (), 1)
    groups: dict[tuple[str, str, tuple[str, ...]], list[ConstraintViolation]] = {}
    for one in violations[:room]:
        groups.setdefault((one.type, one.rule, one.properties), []).append(one)
    for (name, rule, properties), group in groups.items():
        type_ = types[name]
        ids = [one.id for one in group if one.id is not None]
        said = (
            _read_edge_evidence(sides, type_, ids) if rule == "card" else read_evidence(sides, type_, ids, properties)
        )
        conflicts.add(_get_kind(group[0]), _build_conflicts(type_, group, said), len(group))


def _get_kind(violation: ConstraintViolation) -> ConflictKind:
    return _KINDS.get(violation.rule, ConflictKind.VALUE_CONSTRAINT_VIOLATION)


def _build_conflicts(
    type_: AnyType, violations: Iterable[ConstraintViolation], said: ConflictEvidence
) -> Iterable[Conflict]:
    for one in violations:
        names = [ENDS.get(name, name) for name in one.properties]
        told = Conflict(
            kind=_get_kind(one),
            table=type_.table_key,
            id=one.id,
            property=names[0] if len(names) == 1 else None,
            other_id=one.holder,
            message=one.message,
        )
        yield said.attach(told, one.id)
