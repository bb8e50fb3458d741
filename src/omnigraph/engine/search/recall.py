"""Measure how much a vector index finds, and choose by it how many cells a search looks at.

A curve tells, for the `depth` nearest rows of a query, which share of them is found in how many cells. It is measured
with some stored vectors as queries: `optimize` does it after building an index, and stores the curve beside the tables.
"""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from omnigraph.engine.search.nearest_neighbours import to_matrix
from omnigraph.engine.search.tokenizer import Check
from omnigraph.engine.tables.derived_format import Body, DerivedDataError, decode_derived, encode_derived
from omnigraph.engine.tables.graph_cache import GraphCache
from omnigraph.engine.tables.table_reader import TableReader
from omnigraph.storage.arrow_buffers import is_valid
from omnigraph.storage.columnar_sets import concat_chunks
from omnigraph.storage.lance_table import LanceTable
from omnigraph.storage.layout import build_derived_key
from omnigraph.storage.row_addresses import Addresses
from omnigraph.storage.vector_search import (
    IVF_FLAT,
    IVF_HNSW,
    IVF_PQ,
    IVF_RQ,
    StoredVectorIndex,
    search_all_rows,
    search_index,
)
from omnigraph.telemetry import log

RECALL = "recall"
_TAG = b"omnigraph derived recall 1\n"
# Numbers of nearest rows for which recall is measured, each with its number of queries: deep searches take longer, and
# each of them samples more rows.
DEPTHS = {16: 48, 128: 24, 1_024: 12, 4_096: 6}
# Rows that are requested for each row that is needed: kinds that compress vectors order them less well.
OVERFETCH = {IVF_FLAT: 1, IVF_HNSW: 2, IVF_RQ: 4, IVF_PQ: 8}
_MAX_OVERFETCH = 8
# A curve ends where nothing is left to find.
_ENOUGH = 0.9995
# The share of the allowed misses that is kept as a margin: the sample is small.
_MARGIN = 0.25
_FRAGMENT_SHIFT = np.uint64(32)


@dataclass(frozen=True, slots=True)
class RecallCurve:
    """By depth, ascending, the recall in ascending numbers of cells."""

    depths: tuple[tuple[int, tuple[tuple[int, float], ...]], ...]

    def choose_cells(self, depth: int, goal: float) -> tuple[int, float] | None:
        """Return the cells in which the `depth` nearest rows are found with this recall, and the recall; None: exact.

        None as well if so many rows were not measured.
        """
        points = next((points for measured, points in self.depths if measured >= depth), ())
        wanted = goal + (1.0 - goal) * _MARGIN
        return next(((cells, recall) for cells, recall in points if recall >= wanted), None)


def get_overfetch(kind: str) -> int:
    """Return how many rows are requested from an index of this kind for each row that is needed."""
    return OVERFETCH.get(kind, _MAX_OVERFETCH)


# --- measuring -----------------------------------------------------------------------------------------


def measure_curve(table: LanceTable, column: str, index: StoredVectorIndex, check: Check) -> RecallCurve:
    """Measure the curve of an index, by one scan of its column and some hundred searches."""
    rows = sum(f.rows - f.deleted for f in table.list_fragments() if f.number in index.fragments)
    queries, own = draw_queries(table, column, max(DEPTHS.values()))
    if not len(queries) or not rows:
        return RecallCurve(())
    deepest = min(max(DEPTHS), rows)
    check()
    truth = find_true_neighbours(table, column, index, queries, own, deepest)
    depths: list[tuple[int, tuple[tuple[int, float], ...]]] = []
    for depth, count in DEPTHS.items():
        points: list[tuple[int, float]] = []
        cells = 1
        # Cells are at most the square root of the rows; with all of them, more change nothing.
        while not points or (points[-1][1] < _ENOUGH and cells <= 2 * rows**0.5):
            recalls = []
            for query, self_address, true in zip(queries[:count], own[:count], truth[:count], strict=True):
                check()
                recalls.append(_measure_query(table, column, index, query, self_address, true[:depth], cells))
            points.append((cells, float(np.mean(recalls))))
            cells *= 2
        depths.append((depth, tuple(points)))
        if depth >= deepest:
            break
    return RecallCurve(tuple(depths))


def _measure_query(
    table: LanceTable,
    column: str,
    index: StoredVectorIndex,
    query: NDArray[np.float32],
    own: np.uint64,
    true: Addresses,
    cells: int,
) -> float:
    if not len(true):
        return 1.0
    # One more than needed: the row itself is found, and not counted.
    count = (len(true) + 1) * get_overfetch(index.kind)
    found = search_index(table, column, index, query, count, cells).addresses
    return float(np.isin(true, found[found != own]).mean())


def draw_queries(table: LanceTable, column: str, count: int) -> tuple[NDArray[np.float32], Addresses]:
    """Return stored vectors that have a direction, from all over the table, and the addresses of their rows."""
    rows = table.count()
    if not rows:
        return np.empty((0, 1), np.float32), np.empty(0, np.uint64)
    # Twice as many, for those without a vector.
    offsets = np.unique(np.linspace(0, rows - 1, 2 * count).astype(np.int64))
    vectors = concat_chunks(table.take(pa.array(offsets), [column]).column(column))
    addresses = table.get_address_map().to_addresses(offsets)
    matrix = to_matrix(vectors)
    usable = np.flatnonzero(is_valid(vectors) & (np.abs(matrix).max(axis=1) > 0))
    # Evenly spaced again, so that the first queries of a curve are from all over the table, too.
    chosen = np.random.default_rng(0).permutation(usable)[:count]
    return np.ascontiguousarray(matrix[chosen]), addresses[chosen]


def find_true_neighbours(
    table: LanceTable,
    column: str,
    index: StoredVectorIndex,
    queries: NDArray[np.float32],
    own: Addresses,
    count: int,
) -> list[Addresses]:
    """Return the rows nearest to each query that the index covers, without the row of the query itself."""
    covered = np.array(sorted(index.fragments), np.uint64)
    # Uncovered rows may be nearer: they are left out afterwards.
    total = table.count()
    share = sum(f.rows - f.deleted for f in table.list_fragments() if f.number in index.fragments) / max(total, 1)
    requested = min(total, int((count + 1) / max(share, 0.01)) + 1)
    found = search_all_rows(table, column, index.metric, queries, requested)
    return [
        addresses[np.isin(addresses >> _FRAGMENT_SHIFT, covered) & (addresses != self_address)][:count]
        for addresses, self_address in zip(found, own, strict=True)
    ]


# --- keeping -------------------------------------------------------------------------------------------


def _build_key(table: LanceTable, column: str, index: StoredVectorIndex) -> str:
    return build_derived_key(RECALL, [table.path, str(table.find_field_number(column)), *index.segments])


def load_curve(cache: GraphCache, rows: TableReader, column: str, index: StoredVectorIndex) -> RecallCurve | None:
    """Return the curve of an index; None if it was never measured, which a background thread begins to do now."""
    key = (rows.columns.version, RECALL, column, index.segments)
    cached = rows.columns.cache.get(key)
    if isinstance(cached, RecallCurve):
        return cached
    data = cache.read_derived(_build_key(rows.table, column, index))
    curve = None if data is None else _decode_curve(data)
    if curve is not None:
        rows.columns.cache.put(key, curve, 1_024)
        return curve

    def keep(measured: RecallCurve) -> None:
        rows.columns.cache.put(key, measured, 1_024)
        _store_curve(cache, rows.table, column, index, measured)

    cache.build_in_background(key, lambda check: measure_curve(rows.table, column, index, check), keep)
    return None


def measure_and_store(
    cache: GraphCache, table: LanceTable, column: str, index: StoredVectorIndex, check: Check
) -> None:
    """Measure the curve of an index, and store it for all readers, unless that was done before.

    `check` is called between searches; an error that it raises ends the measurement.
    """
    stored = cache.read_derived(_build_key(table, column, index))
    if stored is not None and _decode_curve(stored) is not None:
        return
    _store_curve(cache, table, column, index, measure_curve(table, column, index, check))


def _store_curve(
    cache: GraphCache, table: LanceTable, column: str, index: StoredVectorIndex, curve: RecallCurve
) -> None:
    files = {name for fragment in table.list_fragments() for name in fragment.files}
    cache.store_derived([(_build_key(table, column, index), lambda: _encode_curve(curve, files))], [table])


def _encode_curve(curve: RecallCurve, files: set[str]) -> list[Body]:
    return encode_derived(_TAG, {"curve": curve.depths}, files, [], 0)


def _decode_curve(data: memoryview) -> RecallCurve | None:
    try:
        header, _ = decode_derived(_TAG, data)
        return RecallCurve(tuple(_iter_depths(header["curve"])))
    except (DerivedDataError, KeyError, TypeError, ValueError, json.JSONDecodeError) as error:
        log.warning("the stored recall of an index can't be used (%s) and is measured again", error)
        return None


def _iter_depths(curve: Sequence[Sequence[object]]) -> Iterator[tuple[int, tuple[tuple[int, float], ...]]]:
    for depth, points in curve:
        assert isinstance(points, list)  # noqa: S101 - as it was encoded
        yield int(str(depth)), tuple((int(cells), float(recall)) for cells, recall in points)
