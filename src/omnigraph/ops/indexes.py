"""Report the declared and stored indexes of a graph's tables, and their coverage. Read-only."""

from collections.abc import Iterator, Mapping
from enum import Enum

import msgspec

from omnigraph.commit.manifest_types import Snapshot
from omnigraph.engine.execution_context import ExecutionContext
from omnigraph.engine.query_budget import Budget
from omnigraph.engine.query_inputs import QueryInputs
from omnigraph.engine.search.column_index import MIN_STORED_ROWS
from omnigraph.engine.search.recall_report import measure_shares
from omnigraph.engine.search.text_upkeep import list_searched_texts, measure_text_coverage
from omnigraph.engine.tables.graph_cache import GraphCache
from omnigraph.engine.tables.index_advisor import RecommendedIndex, recommend_indexes
from omnigraph.engine.tables.table_reader import TableReader
from omnigraph.engine.view import View
from omnigraph.json_struct import JsonStruct
from omnigraph.ops.session import Session, open_whole_tables
from omnigraph.policy import Action
from omnigraph.schema.catalog import AnyType, Catalog
from omnigraph.storage.index_staging import StoredIndex, list_stored_indexes
from omnigraph.storage.lance_table import LanceTable
from omnigraph.storage.vector_search import VECTOR_KINDS

# The words of a text, which are stored beside its table; the other kinds are those of Lance.
WORDS_KIND = "WORDS"


class IndexState(Enum):
    """The state of an index."""

    COMPLETE = "complete"
    LAGGING = "lagging"
    """Rows were written after it was built: they are found too, but more slowly."""
    MISSING = "missing"
    SMALL = "small"
    """The table has too few rows for an index to help."""
    UNUSED = "unused"
    """Declared but not built: queries don't use it. Other tools may; `optimize --all-indexes` builds it."""
    UNDECLARED = "undeclared"
    """Stored, though the schema does not declare it."""


class IndexReport(JsonStruct, frozen=True, kw_only=True):
    """An index that is declared or exists, and the number of rows that it covers."""

    json_keys = (
        "type=type_name property=column kind name state rows rows_covered=covered rows_uncovered=uncovered coverage "
        "segments bytes=nbytes recall"
    )

    type_name: str
    column: str
    kind: str
    state: IndexState
    rows: int
    """The number of rows of the table."""
    covered: int = 0
    name: str | None = None
    segments: int = 0
    nbytes: int = 0
    recall: dict[str, float] | None = None
    """The share of the ten nearest rows that `nearest` finds, by the share of rows that pass a filter; if measured."""

    @property
    def uncovered(self) -> int:
        """The number of rows that it does not cover."""
        return self.rows - self.covered

    @property
    def coverage(self) -> float:
        """The fraction of rows that it covers; 1 for an empty table."""
        if self.name is None:
            return 0.0
        return self.covered / self.rows if self.rows else 1.0


def list_indexes(session: Session, snapshot: Snapshot, *, recall: bool = False) -> list[IndexReport]:
    """Return a report of every index that is declared or stored, types in declared order.

    With `recall`, the vector indexes that `nearest` uses are searched for a sample of their rows, which takes a scan of
    their columns.
    """
    session.allow(Action.READ, snapshot.branch)
    tables = open_whole_tables(session, snapshot)
    min_rows = session.runtime.options.upkeep.index_rows
    view = View(session.load_catalog(snapshot), tables)
    reports: list[IndexReport] = []
    for type_ in map_types(view.catalog).values():
        if type_.table_key in snapshot.pins:
            reports += _iter_reports(type_, tables.open_table(type_.table_key), min_rows)
            if session.runtime.options.derived_cache:
                reports += _iter_text_reports(session.reads, session.reads.get_reader(view, type_))
    return [_add_recall(session, snapshot, report) for report in reports] if recall else reports


def _iter_text_reports(cache: GraphCache, rows: TableReader) -> Iterator[IndexReport]:
    """Yield the stored words of large tables, which searches use: of declared texts, and of those searched before."""
    if rows.count < MIN_STORED_ROWS:
        return
    for prop in list_searched_texts(cache, rows):
        coverage = measure_text_coverage(cache, rows, prop)
        of_fragments = (f for f in rows.columns.layout.fragments if f.number in coverage.fragments)
        covered = sum(fragment.rows - fragment.deleted for fragment in of_fragments)
        state = IndexState.LAGGING if coverage.segments else IndexState.MISSING
        yield IndexReport(
            type_name=rows.type.name,
            column=prop,
            kind=WORDS_KIND,
            state=IndexState.COMPLETE if covered == rows.count else state,
            rows=rows.count,
            covered=covered,
            name=f"{prop}_words" if coverage.segments else None,
            segments=coverage.segments,
            nbytes=coverage.nbytes,
        )


def _add_recall(session: Session, snapshot: Snapshot, report: IndexReport) -> IndexReport:
    catalog = session.load_catalog(snapshot)
    type_ = catalog.find_type(report.type_name)
    declared = None if type_ is None else type_.find_property(report.column)
    if report.name is None or declared is None or declared.vector_index is None or report.kind not in VECTOR_KINDS:
        return report
    context = ExecutionContext(
        view=View(catalog, open_whole_tables(session, snapshot)),
        inputs=QueryInputs({}, session.runtime.clock.now()),
        budget=Budget(session.runtime.clock),
        cache=session.reads,
    )
    return msgspec.structs.replace(report, recall=measure_shares(context, report.type_name, declared))


def map_types(catalog: Catalog) -> Mapping[str, AnyType]:
    """Return the types by table key, in declared order."""
    types = catalog.types
    return {type_.table_key: type_ for type_ in types}


def find_matching_index(recommended: RecommendedIndex, stored: tuple[StoredIndex, ...]) -> StoredIndex | None:
    """Return the stored index of a column, a kind and a metric, or None."""
    # Not by name: a renamed property leaves the name of its index unchanged.
    columns = (recommended.column,)
    return next(
        (
            index
            for index in stored
            if index.columns == columns and index.kind == recommended.kind and index.metric == recommended.metric
        ),
        None,
    )


def _iter_reports(type_: AnyType, table: LanceTable, min_rows: int) -> Iterator[IndexReport]:
    # Deleted rows don't count as uncovered.
    rows = {fragment.number: fragment.rows - fragment.deleted for fragment in table.list_fragments()}
    total = sum(rows.values())
    stored = list_stored_indexes(table)
    declared = set()
    for recommended in recommend_indexes(type_):
        index = find_matching_index(recommended, stored)
        if index is not None:
            declared.add(index.name)
            yield _build_stored_report(type_, index, rows, None)
            continue
        # `optimize` does not build an index of a smaller table.
        missing = IndexState.SMALL if total < min_rows else IndexState.MISSING
        yield IndexReport(
            type_name=type_.name,
            column=recommended.column,
            kind=recommended.kind,
            state=missing if recommended.is_consulted else IndexState.UNUSED,
            rows=total,
        )
    for index in stored:
        if index.name not in declared:
            yield _build_stored_report(type_, index, rows, IndexState.UNDECLARED)


def _build_stored_report(
    type_: AnyType, index: StoredIndex, rows: Mapping[int, int], state: IndexState | None
) -> IndexReport:
    # Segments also name fragments that were compacted away since.
    fragments = frozenset[int]().union(*(segment.fragments for segment in index.segments)) & rows.keys()
    covered = sum(rows[number] for number in fragments)
    total = sum(rows.values())
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
