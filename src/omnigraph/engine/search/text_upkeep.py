"""Build and extend the stored text index of a column: segment by segment, so that memory is limited."""

from collections.abc import Callable
from dataclasses import replace

from omnigraph.engine.search.column_index import MIN_STORED_ROWS, build_runs, get_language, plan_runs
from omnigraph.engine.search.index_codec import build_text_prefix
from omnigraph.engine.search.segment_store import SegmentStore
from omnigraph.engine.tables.graph_cache import GraphCache
from omnigraph.engine.tables.table_reader import TableReader

# Fewer new rows than this share of what is stored by a reader are left to be analysed: 5,000 texts take 50 ms.
_MIN_NEW_DIVISOR = 4


def has_stored_text(cache: GraphCache, rows: TableReader, column: str) -> bool:
    """Return whether anything is stored of the texts of a column: they were searched before."""
    return bool(cache.list_derived(build_text_prefix(rows.table.path, rows.table.find_field_number(column))))


def extend_text_index(cache: GraphCache, rows: TableReader, column: str, check: Callable[[], None]) -> int:
    """Store segments for the rows of a large table that none covers, and merge small ones; return their number.

    `check` is called between segments; an error that it raises ends the work, and the next call goes on.
    """
    if rows.count < MIN_STORED_ROWS:
        return 0
    language = get_language(rows, column)
    store = SegmentStore(cache, rows, column, language)
    # Merging analyses texts anew, which a query should not wait for; upkeep may, and readers then open fewer objects.
    runs = plan_runs(rows.columns.layout.fragments, (), store, merges_stored=True)
    missing = [run for run in runs if run.index is None]
    if sum(run.covered.rows for run in missing) < MIN_STORED_ROWS // _MIN_NEW_DIVISOR:
        return 0
    for run in missing:
        check()
        _, built = build_runs([replace(run, index=None)], store, None, language)
        store.store(built)
        # One segment at a time is in memory.
        cache.wait_for_workers()
    return len(missing)
