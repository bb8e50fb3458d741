"""Makes the engine take the ways that it takes for large graphs, on small ones.

Every number here decides between two ways to the same answer.
"""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from importlib import import_module
from unittest.mock import patch

from omnigraph.engine.executor import answer, solve
from omnigraph.engine.operators.bfs import reach

LARGE: dict[str, float] = {
    "tables.csr._PATCH_BELOW": 1,
    "tables.column_residency._LIGHT_BYTES": 0,
    "tables.column_residency._MANY_QUESTIONS": 1,
    "tables.column_residency._SMALL_ROWS": 0,
    "tables.column_residency._TINY_ROWS": 0,
    "tables.column_statistics.SAMPLED": 2,
    "tables.column_statistics._COMMON": 1,
    "planning.cost_model.LOOKUP_SHARE": 1.0,
    "planning.cost_model.SMALL_EDGES": 0,
    "planning.plan_builder.MANY_ROWS": 2.0,
    "planning.plan_builder.MERGED_ROWS": 0.0,
    "planning.plan_builder.MERGED_SHARE": 0.0,
    "tables.id_hash_index._CHUNK": 2,
    "operators.bitset_bfs.LEAST_WORK": 0,
    "operators.bitset_bfs.WORDS_PER_NEIGHBOUR": 1e9,
    "operators.bitset_bfs._AT_ONCE": 2,
    "operators.candidates._DENSE": 1,
    "operators.candidates._FEW": 1,
    "operators.candidates._MOST": 1_000_000,
    "operators.candidates._SPARSE": 1,
    "operators.cycle_close.MARKED_CELLS": 1,
    "operators.compact._DENSE": 0,
    "operators.edge_access.MOST_LOOKUPS": 1,
    "operators.bfs._DENSE": 0,
    "operators.bfs.STEP_ROWS": 2,
    "operators.csr_sums._CHUNK": 2,
    "operators.multiplicity._EXACT": 1.0,
    "output.distinct._MOST_CODES": 8,
    "output.distinct._SHARE": 1,
    "output.distinct._SMALL": 0,
    "output.distinct._SPARSE": 0,
    "output.exact_sum._CHUNK": 2,
    "output.exact_sum._EXACT_IN_FLOAT": 1,
    "output.top_k_sink.FIRST_ROWS": 1,
    "output.aggregate_sink.SAMPLE": 2,
    "output.aggregate_sink.WINDOWS": 1,
    "output.sort_keys._ASKED": 0,
    "output.sort_keys._MANY": 1,
    "output.sort_keys._SHARE": 1,
    "output.sort._BLOCK": 2,
    "output.sort._BLOCKS": 1,
    "output.sort._MOST_PACKED": 8,
    "planning.join_order.LED_ROWS": 0.0,
    "planning.planner.RANGED_SIDE": 0.0,
    "planning.join_order._FEW_ROWS": 0.0,
    "planning.join_order._ROOTS": 1,
    "tables.access_path._GATHER_BELOW": 1,
    "tables.vector_compare._FEW_ROWS": 0,
    "tables.vector_compare._FEW_VALUES": 2,
    "tables.vector_compare._REPEATED": 0,
    "tables.graph_cache.DERIVED_EDGES": 0,
    "writing.row_filter.BATCH_ROWS": 2,
    "search.tokenizer._CHUNK_BYTES": 16,
    "search.nth_largest._BLOCK": 2,
    "search.column_index.DERIVED_ROWS": 0,
    "search.column_index._BATCH_ROWS": 2,
    "search.text_match._FEW_IN": 1,
    "search.text_match._WORDS_AT_ONCE": 2,
    "search.vector_clusters._AT_ONCE": 2,
    "search.vector_clusters._BRANCHES": 2,
    "search.nearest_neighbours._FEW": 1,
    "search.nearest_neighbours._FIRST_TIMES": 1,
    "search.nearest_neighbours._LONG": 0,
    "search.nearest_neighbours._MANY_ROWS": 0,
    "search.nearest_neighbours._GATHER_BELOW": 1,
    "search.nearest_neighbours._ROWS_AT_ONCE": 2,
    "tables.table_reader._BULK": 1,
    "tables.table_reader._FEW_KEYS": 1,
    "tables.table_reader._ONE_BY_ONE": 1,
    "tables.table_reader._SELECTIVE": 1.1,
    "tables.table_reader._SELECTIVE_WITHOUT_ROOM": 1.1,
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
        for function in (answer, solve):
            stack.enter_context(patch.dict(_defaults(function), {"chunk_rows": chunk_rows}))
        stack.enter_context(patch.dict(_defaults(reach), {"cells": cells}))
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
