"""Makes the engine take the ways that it takes for large graphs, on small ones.

Every number here decides between two ways to the same answer.
"""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from importlib import import_module
from unittest.mock import patch

from omnigraph.engine.operators.reach import reach
from omnigraph.engine.run import answer, solve

LARGE: dict[str, float] = {
    "tables.adjacency._PATCH_BELOW": 1,
    "tables.column_costs._LIGHT_BYTES": 0,
    "tables.column_costs._MANY_QUESTIONS": 1,
    "tables.column_costs._SMALL_ROWS": 0,
    "tables.column_costs._TINY_ROWS": 0,
    "tables.statistics.SAMPLED": 2,
    "tables.statistics._COMMON": 1,
    "planning.cost.LOOKUP_SHARE": 1.0,
    "planning.cost.SMALL_EDGES": 0,
    "planning.drafting.MANY_ROWS": 2.0,
    "planning.drafting.MERGED_ROWS": 0.0,
    "planning.drafting.MERGED_SHARE": 0.0,
    "tables.id_index._CHUNK": 2,
    "operators.bit_reach.LEAST_WORK": 0,
    "operators.bit_reach.WORDS_PER_NEIGHBOUR": 1e9,
    "operators.bit_reach._AT_ONCE": 2,
    "operators.candidates._DENSE": 1,
    "operators.candidates._FEW": 1,
    "operators.candidates._MOST": 1_000_000,
    "operators.candidates._SPARSE": 1,
    "operators.close.MARKED_CELLS": 1,
    "operators.compact._DENSE": 0,
    "operators.links.MOST_LOOKUPS": 1,
    "operators.reach._DENSE": 0,
    "operators.reach.STEP_ROWS": 2,
    "operators.sweep._CHUNK": 2,
    "operators.weights._EXACT": 1.0,
    "output.distinct._MOST_CODES": 8,
    "output.distinct._SHARE": 1,
    "output.distinct._SMALL": 0,
    "output.distinct._SPARSE": 0,
    "output.exact_sum._CHUNK": 2,
    "output.exact_sum._EXACT_IN_FLOAT": 1,
    "output.keeping.FIRST_ROWS": 1,
    "output.kept_groups.SAMPLE": 2,
    "output.kept_groups.WINDOWS": 1,
    "output.levels._ASKED": 0,
    "output.levels._MANY": 1,
    "output.levels._SHARE": 1,
    "output.ordering._BLOCK": 2,
    "output.ordering._BLOCKS": 1,
    "output.ordering._MOST_PACKED": 8,
    "planning.part_plan.LED_ROWS": 0.0,
    "planning.physical.RANGED_SIDE": 0.0,
    "planning.part_plan._FEW_ROWS": 0.0,
    "planning.part_plan._ROOTS": 1,
    "tables.pushdown._GATHER_BELOW": 1,
    "tables.quick_compare._FEW_ROWS": 0,
    "tables.quick_compare._FEW_VALUES": 2,
    "tables.quick_compare._REPEATED": 0,
    "tables.read_cache.DERIVED_EDGES": 0,
    "writing.row_filter.BATCH_ROWS": 2,
    "search.analysis._CHUNK_BYTES": 16,
    "search.best._BLOCK": 2,
    "search.column_words.DERIVED_ROWS": 0,
    "search.column_words._BATCH_ROWS": 2,
    "search.text_match._FEW_IN": 1,
    "search.text_match._WORDS_AT_ONCE": 2,
    "search.directions._AT_ONCE": 2,
    "search.directions._BRANCHES": 2,
    "search.vectors._FEW": 1,
    "search.vectors._FIRST_TIMES": 1,
    "search.vectors._LONG": 0,
    "search.vectors._MANY_ROWS": 0,
    "search.vectors._GATHER_BELOW": 1,
    "search.vectors._ROWS_AT_ONCE": 2,
    "tables.table_rows._BULK": 1,
    "tables.table_rows._FEW_KEYS": 1,
    "tables.table_rows._ONE_BY_ONE": 1,
    "tables.table_rows._SELECTIVE": 1.1,
    "tables.table_rows._SELECTIVE_WITHOUT_ROOM": 1.1,
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
