"""From the logical plan of a read to the physical one: which variable first, which hop next, what is only counted.

Greedy, by cost, and deterministic: equal costs are decided by the order of appearance. Of data, planning reads only
samples of columns that the query reads as well.
"""

from collections.abc import Callable, Mapping
from typing import TypeAlias

from omnigraph.engine.execution_context import ExecutionContext
from omnigraph.engine.physical_plan import SEED, AntiJoin, Join, Nothing, PhysicalPlan, Product, Step, iter_steps
from omnigraph.engine.planning.cost_model import CostModel
from omnigraph.engine.planning.counted_subtrees import SubtreePlanner
from omnigraph.engine.planning.join_order import JoinOrderPlanner
from omnigraph.engine.planning.pattern_graph import JoinPredicate, PatternGraph
from omnigraph.engine.planning.plan_builder import MatchSemantics, PendingPredicates, PlanBuilder, PlanContext
from omnigraph.engine.predicate_eval import find_shared_type
from omnigraph.query.expr import AggregateFunction, Compare, EdgeRef, Expr, Identity, NodeRef, Op, Prop, find_variables
from omnigraph.query.logical_plan import NotExists, Pattern, ReadQuery
from omnigraph.query.rules.empty_pattern import is_empty
from omnigraph.schema.types import Scalar

MIN_WARNED_ROWS = 1_000.0
"""Both sides of a product with at least so many rows are worth a warning."""
MIN_RANGE_JOIN_ROWS = 1_000.0
"""Both sides have at least so many rows where they are joined by an order."""
MAX_ORDERED_LIMIT = 10_000
"""Up to this limit rows are best made in the order in which they come out."""
_ANTI_JOIN_SHARE = 0.7
"""The share of rows that a `not` block keeps, where nothing is known."""


def plan_read(query: ReadQuery, reading: ExecutionContext) -> PhysicalPlan:
    """The plan of a read's pattern; how its output is made of the bindings is not part of it."""
    want, exprs = _analyze_output(query)
    read = {variable for expr in exprs for variable in find_variables(expr)}
    needed = tuple(variable for variable in query.pattern.types if variable in read)
    counts = want is MatchSemantics.COUNT
    if is_empty(query.pattern):
        return PhysicalPlan(steps=(Nothing(number=1),), variables=needed, has_multiplicity=counts)
    maker = PlanContext(CostModel(reading), exprs, _find_leading_variable(query))
    steps = _PatternPlanner(maker, query.pattern, {}, needed=needed, semantics=want).build_steps()
    return PhysicalPlan(steps=steps, variables=needed, has_multiplicity=counts, warnings=_build_warnings(steps))


def _analyze_output(query: ReadQuery) -> tuple[MatchSemantics, tuple[Expr, ...]]:
    """What is made of the matches, and of which values."""
    if query.grouping is not None:
        aggregates = query.grouping.aggregates
        has_count = any(
            a.fold in (AggregateFunction.SUM, AggregateFunction.AVG)
            or (a.fold is AggregateFunction.COUNT and not a.distinct)
            for a in aggregates
        )
        return MatchSemantics.COUNT if has_count else MatchSemantics.EXISTS, (*query.grouping.keys, *aggregates)
    outputs = tuple(column.value for column in query.output)
    if query.distinct:
        return MatchSemantics.EXISTS, outputs
    return MatchSemantics.EVERY, query.results if query.is_ordered else outputs


def _find_leading_variable(query: ReadQuery) -> str | None:
    """The variable that decides first about the order of rows, if there is a limit that few of them may reach."""
    if query.limit is None or query.grouping is not None or query.rank is not None:
        return None
    if isinstance(query.limit, int) and query.limit > MAX_ORDERED_LIMIT:
        return None
    values = [*(key.value for key in query.order), *query.ties]
    first = find_variables(values[0]) if values else ()  # distinct constants have no order
    return first[0] if first else None


def _build_warnings(steps: tuple[Step, ...]) -> tuple[str, ...]:
    return tuple(
        f"nothing connects the two sides of step {step.number}:"
        f" about {step.left_rows:,.0f} rows are paired with {step.right_rows:,.0f}"
        for step in iter_steps(steps)
        if isinstance(step, Product) and step.is_large
    )


class _PatternPlanner:
    """Plans one pattern; in a `not` block, the variables of the outside and the seed are bound already."""

    def __init__(
        self,
        maker: PlanContext,
        pattern: Pattern,
        outside: Mapping[str, str],
        *,
        needed: tuple[str, ...],
        semantics: MatchSemantics,
        rows: float = 1.0,
    ) -> None:
        self._context, self._shape = maker, PatternGraph(pattern, outside)
        waiting = PendingPredicates(list(self._shape.join_predicates), list(self._shape.blocks))
        self._builder = PlanBuilder(
            maker,
            self._shape,
            waiting,
            self._plan_block,
            needed=needed,
            semantics=semantics,
            rows=rows,
            bound=outside,
        )
        self._subtree_planner = SubtreePlanner(
            self._shape, maker.costs, self._plan_block, has_multiplicity=semantics is not MatchSemantics.EXISTS
        )
        self._required = self._shape.find_required(self._shape.types if semantics is MatchSemantics.EVERY else needed)

    def build_steps(self) -> tuple[Step, ...]:
        """All steps, in order; to be asked for once."""
        drafting = self._builder
        if self._shape.constants:
            drafting.filter(tuple(self._shape.constants))
        drafting.apply_pending()
        parts = self._shape.find_components()
        if self._shape.outside:
            self._add_part(drafting, parts.pop(0))
        todo = [
            part
            for _, _, part in sorted((self._estimate_min_rows(part), place, part) for place, part in enumerate(parts))
        ]
        while todo:
            part = next((part for part in todo if self._find_equality(part) is not None), todo[0])
            todo.remove(part)
            if drafting.is_blank:
                self._add_part(drafting, part)
            else:
                drafting.shrink()
                self._attach(part)
        drafting.finish(drafting.needed)
        del self._builder, self._subtree_planner  # they refer to this, and hold what was read for the plan
        return drafting.build_steps(drafting.needed)

    def _add_part(self, drafting: PlanBuilder, part: list[str]) -> None:
        JoinOrderPlanner(drafting, self._subtree_planner, self._required).add(part)

    def _estimate_min_rows(self, part: list[str]) -> float:
        costs, shape = self._context.costs, self._shape
        return min(costs.estimate_passing(shape.types[variable], shape.filters[variable]) for variable in part)

    # --- parts that no hop connects ---------------------------------------------------------------------

    def _attach(self, part: list[str]) -> None:
        """Solve another part on its own, and join it by a comparison, or pair everything."""
        drafting = self._builder
        equality = self._find_equality(part)
        drafting.merge()
        number = self._context.next_number()
        inner = drafting.fork()
        self._add_part(inner, part)
        kept = inner.find_live_variables()
        inner.finish(kept)
        inner.merge()
        steps, rows = inner.build_steps(kept), drafting.rows * inner.rows
        joining = self._find_range(part, min(drafting.rows, inner.rows)) if equality is None else equality
        if joining is None:
            is_large = min(drafting.rows, inner.rows) >= MIN_WARNED_ROWS
            step: Step = Product(
                number=number,
                steps=steps,
                rows=rows,
                left_rows=drafting.rows,
                right_rows=inner.rows,
                is_large=is_large,
            )
            drafting.add(step, binds=kept)
        else:
            crossing, left, op, right = joining
            drafting.pending.join_predicates.remove(crossing)
            types = drafting.get_types(crossing.reads)
            rows *= self._context.costs.estimate_selectivity(crossing.expr)
            step = Join(number=number, left=left, op=op, right=right, types=types, steps=steps, rows=rows)
            drafting.add(step, reads=find_variables(left), binds=kept)
        drafting.apply_pending()

    def _find_equality(self, part: list[str]) -> "_JoinCondition | None":
        """A predicate that joins what is bound with a part by equal values, its bound side first."""
        return self._find_joining(part, lambda expr: expr.op is Op.EQ and _is_joinable(expr))

    def _find_range(self, part: list[str], rows: float) -> "_JoinCondition | None":
        """A predicate that does it by their order, where both sides have many rows: there it pays to sort one."""
        if rows < MIN_RANGE_JOIN_ROWS:
            return None
        return self._find_joining(part, lambda expr: expr.op in _RANGE_OPS and _is_joinable(expr) and _is_ordered(expr))

    def _find_joining(self, part: list[str], is_wanted: Callable[[Compare], bool]) -> "_JoinCondition | None":
        inside, bound = set(part), self._builder.bound.keys()
        for crossing in self._builder.pending.join_predicates:
            expr = crossing.expr
            if not isinstance(expr, Compare) or not is_wanted(expr):
                continue
            left, right = set(find_variables(expr.left)), set(find_variables(expr.right))
            if left <= bound and right <= inside:
                return crossing, expr.left, expr.op, expr.right
            if right <= bound and left <= inside:
                return crossing, expr.right, expr.op.mirrored, expr.left
        return None

    # --- `not` ------------------------------------------------------------------------------------------

    def _plan_block(self, absent: NotExists, rows: float) -> AntiJoin:
        """The plan of a `not` block for an expected number of combinations."""
        shared = tuple((each.variable, self._shape.types[each.variable]) for each in absent.shared)
        number = self._context.next_number()
        if is_empty(absent.pattern):
            return AntiJoin(
                number=number, shared=shared, steps=(Nothing(number=self._context.next_number()),), rows=rows
            )
        inner = _PatternPlanner(
            self._context, absent.pattern, dict(shared), needed=(SEED,), semantics=MatchSemantics.EXISTS, rows=rows
        )
        return AntiJoin(number=number, shared=shared, steps=inner.build_steps(), rows=rows * _ANTI_JOIN_SHARE)


_JoinCondition: TypeAlias = tuple[JoinPredicate, Expr, Op, Expr]
_RANGE_OPS = frozenset({Op.LT, Op.LE, Op.GT, Op.GE})


def _is_ordered(expr: Compare) -> bool:
    """Whether the values are numbers, texts or times."""
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
