"""Makes the engine take the ways that it takes for large graphs, on small ones.

Every number here decides between two ways to the same answer.
"""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from importlib import import_module
from unittest.mock import patch

from omnigraph.engine.executor import execute, solve
from omnigraph.engine.operators.bfs import run_bfs

LARGE: dict[str, float] = {
    "tables.csr._MIN_EDGES_PER_EDIT": 1,
    "tables.column_residency._LIGHT_BYTES": 0,
    "tables.column_residency._MANY_LOOKUPS": 1,
    "tables.column_residency._SMALL_ROWS": 0,
    "tables.column_residency._TINY_ROWS": 0,
    "tables.taken_rows.MAX_KEPT_ROWS": 2,
    "tables.column_statistics.SAMPLE_ROWS": 2,
    "tables.column_statistics._MAX_COMMON_VALUES": 1,
    "planning.cost_model.MAX_LOOKUP_SHARE": 1.0,
    "planning.cost_model.MAX_SMALL_EDGES": 0,
    "planning.plan_builder.MIN_DISTINCT_ROWS": 2.0,
    "planning.plan_builder.MIN_MERGED_ROWS": 0.0,
    "planning.plan_builder.MIN_MERGE_FACTOR": 0.0,
    "planning.plan_builder.MIN_HUB_EDGES": 0.0,
    "pipeline.MIN_HUB_ROWS": 0,
    "pipeline.MIN_HUB_FACTOR": 0,
    "tables.id_hash_index._CHUNK_IDS": 2,
    "operators.bitset_bfs.MIN_WORK": 0,
    "operators.bitset_bfs.MAX_WORDS_PER_NEIGHBOUR": 1e9,
    "operators.bitset_bfs._CHUNK_ROWS": 2,
    "operators.candidates._DROP_DIVISOR": 1,
    "operators.candidates._FEW_DIVISOR": 1,
    "operators.candidates._SWEEP_DIVISOR": 1_000_000,
    "operators.candidates._SPARSE_DIVISOR": 1,
    "operators.cycle_close.MIN_MARKED_ROWS": 0,
    "operators.cycle_close.MAX_MARKED_PER_ROW": 1_000_000,
    "operators.cycle_close._MIN_CELL_BITS": 2,
    "operators.cycle_close._CELLS_PER_NEIGHBOUR": 1,
    "operators.cycle_close.MIN_SHORTER": 0,
    "operators.reduced_lists.MIN_GATHERED": 0,
    "operators.reduced_lists.MIN_REPEATS": 0,
    "operators.edge_access.MAX_SHARE": 1.0,
    "operators.neighbour_lists.MIN_PARALLEL_ROWS": 1,
    "parallel.MIN_PARALLEL_ROWS": 1,
    "parallel.MAX_CHUNK_ROWS": 2,
    "operators.distinct._DENSE_FACTOR": 0,
    "operators.edge_access.MAX_LOOKUPS": 1,
    "operators.join._MAX_CODES_PER_KEY": 0,
    "operators.join._MIN_SORTED_KEYS": 0,
    "operators.text_parts.MIN_HASHED_PARTS": 0,
    "operators.text_parts.MAX_BLOCK_BYTES": 4,
    "operators.bfs._DENSE_DIVISOR": 0,
    "operators.bfs.MAX_STEP_ROWS": 2,
    "operators.csr_sums._CHUNK_NEIGHBOURS": 2,
    "operators.multiplicity._MAX_EXACT_FLOAT": 1.0,
    "output.distinct._MAX_CODES": 8,
    "output.distinct._MAX_TABLE_ROWS_PER_ROW": 1,
    "output.distinct._SMALL_CODE_RANGE": 0,
    "output.distinct._MAX_CODES_PER_ROW": 0,
    "output.exact_sum._CHUNK_ROWS": 2,
    "output.exact_sum._MAX_EXACT_FLOAT": 1,
    "output.top_k_sink.FIRST_CHUNK_ROWS": 1,
    "output.aggregate_sink.SAMPLE_ROWS": 2,
    "output.aggregate_sink.SAMPLES_PER_STRIDE": 1,
    "output.sort_keys._MAX_UNRANKED_REQUESTS": 0,
    "output.sort_keys._MIN_RANKED_ROWS": 1,
    "output.sort_keys._MAX_TABLE_ROWS_PER_ROW": 1,
    "output.sort._BLOCK_ROWS": 2,
    "output.sort._MIN_BLOCKS_PER_ROW": 1,
    "output.sort._MAX_PACKED_KEY": 8,
    "output.sort._LARGE_TOP_DIVISOR": 2,
    "output.sort._MAX_EXTRA_ROWS": -1_000,
    "parallel._SELECTION_SAMPLES": 3,
    "parallel._SAMPLE_MARGIN": 0,
    "planning.join_order.MIN_ORDERED_ROWS": 0.0,
    "planning.decorrelate.MIN_REPEATED_EDGES": 0.0,
    "planning.decorrelate.MIN_REPEATS": 0.0,
    "planning.planner.MIN_RANGE_JOIN_PAIRS": 0.0,
    "planning.planner.MIN_SPLIT_ROWS": 0.0,
    "planning.planner.MIN_SPLIT_FACTOR": 0.0,
    "planning.join_order._MAX_RARE_ROWS": 0.0,
    "planning.join_order._MAX_COMPARED_ROOTS": 1,
    "tables.access_path._GATHER_BELOW": 1,
    "tables.vector_compare._MAX_SINGLE_ROWS": 0,
    "tables.vector_compare._MAX_CODED_VALUES": 2,
    "tables.vector_compare._MIN_REPEATS": 0,
    "tables.graph_cache.MIN_DERIVED_EDGES": 0,
    "writing.row_filter.BATCH_ROWS": 2,
    "search.tokenizer._CHUNK_BYTES": 16,
    "search.nth_largest._BLOCK_VALUES": 2,
    "search.column_index.MIN_STORED_ROWS": 0,
    "search.column_index._BATCH_ROWS": 2,
    "search.column_index.MAX_SEGMENT_ROWS": 3,
    "search.index_codec.BLOCK_TOKENS": 2,
    "search.stored_index.BLOCK_TOKENS": 2,
    "search.segment_reader.BLOCK_TOKENS": 2,
    "search.index_codec._TOKENS_PER_STEP": 2,
    "tables.derived_pages.PAGE_BYTES": 64,
    "tables.derived_pages._MAX_GAP_PAGES": 1,
    "search.text_match._MIN_ROWS_PER_CANDIDATE": 1,
    "search.text_match._MAX_CHUNK_WORDS": 2,
    "search.pair_distance._MAX_VECTOR_BYTES": 0,
    "search.pair_distance._MIN_ROWS": 3,
    "search.pair_distance._BLOCK_BYTES": 64,
    "search.pair_distance._DENSE_FACTOR": 1,
    "search.vector_clusters._CHUNK_ROWS": 2,
    "search.vector_clusters._CENTRES_PER_LEVEL": 2,
    "search.nearest_neighbours._MAX_EXACT_VECTORS": 1,
    "search.nearest_neighbours._CANDIDATES_PER_RESULT": 1,
    "search.nearest_neighbours._MIN_CLUSTERED_SIZE": 0,
    "search.nearest_neighbours._MIN_CLUSTERED_ROWS": 0,
    "search.nearest_neighbours._GATHER_FACTOR": 1,
    "search.nearest_neighbours.CHUNK_ROWS": 2,
    "tables.table_reader._BULK_DIVISOR": 1,
    "tables.table_reader._MIN_ROWS_PER_KEY": 1,
    "tables.table_reader._MAX_SINGLE_LOOKUPS": 1,
    "tables.table_reader._MAX_SELECTIVITY": 1.1,
    "tables.table_reader._MAX_SELECTIVITY_WITHOUT_ROOM": 1.1,
}
"""Limits of `omnigraph.engine`, by module and name, and values so low that every graph is beyond them."""


def gone() -> list[str]:
    """Those of the limits that the engine does not have any more."""
    return [limit for limit in LARGE if not _has(limit)]


@contextmanager
def as_if_large(chunk_rows: int = 3, cells: int = 9) -> Iterator[None]:
    """Inside, every graph is large."""
    with ExitStack() as stack:
        for limit, value in LARGE.items():
            if _has(limit):
                stack.enter_context(patch(f"omnigraph.engine.{limit}", value))
        for function in (execute, solve):
            stack.enter_context(patch.dict(_defaults(function), {"chunk_rows": chunk_rows}))
        stack.enter_context(patch.dict(_defaults(run_bfs), {"cells": cells}))
        yield


def _has(limit: str) -> bool:
    module, _, name = limit.rpartition(".")
    try:
        return hasattr(import_module(f"omnigraph.engine.{module}"), name)
    except ModuleNotFoundError:
        return False


def _defaults(function: object) -> dict[str, object]:
    found: dict[str, object] = function.__kwdefaults__  # type: ignore[attr-defined]  # of every Python function
    return found
