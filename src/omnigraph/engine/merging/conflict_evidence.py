"""Values of the base and both sides for rows that break a constraint of the merged state, as shown in conflicts."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import msgspec
import pyarrow as pa

from omnigraph.engine.constraints.violations import ConstraintViolation
from omnigraph.engine.merging.conflict_values import format_column
from omnigraph.engine.merging.conflicts import Conflict, ConflictKind, Conflicts
from omnigraph.engine.merging.criss_cross_base import BaseTable
from omnigraph.engine.merging.side_changes import find_column
from omnigraph.engine.merging.table_merge import MergeInputs
from omnigraph.schema.arrow import END_NAMES, ID, SRC
from omnigraph.schema.catalog import AnyType
from omnigraph.storage.columnar_sets import concat_chunks

_KINDS = {"unique": ConflictKind.UNIQUE_VIOLATION, "card": ConflictKind.CARDINALITY_VIOLATION}


@dataclass(frozen=True, slots=True)
class ConflictEvidence:
    """The values of each of the three states by row id; a state without a row has no entry for it."""

    base: Mapping[str, object]
    ours: Mapping[str, object]
    theirs: Mapping[str, object]

    def attach(self, conflict: Conflict, row_id: str | None) -> Conflict:
        """Return a conflict about that row with the values filled in."""
        key = row_id or ""
        values = {"base": self.base.get(key), "ours": self.ours.get(key), "theirs": self.theirs.get(key)}
        return msgspec.structs.replace(conflict, **values)


def read_evidence(sides: MergeInputs, type_: AnyType, ids: Sequence[str], columns: Sequence[str]) -> ConflictEvidence:
    """Read some columns of some rows in all three states: the value of one column, or a dict by name of several."""
    keys = pa.array(ids, pa.string())
    return ConflictEvidence(*(_read_values(sides, type_, table, keys, columns) for table in _list_tables(sides, type_)))


def _list_tables(sides: MergeInputs, type_: AnyType) -> list[BaseTable | None]:
    versions = [sides.find_table(view, type_) for view in (sides.ours, sides.theirs)]
    # The order is that of the fields of `ConflictEvidence`.
    return [
        sides.find_base_table(type_),
        *(None if version is None else BaseTable(version=version) for version in versions),
    ]


def _read_values(
    sides: MergeInputs, type_: AnyType, table: BaseTable | None, ids: pa.Array, columns: Sequence[str]
) -> dict[str, object]:
    if table is None:
        return {}
    rows = sides.read_rows(type_, table, ids)
    # A projected row has a default in a column that its state lacks. That state has no value, so show none.
    parts = [
        format_column(type_, name, concat_chunks(rows.column(name)))
        if find_column(type_, table.version.type, name) is not None
        else [None] * rows.num_rows
        for name in columns
    ]
    names = [END_NAMES.get(name, name) for name in columns]
    values = parts[0] if len(parts) == 1 else [dict(zip(names, row, strict=True)) for row in zip(*parts, strict=True)]
    return dict(zip(rows.column(ID).to_pylist(), values, strict=True))


def _read_edge_evidence(sides: MergeInputs, edge: AnyType, sources: Sequence[str], limit: int) -> ConflictEvidence:
    """Read, by source node, the ids of its outgoing edges, at most `limit` each."""
    parts = []
    for table in _list_tables(sides, edge):
        edge_ids: dict[str, list[str]] = {source: [] for source in sources}
        if table is not None:
            # Sorted by id, so that the edges listed are the same every time.
            rows = sides.read_rows_where(edge, table, SRC, pa.array(sources, pa.string())).sort_by(ID)
            for source, edge_id in zip(rows.column(SRC).to_pylist(), rows.column(ID).to_pylist(), strict=True):
                if len(edge_ids[source]) < limit:
                    edge_ids[source].append(edge_id)
        parts.append(edge_ids)
    return ConflictEvidence(*parts)


def add_violations(
    sides: MergeInputs, types: Mapping[str, AnyType], violations: Sequence[ConstraintViolation], conflicts: Conflicts
) -> None:
    """Add the constraint violations of the merged state to `conflicts`, with row values where they are listed."""
    remaining = conflicts.remaining
    # Those beyond the limit are only counted: reading their values would cost a lookup per table for nothing.
    for violation in violations[remaining:]:
        conflicts.add(_get_kind(violation), (), 1)
    # One lookup per group instead of one per violation.
    groups: dict[tuple[str, str, tuple[str, ...]], list[ConstraintViolation]] = {}
    for violation in violations[:remaining]:
        groups.setdefault((violation.type, violation.rule, violation.properties), []).append(violation)
    for (name, rule, properties), group in groups.items():
        type_ = types[name]
        ids = [violation.id for violation in group if violation.id is not None]
        if rule == "card":
            evidence = _read_edge_evidence(sides, type_, ids, conflicts.limit)
        else:
            evidence = read_evidence(sides, type_, ids, properties)
        conflicts.add(_get_kind(group[0]), _build_conflicts(type_, group, evidence), len(group))


def _get_kind(violation: ConstraintViolation) -> ConflictKind:
    return _KINDS.get(violation.rule, ConflictKind.VALUE_CONSTRAINT_VIOLATION)


def _build_conflicts(
    type_: AnyType, violations: Iterable[ConstraintViolation], evidence: ConflictEvidence
) -> Iterable[Conflict]:
    for violation in violations:
        names = [END_NAMES.get(name, name) for name in violation.properties]
        conflict = Conflict(
            kind=_get_kind(violation),
            table=type_.table_key,
            id=violation.id,
            property=names[0] if len(names) == 1 else None,
            other_id=violation.holder,
            message=violation.message,
        )
        yield evidence.attach(conflict, violation.id)
