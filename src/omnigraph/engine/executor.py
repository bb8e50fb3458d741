"""Running a physical plan: step after step over one table of bindings, in pieces where it grows large."""

from collections.abc import Mapping
from typing import assert_never

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from omnigraph.engine.bindings import Bindings, Positions
from omnigraph.engine.execution_context import Reading
from omnigraph.engine.operators.candidates import CHUNK_ROWS, Candidates
from omnigraph.engine.operators.chunking import Collected
from omnigraph.engine.operators.compact import compact
from omnigraph.engine.operators.cycle_close import close
from omnigraph.engine.operators.edge_access import Links
from omnigraph.engine.operators.expand import Closing, expand, held, is_closed_by, towards
from omnigraph.engine.operators.filter import BindingValues, truths
from omnigraph.engine.operators.join import Matched, join, matched, product, weighed
from omnigraph.engine.operators.multiplicity import checked, multiplied, packed
from omnigraph.engine.output.aggregate_sink import KeptGroups
from omnigraph.engine.output.distinct import merged_rows
from omnigraph.engine.output.projection import Frame
from omnigraph.engine.output.result_pipeline import Answer, bounds, finish
from omnigraph.engine.output.top_k_sink import Keeping
from omnigraph.engine.physical_plan import (
    SEED,
    AntiJoin,
    Check,
    Close,
    Compact,
    Expand,
    Filter,
    Join,
    Link,
    Merge,
    Node,
    Nothing,
    PhysicalPlan,
    Product,
    Scan,
    Step,
)
from omnigraph.engine.pipeline import Flow
from omnigraph.engine.predicate_eval import as_shared, evaluate_over, shared_type
from omnigraph.query.expr import EdgeRef, Expr, Identity, Meta, NodeRef, Op, variables
from omnigraph.query.logical_plan import ReadQuery
from omnigraph.schema.types import ValueType
from omnigraph.storage.arrow_buffers import array_of

_UNIT = Bindings({}, 1)


def answer(query: ReadQuery, plan: PhysicalPlan, reading: Reading, *, chunk_rows: int = CHUNK_ROWS) -> Answer:
    """The rows of a query, not fetched yet; of matches that are many, only what they are made of is ever held.

    Raises:
        QueryTimeoutError, QueryMemoryError, QueryCancelledError: It would use more than it may.
        CountOverflowError: There are more matches than 64 bits count.
        AggregateOverflowError: A count or sum is too large for its type.
    """
    chunk_rows = _at_once(reading, chunk_rows)
    _, last = bounds(query, reading.inputs)
    sink: KeptGroups | Keeping
    if query.grouping is not None:
        sink = KeptGroups(query, query.grouping, reading, last, counts=plan.counts, chunk_rows=chunk_rows)
    else:
        sink = Keeping(query, reading, last, chunk_rows=chunk_rows)
    run = _Run(reading, chunk_rows)
    try:
        Flow(run, sink, counts=plan.counts).run(plan.steps, _UNIT)
        found = sink.found()
    finally:
        run.end()
        reading.let_go()
    done = finish(query, _matches(plan, found) if isinstance(found, Bindings) else found, reading)
    reading.budget.check()  # an answer that took too long is none, however little was left to do
    return done


def solve(plan: PhysicalPlan, reading: Reading, *, chunk_rows: int = CHUNK_ROWS) -> Bindings:
    """All matches of the plan's pattern, as positions of its variables.

    Raises:
        QueryTimeoutError, QueryMemoryError, QueryCancelledError: It would use more than it may.
        CountOverflowError: There are more matches than 64 bits count.
    """
    run = _Run(reading, _at_once(reading, chunk_rows))
    try:
        found = run.steps(plan.steps, _UNIT, counts=plan.counts)
    finally:
        run.end()
        reading.let_go()
    return _matches(plan, found)


def _matches(plan: PhysicalPlan, found: Bindings) -> Bindings:
    columns = {name: found.columns.get(name, _NO_ROWS) for name in plan.variables}
    return Bindings(columns, found.size, checked(found.weight) if plan.counts else None)


def _at_once(reading: Reading, chunk_rows: int) -> int:
    """How many rows a step may make at once: fewer with a small budget."""
    return int(min(chunk_rows, max(reading.budget.memory_bytes // _BYTES_OF_A_ROW, _LEAST_ROWS)))


_NO_ROWS = np.zeros(0, np.int64)
_BYTES_OF_A_ROW, _LEAST_ROWS = 256, 1 << 12
"""What is made of a row while it goes through the steps takes about so much."""


class _Run:
    """One run of a plan; what its nodes and hops worked out for whole tables is kept until it ends."""

    def __init__(self, reading: Reading, chunk_rows: int) -> None:
        self.reading, self.chunk_rows = reading, chunk_rows
        self._candidates: dict[int, Candidates] = {}
        self._links: dict[int, Links] = {}
        self.solved: dict[int, Bindings] = {}
        self.matched: tuple[Join, Bindings, Matched] | None = None

    def end(self) -> None:
        """Let go of what was kept, which refers to the run itself: else all that it read waits for the collector."""
        self._candidates.clear()
        self._links.clear()
        self.solved.clear()
        self.matched = None

    def steps(self, steps: tuple[Step, ...], bindings: Bindings, *, counts: bool) -> Bindings:
        """Run steps one after the other, and hold all that they make."""
        last = steps[-1] if steps else None
        found = Collected(self.reading.budget, last, counts=counts, chunk_rows=self.chunk_rows)
        Flow(self, found, counts=counts).run(steps, bindings)
        return found.bindings()

    def closing(self, step: Step, then: tuple[Step, ...]) -> Closing | None:
        """The condition behind a hop that can be asked together with it."""
        if not then or not isinstance(step, Expand):
            return None
        (condition,) = then
        if not isinstance(condition, Close):
            return None
        links = self.links_of(condition.link)
        if not is_closed_by(step, condition, links):
            return None
        return condition, towards(condition, step.node.variable, links)

    def step(self, step: Step, bindings: Bindings, closing: Closing | None, *, counts: bool) -> Bindings:
        """Run one step, together with the condition behind it if there is one; measured, if that is asked for."""
        self.reading.budget.check()
        trace = self.reading.trace
        if trace is None:
            return self._apply(step, bindings, closing, counts=counts)
        if closing is not None:
            trace.of(step.number).joined_with = closing[0].number
        with trace.measured(step.number if closing is None else closing[0].number) as actual:
            found = self._apply(step, bindings, closing, counts=counts)
            actual.rows += found.size
            actual.bytes += held(found)
            return found

    def _apply(self, step: Step, bindings: Bindings, closing: Closing | None, *, counts: bool) -> Bindings:
        budget = self.reading.budget
        match step:
            case Scan():
                return self._scan(step, counts=counts)
            case Expand():
                candidates = self._candidates_of(step.node, counts=counts)
                return expand(step, bindings, self.links_of(step.link), candidates, budget, closing)
            case Check():
                return self._check(step, bindings, counts=counts)
            case Close():
                return close(step, bindings, self.links_of(step.link), budget)
            case Filter():
                return self._filter(step, bindings)
            case Product():
                return product(bindings, self.inner(step, counts=counts), budget)
            case Join():
                return self._join(step, bindings, counts=counts)
            case AntiJoin():
                return bindings.take(self._is_absent(step, bindings))
            case Compact():
                return compact(bindings, step.keep, counts=step.counts)
            case Merge():
                return self._merge(step, bindings)
            case Nothing():
                return Bindings({}, 0)
            case _:
                assert_never(step)

    def _merge(self, step: Merge, bindings: Bindings) -> Bindings:
        needed = bindings.size * 8 * (len(step.values) + 3)
        self.reading.budget.claim(needed, f"comparing {bindings.size:,} rows")
        found = merged_rows(Frame(bindings, dict(step.types), self.reading), step.values, counts=step.counts)
        self.reading.budget.release(needed)
        return found

    def _scan(self, step: Scan, *, counts: bool) -> Bindings:
        found, weight = self._candidates_of(step.node, counts=counts).all()
        return Bindings({step.node.variable: found}, len(found), weight)

    def _check(self, step: Check, bindings: Bindings, *, counts: bool) -> Bindings:
        weighed = self._candidates_of(step.node, counts=counts).weigh(bindings.columns[step.node.variable])
        if weighed is None:
            return bindings
        if weighed.dtype == np.bool_:
            return bindings.take(weighed)
        kept = bindings.take(weighed > 0)
        return Bindings(kept.columns, kept.size, multiplied(kept.weight, weighed[weighed > 0].astype(np.int64)))

    def _filter(self, step: Filter, bindings: Bindings) -> Bindings:
        types = dict(step.types)
        for predicate in step.predicates:
            if bindings.size:
                values = BindingValues(bindings.columns, bindings.size, types, self.reading)
                bindings = bindings.take(truths(evaluate_over(predicate, values, self.reading.inputs)))
        return bindings

    def _join(self, step: Join, bindings: Bindings, *, counts: bool) -> Bindings:
        other = self.inner(step, counts=counts)
        if not other.size or not bindings.size:
            return Bindings({}, 0)
        return join(bindings, other, self.matches(step, bindings, counts=counts), self.reading.budget)

    def weighed(self, step: Join, bindings: Bindings, *, counts: bool) -> Bindings | None:
        """The rows that a join pairs, each once; None when their pairs can't be counted so."""
        self.reading.budget.check()
        other = self.inner(step, counts=counts)
        if not other.size or not bindings.size:
            return Bindings({}, 0)
        trace = self.reading.trace
        if trace is None:
            return weighed(bindings, other, self.matches(step, bindings, counts=counts), counts=counts)
        with trace.measured(step.number) as actual:
            found = weighed(bindings, other, self.matches(step, bindings, counts=counts), counts=counts)
            actual.rows += 0 if found is None else found.size
            return found

    def matches(self, step: Join, bindings: Bindings, *, counts: bool) -> Matched:
        """Which rows of the two parts a join puts together; asked before it is cut in parts, and when it is made."""
        if self.matched is not None and self.matched[0] is step and self.matched[1] is bindings:
            return self.matched[2]
        other, types = self.inner(step, counts=counts), dict(step.types)
        if step.op is Op.EQ and _is_same_row(step, types):
            keys = _positions(step.left, bindings), _positions(step.right, other)
        else:
            keys = (
                self._keys(step.left, _value_type(step.right), bindings, types),
                self._keys(step.right, _value_type(step.left), other, types),
            )
        found = matched(*keys, step.op, self.reading.budget.check)
        self.matched = (step, bindings, found)
        return found

    def _keys(self, expr: Expr, other: ValueType, bindings: Bindings, types: Mapping[str, str]) -> pa.Array:
        values = BindingValues(bindings.columns, bindings.size, types, self.reading)
        found = as_shared(evaluate_over(expr, values, self.reading.inputs), _value_type(expr), other)
        found = found.combine_chunks() if isinstance(found, pa.ChunkedArray) else found
        shared = shared_type(_value_type(expr), other)
        return found if found.type == shared else found.cast(shared)  # a large column of texts is not cast above

    def _is_absent(self, step: AntiJoin, bindings: Bindings) -> NDArray[np.bool_]:
        """Which rows have no match of the block; each combination of what it shares is asked about once."""
        shared = {name for name, _ in step.shared}
        columns = {name: column for name, column in bindings.columns.items() if name in shared}
        first, rows = _distinct(list(columns.values()))
        size = bindings.size if first is None else len(first)
        seeds = {name: column if first is None else column[first] for name, column in columns.items()}
        found = self.steps(step.steps, Bindings({**seeds, SEED: np.arange(size)}, size), counts=False)
        is_absent = np.ones(size, np.bool_)
        if found.size:
            is_absent[found.columns[SEED]] = False
        self.reading.budget.release(held(found))
        return is_absent if rows is None else is_absent[rows]

    def _block(self, step: AntiJoin, bindings: Bindings) -> NDArray[np.bool_]:
        """As `_is_absent`, for a block of a single variable, which is no step of its own."""
        if self.reading.trace is None:
            return self._is_absent(step, bindings)
        with self.reading.trace.measured(step.number) as actual:
            found = self._is_absent(step, bindings)
            actual.rows += int(np.count_nonzero(found))
            actual.bytes += found.nbytes
            return found

    def inner(self, step: Product | Join, *, counts: bool) -> Bindings:
        """The other part of the pattern, solved once."""
        found = self.solved.get(step.number)
        if found is None:
            found = self.solved[step.number] = self.steps(step.steps, _UNIT, counts=counts)
        return found

    def _candidates_of(self, node: Node, *, counts: bool) -> Candidates:
        found = self._candidates.get(id(node))
        if found is None:
            found = Candidates(node, self.reading, self._block, counts=counts, chunk_rows=self.chunk_rows)
            self._candidates[id(node)] = found
        return found

    def links_of(self, link: Link) -> Links:
        """The edges of a hop."""
        found = self._links.get(id(link))
        if found is None:
            found = self._links[id(link)] = Links(link, self.reading)
        return found


def _distinct(columns: list[Positions]) -> tuple[NDArray[np.int64] | None, NDArray[np.int64] | None]:
    """The first row of each combination, and of each row the number of its combination; None: all rows differ."""
    keys = packed(columns, [int(column.max(initial=0)) + 1 for column in columns])
    if keys is None:
        _, first, rows = np.unique(np.stack(columns, axis=1), axis=0, return_index=True, return_inverse=True)
        return first, rows.reshape(-1)
    steps = np.diff(keys)
    if not len(steps) or steps.min() > 0:
        return None, None
    if steps.min() == 0:  # in order already: nothing to sort
        is_first = np.append(True, steps > 0)
        return np.flatnonzero(is_first), np.cumsum(is_first) - 1
    _, first, rows = np.unique(keys, return_index=True, return_inverse=True)
    return first, rows


def _is_same_row(step: Join, types: Mapping[str, str]) -> bool:
    match step.left, step.right:
        case Identity(part=Meta.ID) as left, Identity(part=Meta.ID) as right:
            return types[left.variable] == types[right.variable]
        case _:
            return False


def _positions(expr: Expr, bindings: Bindings) -> pa.Array:
    (variable,) = variables(expr)
    return array_of(bindings.columns[variable].astype(np.int64, copy=False))


def _value_type(expr: Expr) -> ValueType:
    found = expr.type
    assert not isinstance(found, NodeRef | EdgeRef)  # noqa: S101 - a join compares values
    return found
