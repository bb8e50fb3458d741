"""From the matches of a pattern to the rows of a result: rank, group, make distinct, order, cut."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from omnigraph.engine.bindings import Bindings
from omnigraph.engine.execution_context import Reading
from omnigraph.engine.kernels import Check, distinct_values
from omnigraph.engine.output.aggregate import group
from omnigraph.engine.output.distinct import distinct_rows
from omnigraph.engine.output.projection import Frame, ScoreColumn, frame_of, output_schema, project, ranked_variable
from omnigraph.engine.output.sort import Key, keys_of, ordered_rows
from omnigraph.engine.output.sort_keys import ordered_ints
from omnigraph.engine.predicate_eval import Inputs
from omnigraph.engine.query_budget import Budget
from omnigraph.engine.search.ranking import rank_rows, score_values
from omnigraph.query.expr import Nearest, Rank, Rrf
from omnigraph.query.logical_plan import Count, ReadQuery
from omnigraph.query.params import ParameterError, ParameterProblem

_WORD = 8


@dataclass(frozen=True, slots=True)
class Answer:
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
        budget = self.frame.reading.budget
        with budget.working():
            budget.check()
            return project(self.frame if is_all else self.frame.slice(start, stop), self.query, self.schema)

    def within(self, budget: Budget) -> "Answer":
        """The same rows, to be fetched within another budget."""
        return replace(self, frame=replace(self.frame, reading=replace(self.frame.reading, budget=budget)))


def finish(query: ReadQuery, found: Bindings | Frame, reading: Reading) -> Answer:
    """What the query makes of its matches, or of its groups if that is what they are; no output is read yet.

    Raises:
        AggregateOverflowError: A count or sum is too large for its type.
        QueryMemoryError, QueryTimeoutError, QueryCancelledError: The budget ran out.
    """
    frame = frame_of(query, _listed(query, found, reading.budget), reading) if isinstance(found, Bindings) else found
    first, last = bounds(query, reading.inputs)
    rank: Key | None = None
    if any(isinstance(column.value, Rrf) for column in query.output):
        frame = _fused(frame, query, first, last)
    if query.rank is not None:
        frame, rank = _ranked(frame, query.rank, last)
    if query.grouping is not None and isinstance(found, Bindings):
        keys = len(query.grouping.keys) + len(query.grouping.aggregates)
        with _claimed(reading.budget, frame.size * _WORD * (keys + 3), f"grouping {frame.size:,} rows"):
            frame = group(frame, query.grouping)
    elif query.distinct:
        with _claimed(reading.budget, frame.size * _WORD * (len(query.output) + 3), f"comparing {frame.size:,} rows"):
            frame = distinct_rows(frame, [column.value for column in query.output])
    if query.is_ordered:
        frame = _ordered(frame, query, rank, first, last)
    return Answer(query, frame, output_schema(query))


def bounds(query: ReadQuery, inputs: Inputs) -> tuple[int, int | None]:
    """The first row that comes out, and the one behind the last (None: there is no limit).

    Raises:
        ParameterError: A parameter that counts rows is negative.
    """
    offset, limit = _count(query.offset, "offset", inputs), _count(query.limit, "limit", inputs)
    return offset or 0, None if limit is None else (offset or 0) + limit


def _count(count: Count | None, word: str, inputs: Inputs) -> int | None:
    if count is None or isinstance(count, int):
        return count
    value = inputs.value(count)
    assert isinstance(value, int)  # noqa: S101 - the binder has seen to the type, and that it is required
    if value < 0:
        reason = f"parameter `${count.name}: {count.type}`: `{word}` takes a whole number of at least 0, got {value}"
        raise ParameterError([ParameterProblem(count.name, reason, str(count.type), str(value))])
    return value


def _listed(query: ReadQuery, bindings: Bindings, budget: Budget) -> Bindings:
    """A row for each match, unless groups count them or equal ones are one anyway."""
    if bindings.weight is None or query.grouping is not None or query.distinct:
        return bindings
    rows = int(bindings.weight.sum(dtype=np.float64))
    budget.claim(rows * _WORD * (len(bindings.columns) + 1), f"{rows:,} rows")
    return Bindings(bindings.columns, bindings.size).take(np.repeat(np.arange(bindings.size), bindings.weight))


def _ordered(frame: Frame, query: ReadQuery, rank: Key | None, first: int, last: int | None) -> Frame:
    keys = keys_of(query, rank)
    with _claimed(frame.reading.budget, frame.size * _WORD * 4, f"sorting {frame.size:,} rows"):
        rows = ordered_rows(frame, keys, last)
        return frame.take(rows[first:last])


def _ranked(frame: Frame, rank: Rank, top: int | None) -> tuple[Frame, Key]:
    """The rows that the rank has among its best, and the key that sorts by it.

    Rows that tie with the last of the best stay: the keys behind the rank decide between them.
    """
    variable = ranked_variable(rank)
    at = frame.positions(variable)
    among = _distinct(at, frame.reading.budget.check)
    found = rank_rows(frame.reading, rank, frame.types[variable], among, top, with_ties=True)
    scores = ScoreColumn(found.positions, found.values)
    places, is_there = scores.places(at)
    rows = np.flatnonzero(is_there)
    kept = replace(frame.take(rows), scores={**frame.scores, rank: scores})
    by_score = ordered_ints(pa.array(scores.values, pa.float64()))[places[rows]]
    return kept, Key(None, descending=not isinstance(rank, Nearest), places=by_score)


def _fused(frame: Frame, query: ReadQuery, first: int, last: int | None) -> Frame:
    """The frame with the scores of every `rrf` in the output: they depend on all candidates, also on those cut off."""
    scores = dict(frame.scores)
    for column in query.output:
        rank = column.value
        if isinstance(rank, Rrf) and rank != query.rank:
            variable = ranked_variable(rank)
            at = _distinct(frame.positions(variable), frame.reading.budget.check)
            top = first if last is None else last
            values = score_values(frame.reading, rank, frame.types[variable], at, candidates=at, top=top)
            scores[rank] = ScoreColumn(at, np.asarray(values))
    return replace(frame, scores=scores)


def _distinct(positions: NDArray[np.int64], check: Check) -> NDArray[np.int64]:
    if len(positions) < 2 or bool(np.all(positions[1:] > positions[:-1])):
        return positions
    return distinct_values(positions, check)


@contextmanager
def _claimed(budget: Budget, nbytes: int, what: str) -> Iterator[None]:
    budget.claim(nbytes, what)
    try:
        yield
    finally:
        budget.release(nbytes)
