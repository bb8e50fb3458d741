"""Plan a read: translate its logical plan into a physical one.

Greedy, by cost, and deterministic: equal costs are decided by the order of appearance. Planning reads no data but
samples of columns that the query reads as well.
"""

from collections.abc import Callable, Iterator, Mapping
from itertools import count
from typing import TypeAlias

from omnigraph.engine.execution_context import ExecutionContext
from omnigraph.engine.physical_plan import (
    SEED,
    VALUE_TYPE,
    AntiJoin,
    Join,
    Nothing,
    PhysicalPlan,
    Product,
    Step,
    iter_steps,
)
from omnigraph.engine.planning.cost_model import CostModel
from omnigraph.engine.planning.counted_subtrees import ANTI_JOIN_SHARE, SubtreePlanner
from omnigraph.engine.planning.join_order import JoinOrderPlanner
from omnigraph.engine.planning.pattern_graph import JoinPredicate, PatternGraph
from omnigraph.engine.planning.plan_builder import MatchSemantics, PendingPredicates, PlanBuilder, PlanContext
from omnigraph.engine.predicate_eval import find_shared_type
from omnigraph.query.expr import Compare, EdgeRef, Expr, Identity, NodeRef, Op, Prop
from omnigraph.query.expr_tree import find_variables, find_windows
from omnigraph.query.logical_plan import NotExists, Pattern, ReadQuery, list_sources
from omnigraph.query.rules.empty_pattern import is_empty
from omnigraph.schema.types import Scalar

# A cross product with at least this number of rows on both sides gets a warning.
MIN_WARNED_ROWS = 1_000.0
# A range join needs at least this number of rows on both sides; sorting one does not pay off for fewer.
MIN_RANGE_JOIN_ROWS = 1_000.0
# Up to this LIMIT, rows are best produced in the order in which they are returned.
MAX_ORDERED_LIMIT = 10_000


def plan_read(query: ReadQuery, execution: ExecutionContext) -> PhysicalPlan:
    """Plan the pattern of a read, and of those that it starts from.

    How the output is computed from the matches is not part of the plan.
    """
    return _plan_stage(query, CostModel(execution), count(1))


def _plan_stage(query: ReadQuery, costs: CostModel, numbers: Iterator[int]) -> PhysicalPlan:
    """Plan a read after its sources; `numbers` are those of the steps, which are unique in the whole plan."""
    sources = tuple(_plan_stage(source, costs, numbers) for source in list_sources(query))
    semantics, exprs = _analyze_output(query)
    read = {variable for expr in exprs for variable in find_variables(expr)}
    needed = tuple(variable for variable in query.types if variable in read)
    has_multiplicity = semantics is MatchSemantics.COUNT
    context = PlanContext(costs, exprs, _find_leading_variable(query), numbers)
    if is_empty(query.pattern):
        steps: tuple[Step, ...] = (Nothing(number=context.next_number()),)
        return PhysicalPlan(steps=steps, variables=needed, has_multiplicity=has_multiplicity, sources=sources)
    # The variables of the source are bound already, like the outer variables of a `not` block.
    outer = {each.variable: VALUE_TYPE if each.entity is None else each.entity.name for each in query.inputs}
    rows = sum(plan.expected_rows for plan in sources) if sources else 1.0
    planner = _PatternPlanner(context, query.pattern, outer, needed=needed, semantics=semantics, rows=rows)
    steps = planner.build_steps()
    expected = steps[-1].rows if steps else rows
    return PhysicalPlan(
        steps=steps,
        variables=needed,
        has_multiplicity=has_multiplicity,
        warnings=_build_warnings(steps),
        sources=sources,
        expected_rows=_estimate_output(query, expected),
    )


def _estimate_output(query: ReadQuery, rows: float) -> float:
    """Estimate how many rows a stage hands on: a literal limit is certain, how many rows a group has is not."""
    if query.grouping is not None and not query.grouping.keys:
        rows = 1.0
    # A parameter's value must not change the plan: see the plan cache.
    return min(rows, float(query.limit)) if isinstance(query.limit, int) and not query.per else rows


def _analyze_output(query: ReadQuery) -> tuple[MatchSemantics, tuple[Expr, ...]]:
    """Return what the output needs of the matches, and the expressions that it reads."""
    if query.grouping is not None:
        aggregates = query.grouping.aggregates
        # Sums, averages and counts depend on the number of equal matches; other aggregates only on their existence.
        has_count = any(aggregate.counts_rows for aggregate in aggregates)
        return MatchSemantics.COUNT if has_count else MatchSemantics.EXISTS, (*query.grouping.keys, *aggregates)
    outputs = tuple(column.value for column in query.output)
    if any(find_windows(expr) for expr in query.results):
        # A window reads all matches, also those that `distinct` merges afterwards.
        return MatchSemantics.EVERY, query.results
    if query.distinct:
        return MatchSemantics.EXISTS, outputs
    having = () if query.having is None else (query.having,)
    return MatchSemantics.EVERY, query.results if query.is_ordered else (*outputs, *having)


def _find_leading_variable(query: ReadQuery) -> str | None:
    """Return the variable that decides first about the order of rows, if a small limit makes that useful."""
    if query.limit is None or query.per or query.grouping is not None or query.rank is not None:
        return None
    if isinstance(query.limit, int) and query.limit > MAX_ORDERED_LIMIT:
        return None
    values = [*(key.value for key in query.order), *query.ties]
    # Distinct constants have no order.
    first = find_variables(values[0]) if values else ()
    return first[0] if first else None


def _build_warnings(steps: tuple[Step, ...]) -> tuple[str, ...]:
    return tuple(
        f"nothing connects the two sides of step {step.number}:"
        f" about {step.left_rows:,.0f} rows are paired with {step.right_rows:,.0f}"
        for step in iter_steps(steps)
        if isinstance(step, Product) and step.is_large
    )


class _PatternPlanner:
    """Plan one pattern; in a `not` block, the outer variables and the seed are bound already."""

    def __init__(
        self,
        context: PlanContext,
        pattern: Pattern,
        outer: Mapping[str, str],
        *,
        needed: tuple[str, ...],
        semantics: MatchSemantics,
        rows: float = 1.0,
    ) -> None:
        self._context = context
        self._graph = PatternGraph(pattern, outer)
        pending = PendingPredicates(list(self._graph.join_predicates), list(self._graph.blocks))
        self._builder = PlanBuilder(
            context,
            self._graph,
            pending,
            self._plan_block,
            needed=needed,
            semantics=semantics,
            rows=rows,
            bound=outer,
        )
        self._subtree_planner = SubtreePlanner(
            self._graph, context.costs, self._plan_block, has_multiplicity=semantics is not MatchSemantics.EXISTS
        )
        self._required = self._graph.find_required(self._graph.types if semantics is MatchSemantics.EVERY else needed)

    def build_steps(self) -> tuple[Step, ...]:
        """Return all steps, in order. May be called once."""
        builder = self._builder
        if self._graph.constants:
            builder.filter(tuple(self._graph.constants))
        builder.apply_pending()
        components = self._graph.find_components()
        if self._graph.outer:
            self._add_component(builder, components.pop(0))
        # `sorted` is stable: components with equal estimates keep their order of appearance.
        todo = sorted(components, key=self._estimate_min_rows)
        while todo:
            component = next((component for component in todo if self._find_equality(component) is not None), todo[0])
            todo.remove(component)
            if builder.is_blank:
                self._add_component(builder, component)
            else:
                builder.compact_live_variables()
                self._attach_component(component)
        builder.finish(builder.needed)
        # Both refer back to this planner, and the cycle would keep alive what was read for the plan.
        del self._builder, self._subtree_planner
        return builder.build_steps(builder.needed)

    def _add_component(self, builder: PlanBuilder, component: list[str]) -> None:
        JoinOrderPlanner(builder, self._subtree_planner, self._required).add(component)

    def _estimate_min_rows(self, component: list[str]) -> float:
        costs = self._context.costs
        graph = self._graph
        return min(costs.estimate_passing(graph.types[variable], graph.filters[variable]) for variable in component)

    # --- components that no hop connects ----------------------------------------------------------------

    def _attach_component(self, component: list[str]) -> None:
        """Solve another component on its own, and join it by a comparison or else by a cross product."""
        builder = self._builder
        equality = self._find_equality(component)
        builder.merge_rows()
        number = self._context.next_number()
        inner = builder.fork()
        self._add_component(inner, component)
        live = inner.find_live_variables()
        inner.finish(live)
        inner.merge_rows()
        steps = inner.build_steps(live)
        rows = builder.rows * inner.rows
        condition = self._find_range(component, min(builder.rows, inner.rows)) if equality is None else equality
        if condition is None:
            is_large = min(builder.rows, inner.rows) >= MIN_WARNED_ROWS
            step: Step = Product(
                number=number,
                steps=steps,
                rows=rows,
                left_rows=builder.rows,
                right_rows=inner.rows,
                is_large=is_large,
            )
            builder.add(step, binds=live)
        else:
            predicate, left, op, right = condition
            builder.pending.join_predicates.remove(predicate)
            types = builder.get_types(predicate.reads)
            rows *= self._context.costs.estimate_selectivity(predicate.expr)
            step = Join(number=number, left=left, op=op, right=right, types=types, steps=steps, rows=rows)
            builder.add(step, reads=find_variables(left), binds=live)
        builder.apply_pending()

    def _find_equality(self, component: list[str]) -> "_JoinCondition | None":
        """Return a predicate that equi-joins a component with what is bound, its bound side first."""
        return self._find_join_condition(component, lambda expr: expr.op is Op.EQ and _is_joinable(expr))

    def _find_range(self, component: list[str], rows: float) -> "_JoinCondition | None":
        """Return a predicate for a range join, if both sides have so many rows that sorting one pays off."""
        if rows < MIN_RANGE_JOIN_ROWS:
            return None
        return self._find_join_condition(
            component, lambda expr: expr.op in _RANGE_OPS and _is_joinable(expr) and _is_ordered(expr)
        )

    def _find_join_condition(self, component: list[str], accepts: Callable[[Compare], bool]) -> "_JoinCondition | None":
        members = set(component)
        bound = self._builder.bound.keys()
        for predicate in self._builder.pending.join_predicates:
            expr = predicate.expr
            if not isinstance(expr, Compare) or not accepts(expr):
                continue
            left, right = set(find_variables(expr.left)), set(find_variables(expr.right))
            if left <= bound and right <= members:
                return predicate, expr.left, expr.op, expr.right
            if right <= bound and left <= members:
                return predicate, expr.right, expr.op.mirrored, expr.left
        return None

    # --- `not` ------------------------------------------------------------------------------------------

    def _plan_block(self, absent: NotExists, rows: float) -> AntiJoin:
        """Plan a `not` block for an expected number of combinations."""
        shared = tuple((each.variable, self._graph.types[each.variable]) for each in absent.shared)
        number = self._context.next_number()
        if is_empty(absent.pattern):
            return AntiJoin(
                number=number, shared=shared, steps=(Nothing(number=self._context.next_number()),), rows=rows
            )
        inner = _PatternPlanner(
            self._context, absent.pattern, dict(shared), needed=(SEED,), semantics=MatchSemantics.EXISTS, rows=rows
        )
        return AntiJoin(number=number, shared=shared, steps=inner.build_steps(), rows=rows * ANTI_JOIN_SHARE)


# The predicate, and its bound side, operator and other side.
_JoinCondition: TypeAlias = tuple[JoinPredicate, Expr, Op, Expr]
_RANGE_OPS = frozenset({Op.LT, Op.LE, Op.GT, Op.GE})


def _is_ordered(expr: Compare) -> bool:
    """Return whether the values are numbers, texts or times."""
    return all(
        isinstance(side.type, Scalar) and (side.type.is_numeric or side.type in _ORDERED_TYPES)
        for side in (expr.left, expr.right)
    )


_ORDERED_TYPES = frozenset({Scalar.STRING, Scalar.DATE, Scalar.DATETIME})


def _is_joinable(expr: Compare) -> bool:
    if not isinstance(expr.left, Prop | Identity) or not isinstance(expr.right, Prop | Identity):
        return False
    left, right = expr.left.type, expr.right.type
    if isinstance(left, NodeRef | EdgeRef) or isinstance(right, NodeRef | EdgeRef):
        return False
    return find_shared_type(left, right) is not None
