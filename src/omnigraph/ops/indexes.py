"""Which indexes a graph's tables have and should have, and how much of the rows each one covers. Changes nothing."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import Enum

from omnigraph.commit.manifest_types import Snapshot
from omnigraph.engine.tables.index_advisor import RecommendedIndex, recommend_indexes
from omnigraph.ops.session import Session
from omnigraph.policy import Action
from omnigraph.schema.catalog import AnyType, Catalog
from omnigraph.storage.index_staging import StoredIndex, list_stored_indexes
from omnigraph.storage.lance_table import LanceTable


class IndexState(Enum):
    """How an index is."""

    COMPLETE = "complete"
    LAGGING = "lagging"
    """Rows were written since: they are found all the same, more slowly."""
    MISSING = "missing"
    SMALL = "small"
    """The table has so few rows that an index would not help."""
    UNUSED = "unused"
    """Declared, and not built: queries don't ask it. Other tools may; `optimize --all-indexes` builds it."""
    UNDECLARED = "undeclared"
    """There, though the schema does not ask for it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexReport:
    """One index of one table."""

    type_name: str
    column: str
    kind: str
    state: IndexState
    rows: int
    """How many rows the table has."""
    covered: int = 0
    name: str | None = None
    segments: int = 0
    nbytes: int = 0

    @property
    def coverage(self) -> float:
        """The share of rows that it covers; of no rows, all."""
        if self.name is None:
            return 0.0
        return self.covered / self.rows if self.rows else 1.0

    def to_json(self) -> dict[str, object]:
        """What every door shows."""
        return {
            "type": self.type_name,
            "property": self.column,
            "kind": self.kind,
            "name": self.name,
            "state": self.state.value,
            "rows": self.rows,
            "rows_covered": self.covered,
            "rows_uncovered": self.rows - self.covered,
            "coverage": self.coverage,
            "segments": self.segments,
            "bytes": self.nbytes,
        }


def list_indexes(session: Session, snapshot: Snapshot) -> list[IndexReport]:
    """Every index that is declared or there, types in declared order."""
    session.allow(Action.READ, snapshot.branch)
    tables = session.open_tables(snapshot)
    fewest = session.runtime.options.upkeep.index_rows
    return [
        report
        for type_ in map_types(session.load_catalog(snapshot)).values()
        if type_.table_key in snapshot.pins
        for report in _iter_reports(type_, tables.open_table(type_.table_key), fewest)
    ]


def map_types(catalog: Catalog) -> Mapping[str, AnyType]:
    """The types by the keys of their tables, in declared order."""
    types: list[AnyType] = [*catalog.nodes.values(), *catalog.edges.values()]
    return {type_.table_key: type_ for type_ in types}


def find_matching_index(wanted: RecommendedIndex, stored: tuple[StoredIndex, ...]) -> StoredIndex | None:
    """The stored index of that column and kind; a rename of the property leaves its name as it was."""
    return next((one for one in stored if one.columns == (wanted.column,) and one.kind == wanted.kind), None)


def _iter_reports(type_: AnyType, table: LanceTable, fewest: int) -> Iterator[IndexReport]:
    rows = {one.number: one.rows - one.deleted for one in table.list_fragments()}
    total = sum(rows.values())
    stored = list_stored_indexes(table)
    declared = set()
    for wanted in recommend_indexes(type_):
        found = find_matching_index(wanted, stored)
        if found is not None:
            declared.add(found.name)
            yield _build_stored_report(type_, found, rows, None)
            continue
        missing = IndexState.SMALL if total < fewest else IndexState.MISSING
        yield IndexReport(
            type_name=type_.name,
            column=wanted.column,
            kind=wanted.kind,
            state=missing if wanted.is_consulted else IndexState.UNUSED,
            rows=total,
        )
    for other in stored:
        if other.name not in declared:
            yield _build_stored_report(type_, other, rows, IndexState.UNDECLARED)


def _build_stored_report(
    type_: AnyType, index: StoredIndex, rows: Mapping[int, int], state: IndexState | None
) -> IndexReport:
    fragments = frozenset[int]().union(*(one.fragments for one in index.segments)) & rows.keys()
    covered, total = sum(rows[number] for number in fragments), sum(rows.values())
    return IndexReport(
        type_name=type_.name,
        column=", ".join(index.columns),
        kind=index.kind,
        state=state or (IndexState.COMPLETE if covered == total else IndexState.LAGGING),
        rows=total,
        covered=covered,
        name=index.name,
        segments=len(index.segments),
        nbytes=index.nbytes,
    )
