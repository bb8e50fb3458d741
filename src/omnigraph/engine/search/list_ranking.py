"""Order the best rows of another rank anew: so that they differ (`mmr`), or by a model that reads them (`rerank`)."""

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from omnigraph.engine.bindings import Positions
from omnigraph.engine.execution_context import ExecutionContext
from omnigraph.engine.search.nearest_neighbours import to_matrix
from omnigraph.engine.search.scores import Floats, Scores
from omnigraph.engine.search.search_arguments import reserve, resolve_text
from omnigraph.engine.tables.union_reader import UnionReader
from omnigraph.query.expr import Mmr, Rerank
from omnigraph.storage.arrow_buffers import build_array, is_valid

# Likeness is compared rounded to this number of digits: the sums of equal directions differ in the last bits.
_DIGITS = 12


def choose_different(
    context: ExecutionContext, rank: Mmr, type_name: str, pool: Scores, top: int | None
) -> tuple[Positions, Floats]:
    """Choose `top` rows of a pool one after the other, by relevance and by how little they are like earlier choices.

    Relevance is scaled: 1 for the best row of the pool and 0 for its worst. Likeness is the cosine of the vectors, 0 if
    they point apart or one is missing. The first of equal rows in the pool is chosen; rows that tie with the last one
    are chosen too.
    """
    count = len(pool.positions)
    if not count:
        return pool.positions, pool.values
    relevance = _scale(pool.values)
    width = rank.prop.type.size  # type: ignore[union-attr]  # the binder checked that it is a Vector
    # The pool has max(4 · (limit + offset), 100) rows, and only their vectors are read.
    with reserve(context.budget, 8 * count * width, "comparing rows by `mmr`"):
        units = _load_directions(context, rank, type_name, pool.positions)
        scores = np.full(count, np.nan)
        # Of each row to the nearest choice so far. It begins at 0 and only grows, so scores never rise from one choice
        # to the next, and the order by score is the order of choice. One product per choice replaces a matrix of all
        # pairs.
        likeness = np.zeros(count)
        is_left = np.ones(count, np.bool_)
        last = -np.inf
        for number in range(count):
            context.budget.check()
            values = rank.balance * relevance - (1.0 - rank.balance) * likeness
            values[~is_left] = -np.inf
            best = int(np.argmax(values))
            # Ties with the last one too: the caller decides among them by id, as it does for other ranks.
            if top is not None and number >= top and values[best] < last:
                break
            scores[best] = last = values[best]
            is_left[best] = False
            np.maximum(likeness, np.round(np.vecdot(units, units[best]), _DIGITS), out=likeness)
    chosen = np.flatnonzero(~is_left)
    return pool.positions[chosen], scores[chosen]


def _scale(values: Floats) -> Floats:
    low, high = float(values.min()), float(values.max())
    if high == low:
        return np.ones(len(values))
    # Divided first: the difference of two large scores may overflow.
    scaled: Floats = (values / 2 - low / 2) / (high / 2 - low / 2)
    return scaled


def _load_directions(context: ExecutionContext, rank: Mmr, type_name: str, at: Positions) -> Floats:
    """Return the vectors of some rows, each of length 1; zeros where there is none, or it has no direction."""
    vectors = _take(context, type_name, rank.prop.name, at)
    matrix = np.where(is_valid(vectors)[:, None], to_matrix(vectors), 0).astype(np.float64)
    # Divided by the largest number first, so that squares neither overflow nor vanish.
    largest = np.abs(matrix).max(axis=1, keepdims=True, initial=0.0)
    np.divide(matrix, largest, out=matrix, where=largest > 0)
    norms = np.sqrt(np.einsum("ij,ij->i", matrix, matrix))[:, None]
    directions: Floats = np.divide(matrix, norms, out=matrix, where=norms > 0)
    return directions


def rerank_pool(
    context: ExecutionContext, rank: Rerank, type_name: str, at: Positions
) -> tuple[Positions, NDArray[np.float64]]:
    """Return the rows of a pool that have a text, and their relevance by the configured reranker."""
    query = resolve_text(context.inputs, rank.query, "rerank")
    texts = _take(context, type_name, rank.prop.name, at)
    has_text = is_valid(texts)
    if not has_text.any():
        return at[:0], np.empty(0)
    context.budget.check()
    scores = context.rerank.judge(query, texts.filter(build_array(has_text)).to_pylist())
    return at[has_text], np.asarray(scores, np.float64)


def _take(context: ExecutionContext, type_name: str, column: str, at: Positions) -> pa.Array:
    """Return the values of a few rows; a column that is not in memory is not loaded for them."""
    rows = context.get_reader(type_name)
    if isinstance(rows, UnionReader) or rows.columns.is_resident(column) or rows.columns.costs.is_light(column):
        return rows.take_values(column, at, context.budget)
    return rows.columns.take_stored(column, at)
