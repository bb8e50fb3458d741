"""Execute physical plans: steps run over one table of bindings, in chunks where it grows large."""

from collections.abc import Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from omnigraph.engine.bindings import Bindings, Positions
from omnigraph.engine.block_steps import BlockSteps
from omnigraph.engine.execution_context import ExecutionContext
from omnigraph.engine.operators.candidates import CHUNK_ROWS, Candidates
from omnigraph.engine.operators.chunking import CollectSink, empty_bindings
from omnigraph.engine.operators.cycle_close import close_cycle
from omnigraph.engine.operators.distinct import compact
from omnigraph.engine.operators.edge_access import EdgeAccess
from omnigraph.engine.operators.expand import Closing, bindings_nbytes, expand, get_other_end, is_closed_by, orient
from omnigraph.engine.operators.filter import BindingValues, to_mask
from omnigraph.engine.operators.join import build_product, join, semi_join
from omnigraph.engine.operators.join_keys import match_join
from omnigraph.engine.operators.join_matches import JoinMatches
from omnigraph.engine.operators.multiplicity import check_multiplicity, multiply_counts
from omnigraph.engine.operators.reduced_lists import Reductions
from omnigraph.engine.operators.walk_hop import WalkAccess, close_walks, expand_walks
from omnigraph.engine.output.aggregate_sink import AggregateSink
from omnigraph.engine.output.distinct import merge_equal_rows
from omnigraph.engine.output.projection import Frame
from omnigraph.engine.output.result_pipeline import ResultFrame, build_result, resolve_count, resolve_row_range
from omnigraph.engine.output.row_selection import filter_having
from omnigraph.engine.output.top_k_sink import TopKSink
from omnigraph.engine.physical_plan import (
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
from omnigraph.engine.predicate_eval import evaluate_over
from omnigraph.engine.stage_rows import bind_rows, bind_union, evaluate_columns
from omnigraph.query.logical_plan import ReadQuery, UnionSource, list_sources

_SINGLE_ROW = Bindings({}, 1)


@dataclass(frozen=True, slots=True)
class PrefixRows:
    """The rows of the first steps of a plan, in chunks, and the steps that are left to run over them."""

    chunks: Iterator[Bindings]
    rest: tuple[Step, ...]
    groups: Frame | None = None
    """The groups of the result, complete, instead of rows."""


class PrefixEngine(Protocol):
    """Another engine, which runs the first steps of a plan."""

    lines: list[str]
    """What it has run, line by line, if the run is profiled."""

    def run(self, query: ReadQuery, plan: PhysicalPlan, start: Bindings) -> AbstractContextManager[PrefixRows]:
        """Return the rows of the steps that it runs."""
        ...


def execute(
    query: ReadQuery,
    plan: PhysicalPlan,
    context: ExecutionContext,
    *,
    chunk_rows: int = CHUNK_ROWS,
    prefix: PrefixEngine | None = None,
) -> ResultFrame:
    """Execute a query and return its rows, whose values are fetched later.

    Matches go through a sink chunk by chunk, so memory follows the size of the result, not the number of matches. The
    engine `prefix`, if there is one, runs the first steps.

    Raises:
        QueryTimeoutError, QueryMemoryError, QueryCancelledError: The budget is exhausted, or the caller cancelled.
        LimitError: There are more matches than 64 bits count.
        QueryError: A count or sum is too large for its type.
    """
    if resolve_count(query.limit, "limit", context.inputs) == 0:
        # No row is returned, so none is looked for; what types can tell is checked already.
        return build_result(query, _bind_no_rows(plan), context)
    if plan.parts:
        return _execute_parts(query, plan, context, chunk_rows, prefix)
    rows = _solve_source(query, plan, context, chunk_rows, prefix)
    chunk_rows = _limit_chunk_rows(context, chunk_rows)
    _, row_limit = resolve_row_range(query, context.inputs)
    sink: AggregateSink | TopKSink
    if query.grouping is not None:
        sink = AggregateSink(
            query, query.grouping, context, row_limit, has_multiplicity=plan.has_multiplicity, chunk_rows=chunk_rows
        )
    else:
        sink = TopKSink(query, context, row_limit, chunk_rows=chunk_rows)
    executor = _Executor(context, chunk_rows)
    try:
        if not plan.steps:
            # The sink owns what is added to it, and releases it.
            context.budget.claim(bindings_nbytes(rows), "the matches of the pattern")
        groups: Frame | None = None
        if rows.size:
            pipeline = Pipeline(executor, sink, has_multiplicity=plan.has_multiplicity)
            if prefix is None or not plan.steps:
                pipeline.run(plan.steps, rows)
            else:
                groups = _run_prefix(query, plan, rows, pipeline, sink, prefix)
        matches = sink.finalize() if groups is None else filter_having(groups, query)
    finally:
        executor.close()
        context.release()
    context.budget.release(bindings_nbytes(rows))
    if isinstance(matches, Bindings):
        matches = _select_variables(plan, matches)
    result = build_result(query, matches, context)
    context.budget.check()  # a result that took too long is an error, however little was left to do
    return result


def _run_prefix(
    query: ReadQuery,
    plan: PhysicalPlan,
    rows: Bindings,
    pipeline: Pipeline,
    sink: AggregateSink | TopKSink,
    prefix: PrefixEngine,
) -> Frame | None:
    """Run the first steps of a plan in another engine, and the rest over its rows, chunk by chunk.

    Return the groups of the result if the engine has computed these too.
    """
    with prefix.run(query, plan, rows) as solved:
        for chunk in solved.chunks:
            pipeline.run_chunk(solved.rest, chunk)
            sink.end_chunk(is_complete=False)
            if sink.is_done:
                break
        return solved.groups


def _execute_parts(
    query: ReadQuery,
    plan: PhysicalPlan,
    context: ExecutionContext,
    chunk_rows: int,
    prefix: PrefixEngine | None,
) -> ResultFrame:
    """Execute the parts of a query that folds all matches into one row, and return the row with all aggregates."""
    results = [execute(part, own, context, chunk_rows=chunk_rows, prefix=prefix) for part, own in plan.parts]
    frames = [result.frame for result in results]
    aggregates = {name: values for frame in frames for name, values in frame.aggregates.items()}
    row = replace(frames[0], aggregates=aggregates)
    return build_result(query, filter_having(row, query), context)


def _solve_source(
    query: ReadQuery,
    plan: PhysicalPlan,
    context: ExecutionContext,
    chunk_rows: int,
    prefix: PrefixEngine | None,
) -> Bindings:
    """Return the rows that a read starts from: those of an earlier stage or a union, or one row without variables."""
    columns = []
    for source, source_plan in zip(list_sources(query), plan.sources, strict=True):
        result = execute(source, source_plan, context, chunk_rows=chunk_rows, prefix=prefix)
        columns.append(evaluate_columns(result, query))
        # Its variables end here; those of the same name that follow are others.
        context.values.drop((each.variable for each in source.inputs), context.budget)
    if isinstance(query.source, UnionSource):
        return bind_union(query, query.source, columns, context)
    return bind_rows(query, columns[0], context) if columns else _SINGLE_ROW


def solve(plan: PhysicalPlan, context: ExecutionContext, *, chunk_rows: int = CHUNK_ROWS) -> Bindings:
    """Return all matches of the plan's pattern, as positions of its variables.

    Raises:
        QueryTimeoutError, QueryMemoryError, QueryCancelledError: The budget is exhausted, or the caller cancelled.
        LimitError: There are more matches than 64 bits count.
    """
    executor = _Executor(context, _limit_chunk_rows(context, chunk_rows))
    try:
        matches = executor.run_steps(plan.steps, _SINGLE_ROW, has_multiplicity=plan.has_multiplicity)
    finally:
        executor.close()
        context.release()
    return _select_variables(plan, matches)


def _select_variables(plan: PhysicalPlan, matches: Bindings) -> Bindings:
    # Without a match, the pipeline stops before all variables are bound: these get empty columns.
    columns = {name: matches.columns.get(name, _NO_ROWS) for name in plan.variables}
    return Bindings(columns, matches.size, check_multiplicity(matches.multiplicity) if plan.has_multiplicity else None)


def _bind_no_rows(plan: PhysicalPlan) -> Bindings:
    """Return no matches, with the variables of the plan and of its parts."""
    names = {name for part in (plan, *(part for _, part in plan.parts)) for name in part.variables}
    return _select_variables(replace(plan, variables=tuple(sorted(names))), empty_bindings(has_multiplicity=True))


def _limit_chunk_rows(context: ExecutionContext, chunk_rows: int) -> int:
    """Return the number of rows that a step may produce in one batch: fewer with a small budget."""
    return int(min(chunk_rows, max(context.budget.memory_bytes // _BYTES_PER_ROW, _MIN_CHUNK_ROWS)))


_NO_ROWS = np.zeros(0, np.int64)
# All arrays that are built for a row on its way through the steps take about this much.
_BYTES_PER_ROW = 256
_MIN_CHUNK_ROWS = 1 << 12


class _Executor:
    """One run of a plan; results that its nodes and hops compute for whole tables are cached until it ends."""

    def __init__(self, context: ExecutionContext, chunk_rows: int) -> None:
        self.context = context
        self.chunk_rows = chunk_rows
        # By `id` of the plan's nodes and links: the plan outlives the run, so that no id is reused.
        self._candidates: dict[int, Candidates] = {}
        self._edge_access: dict[int, EdgeAccess] = {}
        self._walk_access: dict[int, WalkAccess] = {}
        self._derived: dict[tuple[Step, ...], Bindings] = {}
        self._reductions = Reductions()
        self.solved_sides: dict[int, Bindings] = {}
        self.last_match: tuple[Join, Bindings, JoinMatches] | None = None
        self._blocks = BlockSteps(context)

    def close(self) -> None:
        """Drop all cached results."""
        # Candidates refer to this object, and the cycle would keep all arrays until Python's garbage collector runs.
        self._candidates.clear()
        self._edge_access.clear()
        self._walk_access.clear()
        self._derived.clear()
        self._reductions.clear()
        self.solved_sides.clear()
        self._blocks.close()
        self.last_match = None

    def run_steps(self, steps: tuple[Step, ...], bindings: Bindings, *, has_multiplicity: bool) -> Bindings:
        """Run the steps and return all rows that they produce."""
        last = steps[-1] if steps else None
        sink = CollectSink(self.context.budget, last, has_multiplicity=has_multiplicity, chunk_rows=self.chunk_rows)
        Pipeline(self, sink, has_multiplicity=has_multiplicity).run(steps, bindings)
        return sink.finalize()

    def reduce_lists(
        self, step: Expand, bindings: Bindings, closing: Closing | None, *, has_multiplicity: bool
    ) -> None:
        """Reduce the lists of a hop, and of the condition after it, to the neighbours that pass, if that pays off."""
        if step.node.is_free or step.link.is_multi or step.link.walk is not None or not bindings.size:
            return
        candidates = self._get_candidates(step.node, has_multiplicity=has_multiplicity)

        def find_passing() -> NDArray[np.bool_]:
            counts = candidates.count_by_position()
            return counts.astype(np.bool_, copy=False) if counts.dtype == np.bool_ else counts > 0

        self.get_edge_access(step.link).reduce(bindings.columns[step.source], find_passing, self._reductions)
        if closing is not None:
            near = bindings.columns[get_other_end(closing[0], step.node.variable)]
            closing[1].reduce(near, find_passing, self._reductions)

    def find_closing(self, step: Step, then: tuple[Step, ...]) -> Closing | None:
        """Return the cycle-closing step after a hop if both can run as one, else None."""
        if not then or not isinstance(step, Expand):
            return None
        (condition,) = then
        if not isinstance(condition, Close):
            return None
        edge_access = self.get_edge_access(condition.link)
        if not is_closed_by(step, condition, edge_access):
            return None
        return condition, orient(condition, step.node.variable, edge_access)

    def run_step(self, step: Step, bindings: Bindings, closing: Closing | None, *, has_multiplicity: bool) -> Bindings:
        """Run one step, together with the cycle-closing step after it if there is one; profile it if requested."""
        self.context.budget.check()
        profile = self.context.profile
        if profile is None:
            return self._apply(step, bindings, closing, has_multiplicity=has_multiplicity)
        # Two steps that run as one have no rows in between: everything is attributed to the second one.
        if closing is not None:
            profile.get_step(step.number).joined_with = closing[0].number
        with profile.measure(step.number if closing is None else closing[0].number) as actual:
            result = self._apply(step, bindings, closing, has_multiplicity=has_multiplicity)
            actual.rows += result.size
            actual.bytes += bindings_nbytes(result)
            return result

    def _apply(self, step: Step, bindings: Bindings, closing: Closing | None, *, has_multiplicity: bool) -> Bindings:
        budget = self.context.budget
        match step:
            case Scan():
                return self._scan(step, has_multiplicity=has_multiplicity)
            case Expand():
                candidates = self._get_candidates(step.node, has_multiplicity=has_multiplicity)
                if step.link.walk is not None:
                    return expand_walks(step, bindings, self._get_walk_access(step.link), candidates)
                return expand(step, bindings, self.get_edge_access(step.link), candidates, budget, closing)
            case Check():
                return self._check(step, bindings, has_multiplicity=has_multiplicity)
            case Close() if step.link.walk is not None:
                return close_walks(step, bindings, self._get_walk_access(step.link))
            case Close():
                return close_cycle(step, bindings, self.get_edge_access(step.link), budget)
            case Filter():
                return _filter(step, bindings, self.context)
            case Product():
                return build_product(bindings, self.solve_other_side(step, has_multiplicity=has_multiplicity), budget)
            case Join():
                return self._join(step, bindings, has_multiplicity=has_multiplicity)
            case Compact():
                return compact(bindings, step.keep, has_multiplicity=step.has_multiplicity)
            case Merge():
                return self._merge(step, bindings)
            case Nothing():
                return Bindings({}, 0)
            case _:
                return self._blocks.apply(step, bindings, self.run_steps, has_multiplicity=has_multiplicity)

    def _merge(self, step: Merge, bindings: Bindings) -> Bindings:
        # Comparing rows takes about three work arrays beside the values, with 8 bytes per row each.
        nbytes = bindings.size * 8 * (len(step.values) + 3)
        self.context.budget.claim(nbytes, f"comparing {bindings.size:,} rows")
        frame = Frame(bindings, dict(step.types), self.context)
        merged = merge_equal_rows(frame, step.values, has_multiplicity=step.has_multiplicity)
        self.context.budget.release(nbytes)
        return merged

    def _scan(self, step: Scan, *, has_multiplicity: bool) -> Bindings:
        positions, multiplicity = self._get_candidates(step.node, has_multiplicity=has_multiplicity).find_all()
        return Bindings({step.node.variable: positions}, len(positions), multiplicity)

    def _check(self, step: Check, bindings: Bindings, *, has_multiplicity: bool) -> Bindings:
        candidates = self._get_candidates(step.node, has_multiplicity=has_multiplicity)
        counts = candidates.count_matches(bindings.columns[step.node.variable])
        if counts is None:
            return bindings
        if counts.dtype == np.bool_:
            return bindings.take(counts)
        is_match = counts > 0
        matches = bindings.take(is_match)
        multiplicity = multiply_counts(matches.multiplicity, counts[is_match].astype(np.int64))
        return Bindings(matches.columns, matches.size, multiplicity)

    def _join(self, step: Join, bindings: Bindings, *, has_multiplicity: bool) -> Bindings:
        other = self.solve_other_side(step, has_multiplicity=has_multiplicity)
        if not other.size or not bindings.size:
            return Bindings({}, 0)
        matches = self.match_join(step, bindings, has_multiplicity=has_multiplicity)
        return join(bindings, other, matches, self.context.budget)

    def semi_join(self, step: Join, bindings: Bindings, *, has_multiplicity: bool) -> Bindings | None:
        """Return the rows that have a partner in a join, each once; None if their pairs can't be counted this way."""
        self.context.budget.check()
        other = self.solve_other_side(step, has_multiplicity=has_multiplicity)
        if not other.size or not bindings.size:
            return Bindings({}, 0)
        if self.context.profile is None:
            return self._semi_join(step, bindings, other, has_multiplicity=has_multiplicity)
        with self.context.profile.measure(step.number) as actual:
            result = self._semi_join(step, bindings, other, has_multiplicity=has_multiplicity)
            actual.rows += 0 if result is None else result.size
            return result

    def _semi_join(self, step: Join, bindings: Bindings, other: Bindings, *, has_multiplicity: bool) -> Bindings | None:
        matches = self.match_join(step, bindings, has_multiplicity=has_multiplicity)
        check = self.context.budget.check
        return semi_join(bindings, other, matches, has_multiplicity=has_multiplicity, check=check)

    def match_join(self, step: Join, bindings: Bindings, *, has_multiplicity: bool) -> JoinMatches:
        """Return which rows of the two sides a join pairs."""
        # The pipeline needs the matches to decide on chunks, and the join needs them again to pair the rows.
        if self.last_match is not None and self.last_match[0] is step and self.last_match[1] is bindings:
            return self.last_match[2]
        other = self.solve_other_side(step, has_multiplicity=has_multiplicity)
        matches = match_join(step, bindings, other, self.context)
        self.last_match = (step, bindings, matches)
        return matches

    def solve_other_side(self, step: Product | Join, *, has_multiplicity: bool) -> Bindings:
        """Return the matches of the other side of a product or join; they are solved once."""
        matches = self.solved_sides.get(step.number)
        if matches is None:
            matches = self.run_steps(step.steps, _SINGLE_ROW, has_multiplicity=has_multiplicity)
            self.solved_sides[step.number] = matches
        return matches

    def _get_candidates(self, node: Node, *, has_multiplicity: bool) -> Candidates:
        candidates = self._candidates.get(id(node))
        if candidates is None:
            # No inner function: its annotations would be evaluated in every run.
            candidates = Candidates(
                node,
                self.context,
                lambda step, bindings: self._blocks.test(step, bindings, self.run_steps),
                has_multiplicity=has_multiplicity,
                chunk_rows=self.chunk_rows,
            )
            self._candidates[id(node)] = candidates
        return candidates

    def _solve_derived(self, link: Link) -> tuple[Positions, Positions]:
        """Return the ends of the edges that a named pattern stands for, solved once for a run."""
        derived = link.derived
        assert derived is not None  # noqa: S101 - only hops that are named patterns are asked for
        matches = self._derived.get(derived.steps)
        if matches is None:
            matches = self._derived[derived.steps] = self.run_steps(derived.steps, _SINGLE_ROW, has_multiplicity=False)
        source, target = (matches.columns.get(name, _NO_ROWS) for name in (derived.source, derived.target))
        return source.astype(np.int64, copy=False), target.astype(np.int64, copy=False)

    def _get_walk_access(self, link: Link) -> WalkAccess:
        walk_access = self._walk_access.get(id(link))
        if walk_access is None:
            walk_access = self._walk_access[id(link)] = WalkAccess(link, self.context)
        return walk_access

    def get_edge_access(self, link: Link) -> EdgeAccess:
        """Return the access to the edges of a hop."""
        edge_access = self._edge_access.get(id(link))
        if edge_access is None:
            edge_access = self._edge_access[id(link)] = EdgeAccess(link, self.context, self._solve_derived)
        return edge_access


def _filter(step: Filter, bindings: Bindings, context: ExecutionContext) -> Bindings:
    types = dict(step.types)
    # Each predicate reads only the rows that the ones before it have left.
    for predicate in step.predicates:
        if bindings.size:
            values = BindingValues(bindings.columns, bindings.size, types, context)
            bindings = bindings.take(to_mask(evaluate_over(predicate, values, context.inputs)))
    return bindings
