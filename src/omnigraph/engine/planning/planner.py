"""Plan a read: translate its logical plan into a physical one.

Greedy, by cost, and deterministic: equal costs are decided by the order of appearance. Planning reads no data but
samples of columns that the query reads as well.
"""

from collections.abc import Iterator, Mapping
from itertools import count
from typing import assert_never

from omnigraph.engine.execution_context import ExecutionContext
from omnigraph.engine.physical_plan import (
    SEED,
    VALUE_TYPE,
    BindValue,
    BlockStep,
    DerivedSteps,
    Join,
    LeftJoin,
    Nothing,
    PhysicalPlan,
    Product,
    SemiJoin,
    Step,
    TypeConversion,
    UnionJoin,
    Unnest,
    get_type_name,
    iter_steps,
)
from omnigraph.engine.planning.aggregate_parts import split_aggregates
from omnigraph.engine.planning.cost_model import CostModel
from omnigraph.engine.planning.counted_subtrees import SubtreePlanner, estimate_test_share
from omnigraph.engine.planning.decorrelate import decorrelate
from omnigraph.engine.planning.join_conditions import find_equal_component, find_join
from omnigraph.engine.planning.join_order import JoinOrderPlanner
from omnigraph.engine.planning.outer_reads import find_outer_values
from omnigraph.engine.planning.pattern_graph import PatternGraph
from omnigraph.engine.planning.plan_builder import MatchSemantics, PendingPredicates, PlanBuilder, PlanContext
from omnigraph.lang.query_ast import BlockKind
from omnigraph.query.expr import Expr
from omnigraph.query.expr_tree import find_variables, find_windows
from omnigraph.query.logical_plan import (
    DerivedEdge,
    EachBlock,
    EitherBlock,
    Exists,
    Hop,
    OptionalMatch,
    Pattern,
    PatternBlock,
    ReadQuery,
    ValueBlock,
    list_sources,
)
from omnigraph.query.plan_checks import require
from omnigraph.query.rules.empty_pattern import is_empty

# A cross product with at least this number of rows on both sides gets a warning.
MIN_WARNED_ROWS = 1_000.0
# A join without an equality needs at least this number of pairs; sorting one side does not pay off for fewer.
MIN_RANGE_JOIN_PAIRS = 1_000_000.0
# Aggregates of different variables are solved one after the other where a plan for all of them lists at least this
# number of rows, and this many times as many as the plans for each of them.
MIN_SPLIT_ROWS = 1_000_000.0
MIN_SPLIT_FACTOR = 4.0
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
    outer = {each.variable: get_type_name(each.type) for each in query.inputs}
    rows = sum(plan.expected_rows for plan in sources) if sources else 1.0
    context.plan_derived = lambda derived: _plan_derived(derived, context)
    planner = _PatternPlanner(context, query.pattern, outer, needed=needed, semantics=semantics, rows=rows)
    steps = planner.build_steps()
    # It refers to the context itself, and the cycle would keep alive what was read for the plan.
    context.plan_derived = None
    expected = steps[-1].rows if steps else rows
    parts = _plan_parts(query, steps, costs, numbers)
    if parts:
        return PhysicalPlan(steps=(), variables=(), parts=parts)
    return PhysicalPlan(
        steps=steps,
        variables=needed,
        has_multiplicity=has_multiplicity,
        warnings=_build_warnings(steps),
        sources=sources,
        expected_rows=_estimate_output(query, expected),
    )


def _plan_parts(
    query: ReadQuery, steps: tuple[Step, ...], costs: CostModel, numbers: Iterator[int]
) -> tuple[tuple[ReadQuery, PhysicalPlan], ...]:
    """Plan the aggregates of different variables one after the other if that lists far fewer rows than all at once."""
    most = _find_most_rows(steps)
    if most < MIN_SPLIT_ROWS:
        return ()
    parts = tuple((part, _plan_stage(part, costs, numbers)) for part in split_aggregates(query))
    return parts if sum(_find_most_rows(plan.steps) for _, plan in parts) * MIN_SPLIT_FACTOR <= most else ()


def _find_most_rows(steps: tuple[Step, ...]) -> float:
    return max((step.rows for step in iter_steps(steps)), default=0.0)


def _plan_derived(derived: DerivedEdge, context: PlanContext) -> DerivedSteps:
    """Plan the pattern whose matches are the edges of a hop."""
    ends = (derived.source, derived.target)
    if is_empty(derived.pattern):
        return DerivedSteps(steps=(Nothing(number=context.next_number()),), source=ends[0], target=ends[1])
    planner = _PatternPlanner(context, derived.pattern, {}, needed=ends, semantics=MatchSemantics.EXISTS)
    return DerivedSteps(steps=planner.build_steps(), source=ends[0], target=ends[1])


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
        reads = (*query.grouping.keys, *aggregates, *query.decided)
        return MatchSemantics.COUNT if has_count else MatchSemantics.EXISTS, reads
    outputs = tuple(column.value for column in query.output)
    if any(find_windows(expr) for expr in query.results):
        # A window reads all matches, also those that `distinct` merges afterwards.
        return MatchSemantics.EVERY, query.results
    if query.distinct:
        return MatchSemantics.EXISTS, (*outputs, *query.decided)
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
    """Plan one pattern; in a block, the outer variables and the seed are bound already."""

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
        late_hops = [hop for hop in self._graph.hops if self._graph.is_late(hop)]
        pending = PendingPredicates(list(self._graph.join_predicates), list(self._graph.blocks), late_hops)
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
            self._graph, context.costs, self._plan_test, has_multiplicity=semantics is not MatchSemantics.EXISTS
        )
        self._semantics = semantics
        self._required = self._graph.find_required(self._graph.types if semantics is MatchSemantics.EVERY else needed)

    def build_steps(self) -> tuple[Step, ...]:
        """Return all steps, in order. May be called once."""
        builder = self._builder
        if self._graph.constants:
            builder.filter(tuple(self._graph.constants))
        builder.apply_pending()
        left = list(self._graph.own_variables)
        plain = [hop for hop in self._graph.hops if not self._graph.is_late(hop)]
        self._add_connected(left, plain)
        # Each round solves alternatives whose variables are bound by now, and follows the hops from them.
        for _ in self._graph.late_variables:
            plain = [hop for hop in plain if hop.source in left or hop.target in left]
            self._add_inputs(left, plain)
            # A list may read values that read no node.
            builder.apply_pending(with_first=bool(builder.pending.late_hops))
            # Hops between variables that are bound now were followed with them.
            plain = [hop for hop in plain if hop.source in left or hop.target in left]
            self._add_connected(left, [*self._take_late_hops(), *plain])
        plain = [hop for hop in plain if hop.source in left or hop.target in left]
        self._add_components(self._graph.find_components(plain, left, ()), plain)
        builder.apply_pending(with_first=True)
        builder.apply_last()
        # A predicate or hop that is forgotten would be a wrong answer.
        require(not builder.pending.join_predicates, "a predicate was not applied")
        require(not builder.pending.late_hops, "a hop from an alternative or an element was not followed")
        builder.finish(builder.needed)
        # Both refer back to this planner, and the cycle would keep alive what was read for the plan.
        del self._builder, self._subtree_planner
        return builder.build_steps(builder.needed)

    # --- the order of components --------------------------------------------------------------------------

    def _add_connected(self, left: list[str], hops: list[Hop]) -> None:
        """Add what hops connect with the bound variables, and remove it from the variables that are left."""
        builder = self._builder
        if not builder.bound:
            return
        components = self._graph.find_components(hops, left, builder.bound)
        component = components[0] if components else []
        members = set(component)
        if not members & builder.bound.keys():
            # Only values are bound, which no hop reads.
            return
        if any(hop.source in members for hop in hops):
            self._add_component(builder, component, hops)
            builder.apply_pending()
        left[:] = [variable for variable in left if variable not in members]

    def _find_inputs(self, hops: list[Hop]) -> set[str]:
        """Return the nodes that must be bound before alternatives and lists, which read them or what hops bind."""
        blocks = self._builder.pending.blocks
        late = [pending for pending in blocks if pending.binds & self._graph.late_variables.keys()]
        inputs = set[str]().union(*(pending.reads for pending in late))
        # A block may read what another one binds, so all that leads to it is needed.
        while more := {name for block in blocks if block.binds & inputs for name in block.reads} - inputs:
            inputs |= more
        # An edge or a walk is bound by its hop, between nodes.
        inputs |= self._graph.find_ends_of(inputs, hops)
        return (inputs - self._builder.bound.keys()) & set(self._graph.own_variables)

    def _add_inputs(self, left: list[str], hops: list[Hop]) -> None:
        """Add the components of the variables that alternatives read: solving these makes their hops possible."""
        inputs = self._find_inputs(hops)
        components = self._graph.find_components(hops, left, ())
        needed = [component for component in components if inputs.intersection(component)]
        self._add_components(needed, hops)
        added = {variable for component in needed for variable in component}
        left[:] = [variable for variable in left if variable not in added]

    def _take_late_hops(self) -> list[Hop]:
        pending, bound = self._builder.pending, self._builder.bound
        unsolved = self._graph.late_variables.keys() - bound.keys()
        ready = [hop for hop in pending.late_hops if not unsolved & {hop.source, hop.target}]
        pending.late_hops = [hop for hop in pending.late_hops if hop not in ready]
        return ready

    def _add_components(self, components: list[list[str]], hops: list[Hop]) -> None:
        builder = self._builder
        # `sorted` is stable: components with equal estimates keep their order of appearance.
        todo = sorted(components, key=self._estimate_min_rows)
        while todo:
            component = todo.pop(find_equal_component(builder, todo))
            if builder.is_blank:
                self._add_component(builder, component, hops)
            else:
                builder.compact_live_variables()
                self._attach_component(component, hops)

    def _add_component(self, builder: PlanBuilder, component: list[str], hops: list[Hop]) -> None:
        JoinOrderPlanner(builder, self._subtree_planner, self._required, tuple(hops)).add(component)

    def _estimate_min_rows(self, component: list[str]) -> float:
        costs = self._context.costs
        graph = self._graph
        return min(costs.estimate_passing(graph.types[variable], graph.filters[variable]) for variable in component)

    # --- components that no hop connects ----------------------------------------------------------------

    def _attach_component(self, component: list[str], hops: list[Hop]) -> None:
        """Solve another component on its own, and join it by a comparison or else by a cross product."""
        builder = self._builder
        builder.merge_rows()
        number = self._context.next_number()
        inner = builder.fork()
        self._add_component(inner, component, hops)
        live = inner.find_live_variables()
        inner.finish(live)
        inner.merge_rows()
        steps = inner.build_steps(live)
        rows = builder.rows * inner.rows
        joined = find_join(builder, component, has_ranges=builder.rows * inner.rows >= MIN_RANGE_JOIN_PAIRS)
        if joined is None:
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
            reads = set[str]().union(*(predicate.reads for predicate in joined.predicates))
            for predicate in joined.predicates:
                builder.pending.join_predicates.remove(predicate)
                rows *= self._context.costs.estimate_selectivity(predicate.expr)
            step = Join(
                number=number, conditions=joined.conditions, types=builder.get_types(reads), steps=steps, rows=rows
            )
            builder.add(step, reads=reads - set(component), binds=live)
        builder.apply_pending()

    # --- blocks -----------------------------------------------------------------------------------------

    def _plan_block(self, block: PatternBlock, rows: float, binds: frozenset[str]) -> BlockStep:
        """Plan a block for an expected number of rows; `binds` are those of its variables that are read later."""
        match block:
            case Exists():
                return self._plan_test(block, rows)
            case OptionalMatch():
                return self._plan_optional(block, rows, binds)
            case EitherBlock():
                return self._plan_either(block, rows, binds)
            case ValueBlock():
                return self._plan_value(block, rows)
            case EachBlock():
                return self._plan_each(block, rows, binds)
            case _:
                assert_never(block)

    def _plan_test(self, block: Exists, rows: float) -> SemiJoin:
        number = self._context.next_number()
        pattern = decorrelate(block, rows, self._context.costs)
        steps = self._plan_inner(block, pattern, (), MatchSemantics.EXISTS, rows)
        kept = rows * estimate_test_share(block)
        return SemiJoin(
            number=number,
            shared=self._get_shared(block),
            outer_values=find_outer_values(block),
            steps=steps,
            rows=kept,
            is_anti=block.negated,
        )

    def _plan_optional(self, block: OptionalMatch, rows: float, binds: frozenset[str]) -> LeftJoin:
        number = self._context.next_number()
        bound = tuple(variable for variable in block.pattern.row_types if variable in binds)
        steps = self._plan_inner(block, block.pattern, bound, self._semantics, rows)
        paired = max(rows, steps[-1].rows if steps else rows)
        fan_out = paired / max(rows, 1.0)
        return LeftJoin(
            number=number,
            shared=self._get_shared(block),
            outer_values=find_outer_values(block),
            steps=steps,
            binds=bound,
            rows=paired,
            fan_out=fan_out,
        )

    def _plan_either(self, block: EitherBlock, rows: float, binds: frozenset[str]) -> UnionJoin:
        number = self._context.next_number()
        bound = tuple(each.variable for each in block.variables if each.variable in binds)
        # All variables tell matches apart, so they are compared even if nothing reads them, unless one match is enough.
        listed = tuple(each.variable for each in block.variables)
        if self._semantics is MatchSemantics.EXISTS and not bound:
            listed = ()
        alternatives = tuple(
            self._plan_inner(block, pattern, listed, MatchSemantics.EXISTS, rows) for pattern in block.alternatives
        )
        paired = sum(steps[-1].rows if steps else rows for steps in alternatives)
        return UnionJoin(
            number=number,
            shared=self._get_shared(block),
            outer_values=find_outer_values(block),
            alternatives=alternatives,
            variables=listed,
            binds=bound,
            rows=paired,
            fan_out=paired / max(rows, 1.0),
            conversions=tuple(_find_conversions(block, pattern, listed) for pattern in block.alternatives),
            elements=tuple(
                (each.variable, each.type)
                for each in block.variables
                if each.variable in listed and get_type_name(each.type) == VALUE_TYPE
            ),
        )

    def _plan_value(self, block: ValueBlock, rows: float) -> BindValue:
        number = self._context.next_number()
        reads = {variable for expr in block.exprs for variable in find_variables(expr)}
        listed = tuple(variable for variable in block.pattern.types if variable in reads)
        semantics = _find_block_semantics(block)
        types = {each.variable: get_type_name(each.type) for each in block.shared}
        types.update({name: get_type_name(type_) for name, type_ in block.pattern.types.items()})
        shared_reads = tuple(each.variable for each in block.shared if each.variable in reads)
        steps = self._plan_inner(block, block.pattern, (*shared_reads, *listed), semantics, rows)
        return BindValue(
            number=number,
            shared=self._get_shared(block),
            outer_values=find_outer_values(block),
            steps=steps,
            block=block,
            types=tuple((name, type_name) for name, type_name in types.items() if name in reads),
            has_multiplicity=semantics is MatchSemantics.COUNT,
            rows=rows,
        )

    def _plan_each(self, block: EachBlock, rows: float, binds: frozenset[str]) -> Unnest:
        fan_out = self._context.costs.estimate_elements(block.value)
        return Unnest(
            number=self._context.next_number(),
            variable=block.variable,
            value=block.value,
            types=self._get_shared(block),
            element=block.variable if block.variable in binds else None,
            position=block.position if block.position in binds else None,
            is_entity=block.is_entity,
            rows=rows * fan_out,
            is_test=self._semantics is MatchSemantics.EXISTS and not binds,
            fan_out=fan_out,
        )

    def _get_shared(self, block: PatternBlock) -> tuple[tuple[str, str], ...]:
        return tuple((each.variable, self._graph.types[each.variable]) for each in block.shared)

    def _plan_inner(
        self, block: PatternBlock, pattern: Pattern, needed: tuple[str, ...], semantics: MatchSemantics, rows: float
    ) -> tuple[Step, ...]:
        """Plan a pattern of a block; its rows have the number of the combination that they belong to."""
        if is_empty(pattern):
            return (Nothing(number=self._context.next_number()),)
        shared = dict(self._get_shared(block))
        exprs = block.exprs if isinstance(block, ValueBlock) else ()
        # A block that reads nothing is solved once: there is nothing to tell apart.
        seed = (SEED,) if shared else ()
        inner = _PatternPlanner(
            self._context.with_outputs(exprs),
            pattern,
            shared,
            needed=(*seed, *needed),
            semantics=semantics,
            rows=rows if shared else 1.0,
        )
        return inner.build_steps()


def _find_conversions(block: EitherBlock, pattern: Pattern, listed: tuple[str, ...]) -> tuple[TypeConversion, ...]:
    """Return the listed variables that have another type in an alternative than outside."""
    inner = pattern.types
    conversions = (
        TypeConversion(
            variable=each.variable,
            from_type=get_type_name(inner[each.variable]),
            to_type=get_type_name(each.type),
        )
        for each in block.variables
        if each.variable in listed
    )
    return tuple(each for each in conversions if each.from_type != each.to_type)


def _find_block_semantics(block: ValueBlock) -> MatchSemantics:
    """Return what a block needs of the matches of its pattern."""
    # A limit counts rows, and a list shows each of them.
    if block.limit is not None or (block.kind is BlockKind.COLLECT and not block.distinct):
        return MatchSemantics.EVERY
    if block.distinct or block.kind in (BlockKind.EXISTS, BlockKind.MIN, BlockKind.MAX):
        return MatchSemantics.EXISTS
    return MatchSemantics.COUNT
