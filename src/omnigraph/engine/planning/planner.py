"""From the logical plan of a read to the physical one: which variable first, which hop next, what is only counted.

Greedy, by cost, and deterministic: equal costs are decided by the order of appearance. Of data, planning reads only
samples of columns that the query reads as well.
"""

from collections.abc import Callable, Mapping
from typing import TypeAlias

from omnigraph.engine.execution_context import Reading
from omnigraph.engine.physical_plan import SEED, AntiJoin, Join, Nothing, PhysicalPlan, Product, Step, all_steps
from omnigraph.engine.planning.cost_model import Costs
from omnigraph.engine.planning.counted_subtrees import Branches
from omnigraph.engine.planning.join_order import PartPlan
from omnigraph.engine.planning.pattern_graph import Crossing, Shape
from omnigraph.engine.planning.plan_builder import Drafting, Maker, Waiting, Want
from omnigraph.engine.predicate_eval import shared_type
from omnigraph.query.expr import Compare, EdgeRef, Expr, Fold, Identity, NodeRef, Op, Prop, variables
from omnigraph.query.logical_plan import Absent, Pattern, ReadQuery
from omnigraph.query.rules.empty_pattern import is_empty
from omnigraph.schema.types import Scalar

LARGE_SIDE = 1_000.0
"""Both sides of a product with at least so many rows are worth a warning."""
RANGED_SIDE = 1_000.0
"""Both sides have at least so many rows where they are joined by an order."""
MOST_LED = 10_000
"""Up to this limit rows are best made in the order in which they come out."""
_KEPT = 0.7
"""The share of rows that a `not` block keeps, where nothing is known."""


def plan_read(query: ReadQuery, reading: Reading) -> PhysicalPlan:
    """The plan of a read's pattern; how its output is made of the bindings is not part of it."""
    want, exprs = _wanted(query)
    read = {variable for expr in exprs for variable in variables(expr)}
    needed = tuple(variable for variable in query.pattern.types if variable in read)
    counts = want is Want.COUNT
    if is_empty(query.pattern):
        return PhysicalPlan(steps=(Nothing(number=1),), variables=needed, counts=counts)
    maker = Maker(Costs(reading), exprs, _lead(query))
    steps = _PatternPlan(maker, query.pattern, {}, needed=needed, want=want).steps()
    return PhysicalPlan(steps=steps, variables=needed, counts=counts, warnings=_warnings(steps))


def _wanted(query: ReadQuery) -> tuple[Want, tuple[Expr, ...]]:
    """What is made of the matches, and of which values."""
    if query.grouping is not None:
        aggregates = query.grouping.aggregates
        has_count = any(a.fold in (Fold.SUM, Fold.AVG) or (a.fold is Fold.COUNT and not a.distinct) for a in aggregates)
        return Want.COUNT if has_count else Want.EXISTS, (*query.grouping.keys, *aggregates)
    outputs = tuple(column.value for column in query.output)
    if query.distinct:
        return Want.EXISTS, outputs
    return Want.EVERY, query.results if query.is_ordered else outputs


def _lead(query: ReadQuery) -> str | None:
    """The variable that decides first about the order of rows, if there is a limit that few of them may reach."""
    if query.limit is None or query.grouping is not None or query.rank is not None:
        return None
    if isinstance(query.limit, int) and query.limit > MOST_LED:
        return None
    values = [*(key.value for key in query.order), *query.ties]
    first = variables(values[0]) if values else ()  # distinct constants have no order
    return first[0] if first else None


def _warnings(steps: tuple[Step, ...]) -> tuple[str, ...]:
    return tuple(
        f"nothing connects the two sides of step {step.number}:"
        f" about {step.left_rows:,.0f} rows are paired with {step.right_rows:,.0f}"
        for step in all_steps(steps)
        if isinstance(step, Product) and step.is_large
    )


class _PatternPlan:
    """Plans one pattern; in a `not` block, the variables of the outside and the seed are bound already."""

    def __init__(
        self,
        maker: Maker,
        pattern: Pattern,
        outside: Mapping[str, str],
        *,
        needed: tuple[str, ...],
        want: Want,
        rows: float = 1.0,
    ) -> None:
        self._maker, self._shape = maker, Shape(pattern, outside)
        waiting = Waiting(list(self._shape.crossing), list(self._shape.blocks))
        self._drafting = Drafting(
            maker,
            self._shape,
            waiting,
            self._block,
            needed=needed,
            want=want,
            rows=rows,
            bound=outside,
        )
        self._branches = Branches(self._shape, maker.costs, self._block, counts=want is not Want.EXISTS)
        self._required = self._shape.required(self._shape.types if want is Want.EVERY else needed)

    def steps(self) -> tuple[Step, ...]:
        """All steps, in order; to be asked for once."""
        drafting = self._drafting
        if self._shape.constants:
            drafting.filter(tuple(self._shape.constants))
        drafting.settle()
        parts = self._shape.components()
        if self._shape.outside:
            self._part(drafting, parts.pop(0))
        todo = [part for _, _, part in sorted((self._least(part), place, part) for place, part in enumerate(parts))]
        while todo:
            part = next((part for part in todo if self._equality(part) is not None), todo[0])
            todo.remove(part)
            if drafting.is_blank:
                self._part(drafting, part)
            else:
                drafting.shrink()
                self._attach(part)
        drafting.finish(drafting.needed)
        del self._drafting, self._branches  # they refer to this, and hold what was read for the plan
        return drafting.steps(drafting.needed)

    def _part(self, drafting: Drafting, part: list[str]) -> None:
        PartPlan(drafting, self._branches, self._required).add(part)

    def _least(self, part: list[str]) -> float:
        costs, shape = self._maker.costs, self._shape
        return min(costs.passing(shape.types[variable], shape.filters[variable]) for variable in part)

    # --- parts that no hop connects ---------------------------------------------------------------------

    def _attach(self, part: list[str]) -> None:
        """Solve another part on its own, and join it by a comparison, or pair everything."""
        drafting = self._drafting
        equality = self._equality(part)
        drafting.merge()
        number = self._maker.number()
        inner = drafting.apart()
        self._part(inner, part)
        kept = inner.wanted_later()
        inner.finish(kept)
        inner.merge()
        steps, rows = inner.steps(kept), drafting.rows * inner.rows
        joining = self._range(part, min(drafting.rows, inner.rows)) if equality is None else equality
        if joining is None:
            is_large = min(drafting.rows, inner.rows) >= LARGE_SIDE
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
            drafting.waiting.crossing.remove(crossing)
            types = drafting.types_of(crossing.reads)
            rows *= self._maker.costs.share(crossing.expr)
            step = Join(number=number, left=left, op=op, right=right, types=types, steps=steps, rows=rows)
            drafting.add(step, reads=variables(left), binds=kept)
        drafting.settle()

    def _equality(self, part: list[str]) -> "_Joining | None":
        """A predicate that joins what is bound with a part by equal values, its bound side first."""
        return self._joining(part, lambda expr: expr.op is Op.EQ and _is_joinable(expr))

    def _range(self, part: list[str], rows: float) -> "_Joining | None":
        """A predicate that does it by their order, where both sides have many rows: there it pays to sort one."""
        if rows < RANGED_SIDE:
            return None
        return self._joining(part, lambda expr: expr.op in _RANGES and _is_joinable(expr) and _is_ordered(expr))

    def _joining(self, part: list[str], is_wanted: Callable[[Compare], bool]) -> "_Joining | None":
        inside, bound = set(part), self._drafting.bound.keys()
        for crossing in self._drafting.waiting.crossing:
            expr = crossing.expr
            if not isinstance(expr, Compare) or not is_wanted(expr):
                continue
            left, right = set(variables(expr.left)), set(variables(expr.right))
            if left <= bound and right <= inside:
                return crossing, expr.left, expr.op, expr.right
            if right <= bound and left <= inside:
                return crossing, expr.right, expr.op.mirrored, expr.left
        return None

    # --- `not` ------------------------------------------------------------------------------------------

    def _block(self, absent: Absent, rows: float) -> AntiJoin:
        """The plan of a `not` block for an expected number of combinations."""
        shared = tuple((each.variable, self._shape.types[each.variable]) for each in absent.shared)
        number = self._maker.number()
        if is_empty(absent.pattern):
            return AntiJoin(number=number, shared=shared, steps=(Nothing(number=self._maker.number()),), rows=rows)
        inner = _PatternPlan(self._maker, absent.pattern, dict(shared), needed=(SEED,), want=Want.EXISTS, rows=rows)
        return AntiJoin(number=number, shared=shared, steps=inner.steps(), rows=rows * _KEPT)


_Joining: TypeAlias = tuple[Crossing, Expr, Op, Expr]
_RANGES = frozenset({Op.LT, Op.LE, Op.GT, Op.GE})


def _is_ordered(expr: Compare) -> bool:
    """Whether the values are numbers, texts or times."""
    return all(
        isinstance(side.type, Scalar) and (side.type.is_numeric or side.type in _ORDERED)
        for side in (expr.left, expr.right)
    )


_ORDERED = frozenset({Scalar.STRING, Scalar.DATE, Scalar.DATETIME})


def _is_joinable(expr: Compare) -> bool:
    if not isinstance(expr.left, Prop | Identity) or not isinstance(expr.right, Prop | Identity):
        return False
    left, right = expr.left.type, expr.right.type
    if isinstance(left, NodeRef | EdgeRef) or isinstance(right, NodeRef | EdgeRef):
        return False
    return shared_type(left, right) is not None
