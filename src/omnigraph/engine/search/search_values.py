"""Evaluate scores, distances and passages as values of rows that bind variables."""

from collections.abc import Mapping
from typing import Protocol

import pyarrow as pa

from omnigraph.engine.bindings import Positions
from omnigraph.engine.execution_context import ExecutionContext
from omnigraph.engine.search.column_index import get_language
from omnigraph.engine.search.fuzzy_score import score_texts
from omnigraph.engine.search.pair_distance import VectorSide, compute_pair_distances
from omnigraph.engine.search.ranking import score_rows
from omnigraph.engine.search.search_arguments import reserve, resolve_text
from omnigraph.engine.search.snippet import build_snippets
from omnigraph.engine.search.text_match import BYTES_PER_LETTER, resolve_pattern, stem_query
from omnigraph.engine.value_store import evaluate_bound, to_stored_type
from omnigraph.query.expr import (
    Bm25,
    Distance,
    Expr,
    FuzzyScore,
    Mmr,
    Nearest,
    Prop,
    Rerank,
    Rrf,
    SearchValue,
    Snippet,
    ValueRef,
)
from omnigraph.query.expr_tree import find_variable
from omnigraph.schema.catalog import Metric


class EvaluateRows(Protocol):
    """A function that evaluates an expression in some rows."""

    def __call__(self, expr: Expr, rows: Positions, /) -> pa.Array:
        """Return the values of these rows."""
        ...


def evaluate_search_value(
    expr: SearchValue,
    columns: Mapping[str, Positions],
    types: Mapping[str, str],
    size: int,
    context: ExecutionContext,
    evaluate: EvaluateRows,
) -> pa.Array:
    """Return a score, a distance or a passage in every row; null where a row has none."""
    match expr:
        case Distance():
            type_ = to_stored_type(expr.left.type)
            left, right = (_build_side(part, type_, columns, evaluate) for part in (expr.left, expr.right))
            return compute_pair_distances(left, right, size, type_.list_size, context.budget, _find_metric(expr))
        case Snippet():
            variable = expr.prop.variable
            texts = context.take_values(types[variable], expr.prop.name, columns[variable])
            query = resolve_text(context.inputs, expr.query, "snippet")
            with reserve(context.budget, len(query) * BYTES_PER_LETTER, "the words that `snippet` looks for"):
                language = get_language(context.get_reader(types[variable]), expr.prop.name)
                stems = stem_query(query, context.budget.check, language)
            return build_snippets(texts, stems, context.budget.check, language)
        case FuzzyScore():
            variable = expr.prop.variable
            rows = context.get_reader(types[variable])
            texts = context.take_values(types[variable], expr.prop.name, columns[variable])
            pattern = resolve_pattern(context, expr.match, rows)
            return score_texts(texts, pattern, context.budget, get_language(rows, expr.prop.name))
        case Nearest() | Bm25() | Rrf() | Mmr() | Rerank():
            variable = find_variable(expr)
            return evaluate_bound(columns[variable], lambda at: score_rows(context, expr, types[variable], at))


def _build_side(expr: Expr, type_: pa.DataType, columns: Mapping[str, Positions], evaluate: EvaluateRows) -> VectorSide:
    """Return how to read one side of a distance; a property or value of a variable is the same at one position."""
    keys = columns[expr.variable] if isinstance(expr, Prop | ValueRef) else None
    return VectorSide(lambda rows: evaluate(expr, rows).cast(type_), keys)


def _find_metric(expr: Distance) -> Metric:
    """Return the metric of the properties that are compared; both have the same. Other vectors have none."""
    return next((side.metric for side in (expr.left, expr.right) if isinstance(side, Prop)), Metric.COSINE)
