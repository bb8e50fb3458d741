"""Build and extend the stored text index of a column: segment by segment, so that memory is limited."""

from collections.abc import Callable
from dataclasses import dataclass, replace

from omnigraph.engine.search.column_index import MIN_STORED_ROWS, build_runs, get_language, plan_runs
from omnigraph.engine.search.index_codec import build_text_prefix
from omnigraph.engine.search.segment_store import SegmentStore
from omnigraph.engine.search.stored_index import StoredTextIndex
from omnigraph.engine.tables.graph_cache import GraphCache
from omnigraph.engine.tables.table_reader import TableReader
from omnigraph.schema.types import Scalar

# Fewer new rows than this share of what is stored by a reader are left to be analysed: 5,000 texts take 50 ms.
_MIN_NEW_DIVISOR = 4


def list_searched_texts(cache: GraphCache, rows: TableReader) -> list[str]:
    """Return the properties of a type whose words are stored: declared texts, and those that were searched before."""
    type_ = rows.type
    texts = [prop.name for prop in type_.properties if prop.type is Scalar.STRING and (prop.name,) != type_.key]
    return [name for name in texts if name in type_.indexed or _has_stored_text(cache, rows, name)]


def _has_stored_text(cache: GraphCache, rows: TableReader, column: str) -> bool:
    return bool(cache.list_derived(build_text_prefix(rows.table.path, rows.table.find_field_number(column))))


@dataclass(frozen=True, slots=True)
class TextCoverage:
    """The stored segments of a column that one version has the rows of."""

    fragments: frozenset[int]
    segments: int
    nbytes: int


def measure_text_coverage(cache: GraphCache, rows: TableReader, column: str) -> TextCoverage:
    """Return what is stored of the texts of a column, and readable, for the version of its table."""
    fragments = rows.columns.layout.fragments
    runs = plan_runs(fragments, (), SegmentStore(cache, rows, column, get_language(rows, column)))
    stored = [(run, run.index) for run in runs if isinstance(run.index, StoredTextIndex)]
    numbers = (fragments[run.first : run.first + len(run.covered.fragments)] for run, _ in stored)
    return TextCoverage(
        frozenset(fragment.number for of_run in numbers for fragment in of_run),
        len(stored),
        sum(index.stored_bytes for _, index in stored),
    )


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
