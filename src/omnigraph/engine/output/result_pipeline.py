"""From the matches of a pattern to the rows of a result: rank, group, make distinct, order, cut."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from omnigraph.engine.bindings import Bindings
from omnigraph.engine.execution_context import ExecutionContext
from omnigraph.engine.kernels import Check, find_distinct
from omnigraph.engine.output.aggregate import group
from omnigraph.engine.output.distinct import select_distinct
from omnigraph.engine.output.projection import (
    Frame,
    ScoreColumn,
    build_frame,
    build_output_schema,
    find_ranked_variable,
    project,
)
from omnigraph.engine.output.sort import SortKey, build_sort_keys, sort_rows
from omnigraph.engine.output.sort_keys import to_ordered_ints
from omnigraph.engine.predicate_eval import QueryInputs
from omnigraph.engine.query_budget import Budget
from omnigraph.engine.search.ranking import rank_rows, score_rows
from omnigraph.query.expr import Nearest, Rank, Rrf
from omnigraph.query.logical_plan import Count, ReadQuery
from omnigraph.query.params import ParameterError, ParameterProblem

_BYTES_PER_VALUE = 8


@dataclass(frozen=True, slots=True)
class ResultFrame:
    """The rows of a result in their order, not fetched yet."""

    query: ReadQuery
    frame: Frame
    schema: pa.Schema

    @property
    def size(self) -> int:
        """How many rows there are."""
        return self.frame.size

    def fetch(self, start: int, stop: int) -> pa.RecordBatch:
        """The rows from `start` to before `stop`. The budget's clock runs meanwhile, and only then if it is paused."""
        is_all = start == 0 and stop >= self.size
        budget = self.frame.context.budget
        with budget.resume():
            budget.check()
            return project(self.frame if is_all else self.frame.slice(start, stop), self.query, self.schema)

    def with_budget(self, budget: Budget) -> "ResultFrame":
        """The same rows, to be fetched within another budget."""
        return replace(self, frame=replace(self.frame, context=replace(self.frame.context, budget=budget)))


def build_result(query: ReadQuery, found: Bindings | Frame, reading: ExecutionContext) -> ResultFrame:
    """What the query makes of its matches, or of its groups if that is what they are; no output is read yet.

    Raises:
        AggregateOverflowError: A count or sum is too large for its type.
        QueryMemoryError, QueryTimeoutError, QueryCancelledError: The budget ran out.
    """
    frame = (
        build_frame(query, _expand_multiplicity(query, found, reading.budget), reading)
        if isinstance(found, Bindings)
        else found
    )
    first, last = resolve_row_range(query, reading.inputs)
    rank: SortKey | None = None
    if any(isinstance(column.value, Rrf) for column in query.output):
        frame = _add_fused_scores(frame, query, first, last)
    if query.rank is not None:
        frame, rank = _rank(frame, query.rank, last)
    if query.grouping is not None and isinstance(found, Bindings):
        keys = len(query.grouping.keys) + len(query.grouping.aggregates)
        with _reserve(reading.budget, frame.size * _BYTES_PER_VALUE * (keys + 3), f"grouping {frame.size:,} rows"):
            frame = group(frame, query.grouping)
    elif query.distinct:
        with _reserve(
            reading.budget, frame.size * _BYTES_PER_VALUE * (len(query.output) + 3), f"comparing {frame.size:,} rows"
        ):
            frame = select_distinct(frame, [column.value for column in query.output])
    if query.is_ordered:
        frame = _sort_and_limit(frame, query, rank, first, last)
    return ResultFrame(query, frame, build_output_schema(query))


def resolve_row_range(query: ReadQuery, inputs: QueryInputs) -> tuple[int, int | None]:
    """The first row that comes out, and the one behind the last (None: there is no limit).

    Raises:
        ParameterError: A parameter that counts rows is negative.
    """
    offset, limit = _resolve_count(query.offset, "offset", inputs), _resolve_count(query.limit, "limit", inputs)
    return offset or 0, None if limit is None else (offset or 0) + limit


def _resolve_count(count: Count | None, word: str, inputs: QueryInputs) -> int | None:
    if count is None or isinstance(count, int):
        return count
    value = inputs.resolve(count)
    assert isinstance(value, int)  # noqa: S101 - the binder has seen to the type, and that it is required
    if value < 0:
        reason = f"parameter `${count.name}: {count.type}`: `{word}` takes a whole number of at least 0, got {value}"
        raise ParameterError([ParameterProblem(count.name, reason, str(count.type), str(value))])
    return value


def _expand_multiplicity(query: ReadQuery, bindings: Bindings, budget: Budget) -> Bindings:
    """A row for each match, unless groups count them or equal ones are one anyway."""
    if bindings.multiplicity is None or query.grouping is not None or query.distinct:
        return bindings
    rows = int(bindings.multiplicity.sum(dtype=np.float64))
    budget.claim(rows * _BYTES_PER_VALUE * (len(bindings.columns) + 1), f"{rows:,} rows")
    return Bindings(bindings.columns, bindings.size).take(np.repeat(np.arange(bindings.size), bindings.multiplicity))


def _sort_and_limit(frame: Frame, query: ReadQuery, rank: SortKey | None, first: int, last: int | None) -> Frame:
    keys = build_sort_keys(query, rank)
    with _reserve(frame.context.budget, frame.size * _BYTES_PER_VALUE * 4, f"sorting {frame.size:,} rows"):
        rows = sort_rows(frame, keys, last)
        return frame.take(rows[first:last])


def _rank(frame: Frame, rank: Rank, top: int | None) -> tuple[Frame, SortKey]:
    """The rows that the rank has among its best, and the key that sorts by it.

    Rows that tie with the last of the best stay: the keys behind the rank decide between them.
    """
    variable = find_ranked_variable(rank)
    at = frame.get_positions(variable)
    among = _find_distinct(at, frame.context.budget.check)
    found = rank_rows(frame.context, rank, frame.types[variable], among, top, with_ties=True)
    scores = ScoreColumn(found.positions, found.values)
    places, is_there = scores.find(at)
    rows = np.flatnonzero(is_there)
    kept = replace(frame.take(rows), scores={**frame.scores, rank: scores})
    by_score = to_ordered_ints(pa.array(scores.values, pa.float64()))[places[rows]]
    return kept, SortKey(None, descending=not isinstance(rank, Nearest), ranks=by_score)


def _add_fused_scores(frame: Frame, query: ReadQuery, first: int, last: int | None) -> Frame:
    """The frame with the scores of every `rrf` in the output: they depend on all candidates, also on those cut off."""
    scores = dict(frame.scores)
    for column in query.output:
        rank = column.value
        if isinstance(rank, Rrf) and rank != query.rank:
            variable = find_ranked_variable(rank)
            at = _find_distinct(frame.get_positions(variable), frame.context.budget.check)
            top = first if last is None else last
            values = score_rows(frame.context, rank, frame.types[variable], at, candidates=at, top=top)
            scores[rank] = ScoreColumn(at, np.asarray(values))
    return replace(frame, scores=scores)


def _find_distinct(positions: NDArray[np.int64], check: Check) -> NDArray[np.int64]:
    if len(positions) < 2 or bool(np.all(positions[1:] > positions[:-1])):
        return positions
    return find_distinct(positions, check)


@contextmanager
def _reserve(budget: Budget, nbytes: int, what: str) -> Iterator[None]:
    budget.claim(nbytes, what)
    try:
        yield
    finally:
        budget.release(nbytes)
