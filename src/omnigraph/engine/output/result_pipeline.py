"""Turn the matches of a pattern into the rows of a result: rank, aggregate, deduplicate, sort, limit."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from omnigraph.engine.bindings import Bindings
from omnigraph.engine.execution_context import ExecutionContext
from omnigraph.engine.kernels import find_distinct
from omnigraph.engine.output.aggregate import group
from omnigraph.engine.output.distinct import select_distinct
from omnigraph.engine.output.projection import (
    Frame,
    Rows,
    ScoreColumn,
    build_frame,
    build_output_schema,
    project,
)
from omnigraph.engine.output.row_selection import filter_having, select_page
from omnigraph.engine.output.sort import SortKey, build_sort_keys
from omnigraph.engine.output.sort_keys import to_ordered_ints
from omnigraph.engine.output.windows import add_windows
from omnigraph.engine.query_budget import Budget
from omnigraph.engine.query_inputs import QueryInputs
from omnigraph.engine.search.ranking import rank_rows, score_rows
from omnigraph.engine.search.search_arguments import reserve
from omnigraph.query.counts import fold_number
from omnigraph.query.expr import LIST_RANKS, Computed, Expr, ListRank, Nearest, ParamRef, Rank, Rrf, Window
from omnigraph.query.expr_tree import find_variable, find_windows, walk
from omnigraph.query.logical_plan import Count, ReadQuery
from omnigraph.query.params import ParameterError, ParameterProblem

_BYTES_PER_VALUE = 8
# Comparing rows takes about three work arrays beside the values: their codes, the group of each row, and an order.
_WORK_COLUMNS = 3


@dataclass(frozen=True, slots=True)
class ResultFrame:
    """The ordered rows of a result before their columns are read."""

    query: ReadQuery
    frame: Frame
    schema: pa.Schema

    @property
    def notes(self) -> tuple[str, ...]:
        """What the caller should know about the rows: a traversal that its upper bound cut off."""
        return self.frame.context.list_notes()

    @property
    def size(self) -> int:
        """Number of rows."""
        return self.frame.size

    def fetch(self, start: int, stop: int) -> pa.RecordBatch:
        """Read the columns of the rows from `start` to before `stop`; a paused budget's clock runs during this call."""
        is_all = start == 0 and stop >= self.size
        budget = self.frame.context.budget
        with budget.resume():
            budget.check()
            return project(self.frame if is_all else self.frame.slice(start, stop), self.query, self.schema)

    def take(self, rows: Rows) -> pa.RecordBatch:
        """Read the columns of the rows with these numbers, in this order; the clock is as in `fetch`."""
        budget = self.frame.context.budget
        with budget.resume():
            budget.check()
            return project(self.frame.take(rows), self.query, self.schema)

    def read_columns(self, names: Sequence[str]) -> pa.Table:
        """Read some columns of all rows; the clock is as in `fetch`."""
        values = {column.name: column.value for column in self.query.output}
        with self.frame.context.budget.resume():
            return pa.table({name: self.frame.evaluate(values[name]) for name in names})

    @property
    def nbytes(self) -> int:
        """What it holds in memory: where the rows are, and what was computed of all of them."""
        frame = self.frame
        arrays = sum(positions.nbytes for positions in frame.bindings.columns.values())
        scores = sum(column.positions.nbytes + column.values.nbytes for column in frame.scores.values())
        return int(arrays + scores + sum(values.nbytes for values in frame.aggregates.values()))

    def with_budget(self, budget: Budget) -> "ResultFrame":
        """Return the same rows, to be fetched within another budget."""
        context = self.frame.context
        context = replace(context, budget=budget, inputs=replace(context.inputs, budget=budget))
        return replace(self, frame=replace(self.frame, context=context))


def build_result(query: ReadQuery, matches: Bindings | Frame, context: ExecutionContext) -> ResultFrame:
    """Build the result of a query from its matches, or from its groups if these are complete; reads no output column.

    Raises:
        QueryError: A count or sum is too large for its type.
        QueryMemoryError, QueryTimeoutError, QueryCancelledError: The budget ran out.
    """
    if isinstance(matches, Bindings):
        frame = build_frame(query, _expand_multiplicity(query, matches, context.budget), context)
    else:
        frame = matches
    first, last = resolve_row_range(query, context.inputs)
    rank: SortKey | None = None
    parts = (part for expr in _list_conditions(query) for part in walk(expr))
    if not query.kinds.isdisjoint(LIST_RANKS) and any(isinstance(part, ListRank) for part in parts):
        frame = _add_fused_scores(frame, query, first, last)
    if Window in query.kinds:
        frame = add_windows(frame, list(dict.fromkeys(w for expr in query.results for w in find_windows(expr))))
    if query.grouping is None:
        frame = filter_having(frame, query)
    if query.rank is not None:
        if isinstance(query.rank, Rrf) and query.rank in frame.scores:
            # A condition on the score needs all rows: they are scored already, and none was left out.
            rank = SortKey(query.rank, descending=True)
        else:
            frame, rank = _rank(frame, query.rank, frame.size if query.per else last)
    if query.grouping is not None and isinstance(matches, Bindings):
        columns = len(query.grouping.keys) + len(query.grouping.aggregates) + _WORK_COLUMNS
        with reserve(context.budget, frame.size * _BYTES_PER_VALUE * columns, f"grouping {frame.size:,} rows"):
            frame = filter_having(group(frame, query.grouping), query)
    elif query.distinct:
        columns = len(query.output) + _WORK_COLUMNS
        with reserve(context.budget, frame.size * _BYTES_PER_VALUE * columns, f"comparing {frame.size:,} rows"):
            frame = select_distinct(frame, query.compared)
    if query.is_ordered:
        frame = _sort_and_limit(frame, query, rank, first, last)
    return ResultFrame(query, frame, build_output_schema(query, context.catalog))


def resolve_row_range(query: ReadQuery, inputs: QueryInputs) -> tuple[int, int | None]:
    """Return the number of the first row of the result, and the end after its last row (None without LIMIT).

    Raises:
        ParameterError: A parameter that counts rows is negative.
    """
    offset = resolve_count(query.offset, "offset", inputs) or 0
    limit = resolve_count(query.limit, "limit", inputs)
    return offset, None if limit is None else offset + limit


def resolve_count(count: Count | None, word: str, inputs: QueryInputs) -> int | None:
    """Return a number of rows, which may be a parameter.

    Raises:
        ParameterError: It is negative, or parameters make no whole number.
    """
    if count is None or isinstance(count, int):
        return count
    if isinstance(count, Computed):
        return _calculate_count(count, word, inputs)
    value = inputs.resolve(count)
    assert isinstance(value, int)  # noqa: S101 - the binder checked the type, and that the parameter is required
    if value < 0:
        reason = f"parameter `${count.name}: {count.type}`: `{word}` takes a whole number of at least 0, got {value}"
        raise ParameterError([ParameterProblem(count.name, reason, str(count.type), str(value))])
    return value


def _calculate_count(count: Computed, word: str, inputs: QueryInputs) -> int:
    value = fold_number(count, inputs.resolve)
    if isinstance(value, int) and value >= 0:
        return value
    names = [part.name for part in walk(count) if isinstance(part, ParamRef)]
    reason = f"`{word}` takes a whole number of at least 0, but `{count.text}` is {'null' if value is None else value}"
    raise ParameterError([ParameterProblem(names[0] if names else word, reason, str(count.type), str(value))])


def _expand_multiplicity(query: ReadQuery, bindings: Bindings, budget: Budget) -> Bindings:
    """Repeat each row by its multiplicity, unless aggregates count it or DISTINCT merges equal rows."""
    if bindings.multiplicity is None or query.grouping is not None or query.distinct:
        return bindings
    # Summed in floating point: a sum that wraps around in 64 bits would pass the budget.
    rows = int(bindings.multiplicity.sum(dtype=np.float64))
    budget.claim(rows * _BYTES_PER_VALUE * (len(bindings.columns) + 1), f"{rows:,} rows")
    return Bindings(bindings.columns, bindings.size).take(np.repeat(np.arange(bindings.size), bindings.multiplicity))


def _sort_and_limit(frame: Frame, query: ReadQuery, rank: SortKey | None, first: int, last: int | None) -> Frame:
    keys = build_sort_keys(query, rank)
    with reserve(frame.context.budget, frame.size * _BYTES_PER_VALUE * 4, f"sorting {frame.size:,} rows"):
        return frame.take(select_page(frame, query, keys, first, last))


def _rank(frame: Frame, rank: Rank, top: int | None) -> tuple[Frame, SortKey]:
    """Return the rows among the `top` of a rank, and the sort key of the rank.

    Rows that tie with the last of them stay: the sort keys after the rank decide between them.
    """
    variable = find_variable(rank)
    at = frame.get_positions(variable)
    # A node may be in several matches, and is scored once; a row without one has a negative position.
    distinct = _find_distinct_rows(frame, frame.types[variable], at)
    candidates = distinct[np.searchsorted(distinct, 0) :]
    ranked = rank_rows(frame.context, rank, frame.types[variable], candidates, top, with_ties=True)
    scores = ScoreColumn(ranked.positions, ranked.values)
    if distinct is at:
        # Each node is in one match, and they ascend: a few are found among many, not many among few.
        rows, indices = np.searchsorted(at, scores.positions), np.arange(len(scores.positions))
    else:
        indices, has_score = scores.find(at)
        rows = np.flatnonzero(has_score)
        indices = indices[rows]
    top_frame = replace(frame.take(rows), scores={**frame.scores, rank: scores})
    by_score = to_ordered_ints(pa.array(scores.values, pa.float64()))[indices]
    # `nearest` is a distance, the smallest first; the others are scores.
    return top_frame, SortKey(None, descending=not isinstance(rank, Nearest), ranks=by_score)


def _find_distinct_rows(frame: Frame, type_name: str, at: Rows) -> Rows:
    rows = frame.context.get_reader(type_name)
    # A scan of every row binds the reader's own array: comparing a million neighbours took 0.3 ms of 2.
    if len(at) == rows.count and at is rows.get_positions():
        return at
    return find_distinct(at, frame.context.budget.check)


def _add_fused_scores(frame: Frame, query: ReadQuery, first: int, last: int | None) -> Frame:
    """Add the scores of ranks in the output or a condition that depend on all candidates, also on dropped ones.

    A rank that only orders the rows is computed later, for the first of them.
    """
    scores = dict(frame.scores)
    conditions = () if query.having is None else tuple(walk(query.having))
    for rank in dict.fromkeys(part for expr in _list_conditions(query) for part in walk(expr)):
        if isinstance(rank, ListRank) and (rank != query.rank or rank in conditions):
            variable = find_variable(rank)
            every = frame.get_positions(variable)
            at = find_distinct(every[every >= 0], frame.context.budget.check)
            top = first if last is None else last
            if query.per and isinstance(rank, Rrf):
                # The first rows of a group may be far down: both lists have all rows.
                top = frame.size
            values = score_rows(frame.context, rank, frame.types[variable], at, candidates=at, top=top)
            scores[rank] = ScoreColumn(at, np.asarray(values))
    return replace(frame, scores=scores)


def _list_conditions(query: ReadQuery) -> tuple[Expr, ...]:
    """Return the output and the conditions: a score in them is a value and not only an order."""
    having = () if query.having is None else (query.having,)
    return (*(column.value for column in query.output), *having)
