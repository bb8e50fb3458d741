"""Report the recall of `nearest` by a vector index, without a filter and with filters that few rows pass."""

import numpy as np

from omnigraph.engine.execution_context import ExecutionContext
from omnigraph.engine.search.index_ranking import find_index, rank_by_index
from omnigraph.engine.search.nearest_search import VectorSearch
from omnigraph.engine.search.recall import draw_queries
from omnigraph.schema.catalog import Property
from omnigraph.storage.vector_search import search_all_rows

# The shares of the rows that pass, as the report names them.
SHARES = ("1", "0.1", "0.01", "0.001")
TOP = 10
_QUERIES = 24
# Deep enough that the ten nearest of one row in a thousand are among these.
_MAX_TRUE_ROWS = 40_000


def measure_shares(context: ExecutionContext, type_name: str, declared: Property) -> dict[str, float] | None:
    """Return the recall at each share of rows, drawn at random; None if the index can't be searched.

    A search that the planner does exactly has a recall of 1.
    """
    rows, column, settings = context.get_reader(type_name), declared.name, declared.vector_index
    assert settings is not None  # noqa: S101 - callers measure declared indexes only
    queries, own = draw_queries(rows.table, column, _QUERIES)
    if not len(queries):
        return None
    first = VectorSearch(context, rows, column, queries[0].astype(np.float64), declared.metric)
    if find_index(first, settings) is None:
        return None
    context.budget.check()
    count = min(rows.count, _MAX_TRUE_ROWS)
    layout = rows.columns.layout
    truth = [
        layout.find_addresses(addresses)
        for addresses in search_all_rows(rows.table, column, declared.metric.value, queries, count)
    ]
    random = np.random.default_rng(1)
    live = rows.get_positions()
    recalls: dict[str, float] = {}
    for share in SHARES:
        passing = np.zeros(rows.size, np.bool_)
        passing[live[random.random(len(live)) < float(share)]] = True
        measured: list[float] = []
        for query, nearest, address in zip(queries, truth, own, strict=True):
            context.budget.check()
            # The row of the query itself is found by any search, and is no candidate.
            itself = layout.find_addresses(np.array([address]))
            candidates = np.setdiff1d(np.flatnonzero(passing), itself)
            search = VectorSearch(context, rows, column, query.astype(np.float64), declared.metric)
            ranked = rank_by_index(search, settings, candidates, TOP)
            true = nearest[np.isin(nearest, candidates)][:TOP]
            if ranked is None or ranked.recall is None or not len(true):
                measured.append(1.0)
                continue
            best = ranked.positions[np.argsort(ranked.distances, kind="stable")[:TOP]]
            measured.append(float(np.isin(true, best).mean()))
        recalls[share] = round(float(np.mean(measured)), 4)
    return recalls
