"""Store topologies and text indexes of large tables after a load or an optimization: the next reader builds none."""

from collections.abc import Collection

from omnigraph.commit.snapshot_tables import SnapshotTables
from omnigraph.engine.parallel import count_threads
from omnigraph.engine.query_budget import Budget
from omnigraph.engine.search.column_index import MIN_STORED_ROWS
from omnigraph.engine.search.text_upkeep import extend_text_index, list_searched_texts
from omnigraph.engine.tables.graph_cache import MIN_DERIVED_EDGES, REWRITE_SHARE
from omnigraph.engine.tables.table_reader import TableReader
from omnigraph.engine.view import View
from omnigraph.errors import OmnigraphError
from omnigraph.ops.load_call import LoadResult
from omnigraph.ops.optimize_table import TableUpkeep
from omnigraph.ops.session import Session
from omnigraph.telemetry import log


def keep_after_load(session: Session, result: LoadResult) -> None:
    """Store the topologies of edge types of which a load changed a large share."""
    if result.commit_id is None:
        return
    changed = {name: counts.changes for name, counts in result.edges.items()}
    # Smaller changes are patched by the next reader: see `GraphCache`.
    _keep(session, {name for name, rows in changed.items() if rows >= MIN_DERIVED_EDGES * REWRITE_SHARE}, changed)


def keep_after_optimize(session: Session, tables: Collection[TableUpkeep]) -> None:
    """Store the topologies whose rows were moved to other files, at which no older topology is of use."""
    moved = {table.table_key for table in tables if table.is_committed and table.fragments_removed}
    if not moved:
        return
    catalog = session.load_catalog(session.head().snapshot)
    nodes = catalog.nodes
    names = {
        edge.name
        for edge in catalog.edges.values()
        if moved & {edge.table_key, nodes[edge.source].table_key, nodes[edge.target].table_key}
    }
    _keep(session, names, {})


def extend_text_indexes(session: Session, tables: Collection[TableUpkeep]) -> None:
    """Build or extend the text indexes of optimized tables: of declared texts, and of those that were searched before.

    A table that fails has none, which changes no answer.
    """
    keys = {table.table_key for table in tables if table.error is None}
    snapshot = session.head().snapshot
    view = View(session.load_catalog(snapshot), SnapshotTables(session.handles, snapshot))
    for type_ in view.catalog.types:
        if type_.table_key not in keys or type_.table_key not in snapshot.pins:
            continue
        rows = session.reads.get_reader(view, type_)
        if rows.count < MIN_STORED_ROWS:
            continue
        for column in list_searched_texts(session.reads, rows):
            _extend(session, rows, column)


def _extend(session: Session, rows: TableReader, column: str) -> None:
    session.check_cancelled()
    try:
        extend_text_index(session.reads, rows, column, session.check_cancelled)
    # The tables are optimized: the next optimization or search builds what is missing.
    except OmnigraphError as error:
        session.check_cancelled()
        log.warning("the text index of %s.%s was not extended: %s", rows.type.name, column, error)


def _keep(session: Session, names: Collection[str], changed: dict[str, int]) -> None:
    """Build and store, in the background, the topologies of these edge types, if they are large enough.

    `changed` is the number of edges that changed; all of them where it is missing.
    """
    if not names:
        return
    snapshot = session.head().snapshot
    options = session.runtime.options
    # Not with the limits of the operation: it has ended.
    view = View(session.load_catalog(snapshot), SnapshotTables(session.handles, snapshot))
    edges = [
        edge
        for edge in view.catalog.edges.values()
        if edge.name in names
        and changed.get(edge.name, MIN_DERIVED_EDGES) >= REWRITE_SHARE * session.reads.get_reader(view, edge).count
    ]
    budget = Budget(
        session.runtime.clock, memory_bytes=options.query_memory_bytes, threads=count_threads(options.threads)
    )
    session.reads.keep_topologies(view, edges, budget)
