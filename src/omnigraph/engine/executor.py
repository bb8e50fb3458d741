"""Running a physical plan: step after step over one table of bindings, in pieces where it grows large."""

from collections.abc import Mapping
from typing import assert_never

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from omnigraph.engine.bindings import Bindings, Positions
from omnigraph.engine.execution_context import ExecutionContext
from omnigraph.engine.operators.candidates import CHUNK_ROWS, Candidates
from omnigraph.engine.operators.chunking import CollectSink
from omnigraph.engine.operators.cycle_close import close_cycle
from omnigraph.engine.operators.distinct import compact
from omnigraph.engine.operators.edge_access import EdgeAccess
from omnigraph.engine.operators.expand import Closing, bindings_nbytes, expand, is_closed_by, orient
from omnigraph.engine.operators.filter import BindingValues, to_mask
from omnigraph.engine.operators.join import JoinMatches, build_product, join, match_keys, semi_join
from omnigraph.engine.operators.multiplicity import check_multiplicity, multiply_counts, pack_keys
from omnigraph.engine.output.aggregate_sink import AggregateSink
from omnigraph.engine.output.distinct import merge_equal_rows
from omnigraph.engine.output.projection import Frame
from omnigraph.engine.output.result_pipeline import ResultFrame, build_result, resolve_row_range
from omnigraph.engine.output.top_k_sink import TopKSink
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
from omnigraph.engine.pipeline import Pipeline
from omnigraph.engine.predicate_eval import as_shared, evaluate_over, find_shared_type
from omnigraph.query.expr import EdgeRef, Expr, Identity, MetaColumn, NodeRef, Op, find_variables
from omnigraph.query.logical_plan import ReadQuery
from omnigraph.schema.types import ValueType
from omnigraph.storage.arrow_buffers import build_array

_SINGLE_ROW = Bindings({}, 1)


def execute(
    query: ReadQuery, plan: PhysicalPlan, reading: ExecutionContext, *, chunk_rows: int = CHUNK_ROWS
) -> ResultFrame:
    """The rows of a query, not fetched yet; of matches that are many, only what they are made of is ever held.

    Raises:
        QueryTimeoutError, QueryMemoryError, QueryCancelledError: It would use more than it may.
        CountOverflowError: There are more matches than 64 bits count.
        AggregateOverflowError: A count or sum is too large for its type.
    """
    chunk_rows = _limit_chunk_rows(reading, chunk_rows)
    _, last = resolve_row_range(query, reading.inputs)
    sink: AggregateSink | TopKSink
    if query.grouping is not None:
        sink = AggregateSink(
            query, query.grouping, reading, last, has_multiplicity=plan.has_multiplicity, chunk_rows=chunk_rows
        )
    else:
        sink = TopKSink(query, reading, last, chunk_rows=chunk_rows)
    run = _Executor(reading, chunk_rows)
    try:
        Pipeline(run, sink, has_multiplicity=plan.has_multiplicity).run(plan.steps, _SINGLE_ROW)
        found = sink.finalize()
    finally:
        run.close()
        reading.release()
    done = build_result(query, _select_variables(plan, found) if isinstance(found, Bindings) else found, reading)
    reading.budget.check()  # an answer that took too long is none, however little was left to do
    return done


def solve(plan: PhysicalPlan, reading: ExecutionContext, *, chunk_rows: int = CHUNK_ROWS) -> Bindings:
    """All matches of the plan's pattern, as positions of its variables.

    Raises:
        QueryTimeoutError, QueryMemoryError, QueryCancelledError: It would use more than it may.
        CountOverflowError: There are more matches than 64 bits count.
    """
    run = _Executor(reading, _limit_chunk_rows(reading, chunk_rows))
    try:
        found = run.run_steps(plan.steps, _SINGLE_ROW, has_multiplicity=plan.has_multiplicity)
    finally:
        run.close()
        reading.release()
    return _select_variables(plan, found)


def _select_variables(plan: PhysicalPlan, found: Bindings) -> Bindings:
    columns = {name: found.columns.get(name, _NO_ROWS) for name in plan.variables}
    return Bindings(columns, found.size, check_multiplicity(found.multiplicity) if plan.has_multiplicity else None)


def _limit_chunk_rows(reading: ExecutionContext, chunk_rows: int) -> int:
    """How many rows a step may make at once: fewer with a small budget."""
    return int(min(chunk_rows, max(reading.budget.memory_bytes // _BYTES_PER_ROW, _MIN_CHUNK_ROWS)))


_NO_ROWS = np.zeros(0, np.int64)
_BYTES_PER_ROW, _MIN_CHUNK_ROWS = 256, 1 << 12
"""What is made of a row while it goes through the steps takes about so much."""


class _Executor:
    """One run of a plan; what its nodes and hops worked out for whole tables is kept until it ends."""

    def __init__(self, reading: ExecutionContext, chunk_rows: int) -> None:
        self.context, self.chunk_rows = reading, chunk_rows
        self._candidates: dict[int, Candidates] = {}
        self._edge_access: dict[int, EdgeAccess] = {}
        self.solved_sides: dict[int, Bindings] = {}
        self.last_match: tuple[Join, Bindings, JoinMatches] | None = None

    def close(self) -> None:
        """Let go of what was kept, which refers to the run itself: else all that it read waits for the collector."""
        self._candidates.clear()
        self._edge_access.clear()
        self.solved_sides.clear()
        self.last_match = None

    def run_steps(self, steps: tuple[Step, ...], bindings: Bindings, *, has_multiplicity: bool) -> Bindings:
        """Run steps one after the other, and hold all that they make."""
        last = steps[-1] if steps else None
        found = CollectSink(self.context.budget, last, has_multiplicity=has_multiplicity, chunk_rows=self.chunk_rows)
        Pipeline(self, found, has_multiplicity=has_multiplicity).run(steps, bindings)
        return found.finalize()

    def find_closing(self, step: Step, then: tuple[Step, ...]) -> Closing | None:
        """The condition behind a hop that can be asked together with it."""
        if not then or not isinstance(step, Expand):
            return None
        (condition,) = then
        if not isinstance(condition, Close):
            return None
        links = self.get_edge_access(condition.link)
        if not is_closed_by(step, condition, links):
            return None
        return condition, orient(condition, step.node.variable, links)

    def run_step(self, step: Step, bindings: Bindings, closing: Closing | None, *, has_multiplicity: bool) -> Bindings:
        """Run one step, together with the condition behind it if there is one; measured, if that is asked for."""
        self.context.budget.check()
        trace = self.context.profile
        if trace is None:
            return self._apply(step, bindings, closing, has_multiplicity=has_multiplicity)
        if closing is not None:
            trace.get_step(step.number).joined_with = closing[0].number
        with trace.measure(step.number if closing is None else closing[0].number) as actual:
            found = self._apply(step, bindings, closing, has_multiplicity=has_multiplicity)
            actual.rows += found.size
            actual.bytes += bindings_nbytes(found)
            return found

    def _apply(self, step: Step, bindings: Bindings, closing: Closing | None, *, has_multiplicity: bool) -> Bindings:
        budget = self.context.budget
        match step:
            case Scan():
                return self._scan(step, has_multiplicity=has_multiplicity)
            case Expand():
                candidates = self._get_candidates(step.node, has_multiplicity=has_multiplicity)
                return expand(step, bindings, self.get_edge_access(step.link), candidates, budget, closing)
            case Check():
                return self._check(step, bindings, has_multiplicity=has_multiplicity)
            case Close():
                return close_cycle(step, bindings, self.get_edge_access(step.link), budget)
            case Filter():
                return self._filter(step, bindings)
            case Product():
                return build_product(bindings, self.solve_other_side(step, has_multiplicity=has_multiplicity), budget)
            case Join():
                return self._join(step, bindings, has_multiplicity=has_multiplicity)
            case AntiJoin():
                return bindings.take(self._find_absent(step, bindings))
            case Compact():
                return compact(bindings, step.keep, has_multiplicity=step.has_multiplicity)
            case Merge():
                return self._merge(step, bindings)
            case Nothing():
                return Bindings({}, 0)
            case _:
                assert_never(step)

    def _merge(self, step: Merge, bindings: Bindings) -> Bindings:
        needed = bindings.size * 8 * (len(step.values) + 3)
        self.context.budget.claim(needed, f"comparing {bindings.size:,} rows")
        found = merge_equal_rows(
            Frame(bindings, dict(step.types), self.context), step.values, has_multiplicity=step.has_multiplicity
        )
        self.context.budget.release(needed)
        return found

    def _scan(self, step: Scan, *, has_multiplicity: bool) -> Bindings:
        found, weight = self._get_candidates(step.node, has_multiplicity=has_multiplicity).find_all()
        return Bindings({step.node.variable: found}, len(found), weight)

    def _check(self, step: Check, bindings: Bindings, *, has_multiplicity: bool) -> Bindings:
        weighed = self._get_candidates(step.node, has_multiplicity=has_multiplicity).count_matches(
            bindings.columns[step.node.variable]
        )
        if weighed is None:
            return bindings
        if weighed.dtype == np.bool_:
            return bindings.take(weighed)
        kept = bindings.take(weighed > 0)
        return Bindings(
            kept.columns, kept.size, multiply_counts(kept.multiplicity, weighed[weighed > 0].astype(np.int64))
        )

    def _filter(self, step: Filter, bindings: Bindings) -> Bindings:
        types = dict(step.types)
        for predicate in step.predicates:
            if bindings.size:
                values = BindingValues(bindings.columns, bindings.size, types, self.context)
                bindings = bindings.take(to_mask(evaluate_over(predicate, values, self.context.inputs)))
        return bindings

    def _join(self, step: Join, bindings: Bindings, *, has_multiplicity: bool) -> Bindings:
        other = self.solve_other_side(step, has_multiplicity=has_multiplicity)
        if not other.size or not bindings.size:
            return Bindings({}, 0)
        return join(
            bindings, other, self.match_join(step, bindings, has_multiplicity=has_multiplicity), self.context.budget
        )

    def semi_join(self, step: Join, bindings: Bindings, *, has_multiplicity: bool) -> Bindings | None:
        """The rows that a join pairs, each once; None when their pairs can't be counted so."""
        self.context.budget.check()
        other = self.solve_other_side(step, has_multiplicity=has_multiplicity)
        if not other.size or not bindings.size:
            return Bindings({}, 0)
        trace = self.context.profile
        if trace is None:
            return semi_join(
                bindings,
                other,
                self.match_join(step, bindings, has_multiplicity=has_multiplicity),
                has_multiplicity=has_multiplicity,
            )
        with trace.measure(step.number) as actual:
            found = semi_join(
                bindings,
                other,
                self.match_join(step, bindings, has_multiplicity=has_multiplicity),
                has_multiplicity=has_multiplicity,
            )
            actual.rows += 0 if found is None else found.size
            return found

    def match_join(self, step: Join, bindings: Bindings, *, has_multiplicity: bool) -> JoinMatches:
        """Which rows of the two parts a join puts together; asked before it is cut in parts, and when it is made."""
        if self.last_match is not None and self.last_match[0] is step and self.last_match[1] is bindings:
            return self.last_match[2]
        other, types = self.solve_other_side(step, has_multiplicity=has_multiplicity), dict(step.types)
        if step.op is Op.EQ and _is_same_row(step, types):
            keys = _get_positions(step.left, bindings), _get_positions(step.right, other)
        else:
            keys = (
                self._evaluate_keys(step.left, _get_value_type(step.right), bindings, types),
                self._evaluate_keys(step.right, _get_value_type(step.left), other, types),
            )
        found = match_keys(*keys, step.op, self.context.budget.check)
        self.last_match = (step, bindings, found)
        return found

    def _evaluate_keys(self, expr: Expr, other: ValueType, bindings: Bindings, types: Mapping[str, str]) -> pa.Array:
        values = BindingValues(bindings.columns, bindings.size, types, self.context)
        found = as_shared(evaluate_over(expr, values, self.context.inputs), _get_value_type(expr), other)
        found = found.combine_chunks() if isinstance(found, pa.ChunkedArray) else found
        shared = find_shared_type(_get_value_type(expr), other)
        return found if found.type == shared else found.cast(shared)  # a large column of texts is not cast above

    def _find_absent(self, step: AntiJoin, bindings: Bindings) -> NDArray[np.bool_]:
        """Which rows have no match of the block; each combination of what it shares is asked about once."""
        shared = {name for name, _ in step.shared}
        columns = {name: column for name, column in bindings.columns.items() if name in shared}
        first, rows = _find_distinct(list(columns.values()))
        size = bindings.size if first is None else len(first)
        seeds = {name: column if first is None else column[first] for name, column in columns.items()}
        found = self.run_steps(step.steps, Bindings({**seeds, SEED: np.arange(size)}, size), has_multiplicity=False)
        is_absent = np.ones(size, np.bool_)
        if found.size:
            is_absent[found.columns[SEED]] = False
        self.context.budget.release(bindings_nbytes(found))
        return is_absent if rows is None else is_absent[rows]

    def _solve_block(self, step: AntiJoin, bindings: Bindings) -> NDArray[np.bool_]:
        """As `_find_absent`, for a block of a single variable, which is no step of its own."""
        if self.context.profile is None:
            return self._find_absent(step, bindings)
        with self.context.profile.measure(step.number) as actual:
            found = self._find_absent(step, bindings)
            actual.rows += int(np.count_nonzero(found))
            actual.bytes += found.nbytes
            return found

    def solve_other_side(self, step: Product | Join, *, has_multiplicity: bool) -> Bindings:
        """The other part of the pattern, solved once."""
        found = self.solved_sides.get(step.number)
        if found is None:
            found = self.solved_sides[step.number] = self.run_steps(
                step.steps, _SINGLE_ROW, has_multiplicity=has_multiplicity
            )
        return found

    def _get_candidates(self, node: Node, *, has_multiplicity: bool) -> Candidates:
        found = self._candidates.get(id(node))
        if found is None:
            found = Candidates(
                node, self.context, self._solve_block, has_multiplicity=has_multiplicity, chunk_rows=self.chunk_rows
            )
            self._candidates[id(node)] = found
        return found

    def get_edge_access(self, link: Link) -> EdgeAccess:
        """The edges of a hop."""
        found = self._edge_access.get(id(link))
        if found is None:
            found = self._edge_access[id(link)] = EdgeAccess(link, self.context)
        return found


def _find_distinct(columns: list[Positions]) -> tuple[NDArray[np.int64] | None, NDArray[np.int64] | None]:
    """The first row of each combination, and of each row the number of its combination; None: all rows differ."""
    keys = pack_keys(columns, [int(column.max(initial=0)) + 1 for column in columns])
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
        case Identity(part=MetaColumn.ID) as left, Identity(part=MetaColumn.ID) as right:
            return types[left.variable] == types[right.variable]
        case _:
            return False


def _get_positions(expr: Expr, bindings: Bindings) -> pa.Array:
    (variable,) = find_variables(expr)
    return build_array(bindings.columns[variable].astype(np.int64, copy=False))


def _get_value_type(expr: Expr) -> ValueType:
    found = expr.type
    assert not isinstance(found, NodeRef | EdgeRef)  # noqa: S101 - a join compares values
    return found
