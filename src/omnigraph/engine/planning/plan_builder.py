"""Build the steps of a plan: track bound variables, expected rows, and predicates that are not applied yet."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from enum import Enum
from itertools import count

from omnigraph.engine.physical_plan import (
    SEED,
    VALUE_TYPE,
    BlockStep,
    Close,
    Compact,
    DerivedSteps,
    Expand,
    Filter,
    Merge,
    Step,
)
from omnigraph.engine.planning.cost_model import CostModel
from omnigraph.engine.planning.pattern_graph import JoinPredicate, PatternGraph, PendingBlock
from omnigraph.query.expr import Entity, Expr, Identity, Prop
from omnigraph.query.expr_tree import find_variables, walk
from omnigraph.query.logical_plan import DerivedEdge, EachBlock, Hop, OptionalMatch, PatternBlock, ValueBlock
from omnigraph.schema.types import EnumOf, Scalar, ValueType

# From this number of rows on, rows with equal values are merged before a hop or join, if at most one in this factor is
# left.
MIN_MERGED_ROWS = 64.0
MIN_MERGE_FACTOR = 4.0
# Estimates know no hubs: with half of these edges into one node and half out of it, two hops are 10^8 paths.
MIN_HUB_EDGES = 20_000.0
# No more rows are expected than this: estimates of many hops would become infinite, which nothing can print.
MAX_EXPECTED_ROWS = 1e30
# From this number on, rows of several columns are deduplicated before they are returned.
MIN_DISTINCT_ROWS = 100_000.0


class MatchSemantics(Enum):
    """How the output treats matches that differ only in variables it does not need."""

    EVERY = "every"
    """Each match is a separate row."""
    COUNT = "count"
    """Only the number of matches matters."""
    EXISTS = "exists"
    """Only the existence of a match matters."""


# Plans a block for an expected number of rows, of whose variables those in the last argument are needed afterwards.
PlanBlock = Callable[[PatternBlock, float, "frozenset[str]"], BlockStep]


class PlanContext:
    """The state that all parts of one plan share: estimates, step numbers, and the expressions of the output.

    `leading_variable` decides first about the order of rows if only some of them are requested.
    """

    def __init__(
        self,
        costs: CostModel,
        outputs: tuple[Expr, ...],
        leading_variable: str | None = None,
        numbers: Iterator[int] | None = None,
    ) -> None:
        self.costs = costs
        self.outputs = outputs
        self.leading_variable = leading_variable
        self._numbers = count(1) if numbers is None else numbers
        # Plans the edges that a named pattern stands for; set by the planner, which plans patterns.
        self.plan_derived: Callable[[DerivedEdge], DerivedSteps] | None = None

    def with_outputs(self, outputs: tuple[Expr, ...]) -> "PlanContext":
        """Return the context of an inner block, whose matches other expressions read."""
        inner = PlanContext(self.costs, outputs)
        inner._numbers = self._numbers
        inner.plan_derived = self.plan_derived
        return inner

    def next_number(self) -> int:
        """Return the number of the next step, unless the query's time is over or its caller has left."""
        self.costs.context.budget.check()
        return next(self._numbers)


@dataclass(frozen=True, slots=True)
class _PlannedStep:
    """A step before it is known which columns later steps need."""

    step: Step
    reads: frozenset[str]
    binds: frozenset[str]


@dataclass(slots=True)
class PendingPredicates:
    """Predicates, blocks and hops of a pattern whose variables are not all bound yet."""

    join_predicates: list[JoinPredicate]
    blocks: list[PendingBlock]
    # Hops from variables of alternatives that are not solved yet.
    late_hops: list[Hop] = field(default_factory=list)

    def collect_variables(self) -> set[str]:
        """Return the variables that they read."""
        predicate_reads = (predicate.reads for predicate in self.join_predicates)
        ends = ({hop.source, hop.target} for hop in self.late_hops)
        return set[str]().union(*predicate_reads, *(block.reads for block in self.blocks), *ends)

    def take_ready(self, bound: Iterable[str], *, with_first: bool) -> list[PendingBlock]:
        """Remove and return the blocks that can and should be solved as soon as these variables are bound.

        Optional blocks come last. A value that only the output reads is computed last too: for the rows that are left.
        Unless `with_first`, no value comes first: the nodes of the pattern do, if it has any.
        """
        names = set(bound)
        reads = set[str]().union(
            *(predicate.reads for predicate in self.join_predicates), *(pending.reads for pending in self.blocks)
        )
        ends = set[str]().union(*({hop.source, hop.target} for hop in self.late_hops))
        ready = [
            pending
            for pending in self.blocks
            if pending.reads <= names
            and not isinstance(pending.block, OptionalMatch)
            and not (isinstance(pending.block, ValueBlock) and not ((names or with_first) and pending.binds & reads))
            # The elements of a list multiply the rows, so they wait until something reads them.
            and not (isinstance(pending.block, EachBlock) and not pending.binds & (reads | ends))
        ]
        # By identity: to compare two blocks is to compare all that is in them.
        solved = set(map(id, ready))
        self.blocks = [pending for pending in self.blocks if id(pending) not in solved]
        return ready


class PlanBuilder:
    """Build the steps of one pattern, or of a component that is solved on its own."""

    def __init__(
        self,
        context: PlanContext,
        graph: PatternGraph,
        pending: PendingPredicates,
        plan_block: PlanBlock,
        *,
        needed: tuple[str, ...],
        semantics: MatchSemantics,
        rows: float = 1.0,
        bound: Iterable[str] = (),
    ) -> None:
        self.context = context
        self.graph = graph
        self.pending = pending
        self._plan_block = plan_block
        self.needed = needed
        self.semantics = semantics
        self.rows = min(rows, MAX_EXPECTED_ROWS)
        self.bound: dict[str, None] = dict.fromkeys(bound)
        self._steps: list[_PlannedStep] = []

    def fork(self) -> "PlanBuilder":
        """Return a builder for another component, with nothing bound and the same pending predicates."""
        return PlanBuilder(
            self.context, self.graph, self.pending, self._plan_block, needed=self.needed, semantics=self.semantics
        )

    @property
    def is_blank(self) -> bool:
        """Whether no variable was bound yet."""
        return not self.bound and not any(planned.binds for planned in self._steps)

    def add(
        self, step: Step, *, reads: Iterable[str] = (), binds: Iterable[str] = (), rows: float | None = None
    ) -> None:
        """Append a step; `rows` is the number of rows expected after it, by default that of the step."""
        binds = frozenset(binds)
        self._steps.append(_PlannedStep(step, frozenset(reads), binds))
        self.bound.update(dict.fromkeys(variable for variable in self.graph.types if variable in binds))
        self.rows = min(step.rows if rows is None else rows, MAX_EXPECTED_ROWS)

    # --- pending predicates -----------------------------------------------------------------------------

    def apply_pending(self, *, with_blocks: bool = True, with_first: bool = False) -> None:
        """Apply all predicates, and all blocks, whose variables are bound by now."""
        self._apply_predicates()
        while with_blocks:
            ready = self.pending.take_ready(self.bound, with_first=with_first)
            if not ready:
                return
            for pending in ready:
                self.apply_block(pending)
            # A block may have bound what a predicate reads.
            self._apply_predicates()

    def _apply_predicates(self) -> None:
        predicates = self.pending.join_predicates
        ready = [predicate for predicate in predicates if predicate.reads <= self.bound.keys()]
        if ready:
            predicates[:] = [predicate for predicate in predicates if not predicate.reads <= self.bound.keys()]
            self.filter(tuple(predicate.expr for predicate in ready))

    def apply_block(self, pending: PendingBlock) -> None:
        """Append the step of a block, which binds those of its variables that are read later."""
        reads = self.pending.collect_variables().union(self.needed)
        binds = pending.binds & reads
        self.add(self._plan_block(pending.block, self.rows, binds), reads=pending.reads, binds=binds)

    def apply_last(self) -> None:
        """Append the optional blocks in order, and then the values that only the output reads."""
        pending = self.pending
        while optional := next((each for each in pending.blocks if isinstance(each.block, OptionalMatch)), None):
            pending.blocks.remove(optional)
            self.apply_block(optional)
            self.apply_pending()
        # A value may read another one, so each waits until what it reads is bound.
        while ready := next((each for each in pending.blocks if each.reads <= self.bound.keys()), None):
            pending.blocks.remove(ready)
            self.apply_block(ready)

    def filter(self, predicates: tuple[Expr, ...]) -> None:
        """Append a filter that keeps rows for which all predicates are true."""
        reads = frozenset(variable for expr in predicates for variable in find_variables(expr))
        rows = self.rows
        for expr in predicates:
            # A predicate without variables keeps all rows or none.
            rows *= self.context.costs.estimate_selectivity(expr) if reads else 1.0
        number = self.context.next_number()
        self.add(Filter(number=number, predicates=predicates, types=self.get_types(reads), rows=rows), reads=reads)

    def get_types(self, reads: Iterable[str]) -> tuple[tuple[str, str], ...]:
        """Return the types of variables, in the order of the pattern."""
        variables = set(reads)
        return tuple((variable, type_name) for variable, type_name in self.graph.types.items() if variable in variables)

    # --- columns --------------------------------------------------------------------------------------

    def find_live_variables(self) -> tuple[str, ...]:
        """Return the bound variables that the output or a pending predicate still reads."""
        reads = self.pending.collect_variables().union(self.needed)
        return tuple(variable for variable in self.graph.types if variable in self.bound and variable in reads)

    def find_needed_edges(self) -> frozenset[str]:
        """Return the variables, edge variables too, that the output, a join predicate or a block reads."""
        return frozenset(self.needed).union(
            *(predicate.reads for predicate in self.graph.join_predicates),
            *(block.reads for block in self.graph.blocks),
        )

    def drop_dead_variables(self, left: list[Hop]) -> None:
        """Drop variables that no later hop reads, and merge rows that differ only in these, if that pays off."""
        if self.semantics is MatchSemantics.EVERY or not left or SEED in self.needed:
            return
        reads = set(self.find_live_variables()).union(*({hop.source, hop.target} for hop in left))
        live = tuple(variable for variable in self.bound if variable in reads)
        # Merging must at least halve the rows to pay off.
        if len(live) < len(self.bound) and self.rows > 2 * self._estimate_combinations(live):
            self._compact(live)
            self.bound = dict.fromkeys(live)

    def compact_live_variables(self) -> None:
        """Keep only live variables, and merge rows that are then equal, before another component is attached."""
        keep = self.find_live_variables()
        if self.semantics is not MatchSemantics.EVERY and SEED not in self.needed and len(keep) < len(self.bound):
            self._compact(keep)
            self.bound = dict.fromkeys(keep)

    def merge_rows(self, left: Iterable[Hop] = (), *, last: Hop | None = None) -> None:
        """Merge rows that are equal in all values read later, before a hop or join, if that pays off.

        After the `last` hop of a component, they are merged only where it meets a hub.
        """
        if self.semantics is MatchSemantics.EVERY or SEED in self.needed or self.rows < MIN_MERGED_ROWS:
            return
        if VALUE_TYPE in dict(self.get_types(self.find_live_variables())).values():
            # How many values a stage or block yields is not known, and lists of them can't be compared.
            return
        values = self._find_later_reads(left)
        reads: dict[str, list[Expr]] = {}
        for value in values:
            reads.setdefault(value.variable, []).append(value)
        combinations, repeated = 1.0, set[str]()
        for variable, type_name in self.get_types(self.bound):
            if type_name == VALUE_TYPE:
                # How often a value repeats is not known before it is computed.
                return
            distinct = self.context.costs.estimate_combinations(type_name, reads.get(variable, ()))
            combinations *= distinct
            if distinct * MIN_MERGE_FACTOR <= self.context.costs.count(type_name):
                repeated.add(variable)
        hops = list(left)
        is_few = last is None and combinations * MIN_MERGE_FACTOR <= self.rows
        if last is not None:
            # The far ends of this hop are merged by themselves, so they must repeat.
            may_help = bool(repeated & {last.source, last.target}) and _may_meet_hub([last], self.context.costs)
        else:
            # A condition that closes a cycle runs together with the hop before it.
            is_closed = any(hop.source in self.bound and hop.target in self.bound for hop in hops)
            may_help = bool(repeated) and not is_closed and _may_meet_hub(hops, self.context.costs)
        if values and (is_few or may_help):
            step = Merge(
                number=self.context.next_number(),
                values=values,
                types=self.get_types(self.bound),
                has_multiplicity=self.semantics is MatchSemantics.COUNT,
                rows=combinations if is_few else self.rows,
                is_for_hubs=not is_few,
            )
            self.add(step, reads=(value.variable for value in values))

    def _find_later_reads(self, left: Iterable[Hop]) -> tuple[Prop | Identity | Entity, ...]:
        """Return what the output and pending predicates read of the bound variables: values, or the row's identity."""
        exprs = (*self.context.outputs, *(predicate.expr for predicate in self.pending.join_predicates))
        reads: dict[Prop | Identity | Entity, None] = {}
        for part in (part for expr in exprs for part in walk(expr)):
            if isinstance(part, Prop | Identity | Entity) and part.variable in self.bound:
                # Values that can't be compared as a whole column are represented by their row.
                is_value = not isinstance(part, Prop) or _is_grouped(part.type)
                reads[part if is_value else Identity(variable=part.variable, origin=part.origin)] = None
        ends = [(variable, hop.origin) for hop in left for variable in (hop.source, hop.target)]
        ends += [(end, hop.origin) for hop in self.pending.late_hops for end in (hop.source, hop.target)]
        ends += [(name, pending.block.origin) for pending in self.pending.blocks for name in sorted(pending.reads)]
        reads |= {Identity(variable=name, origin=origin): None for name, origin in ends if name in self.bound}
        return tuple(reads)

    def finish(self, keep: tuple[str, ...]) -> None:
        """Append a final step that merges equal rows, if more columns are bound than kept."""
        if self.semantics is MatchSemantics.EVERY or set(keep) >= set(self.bound):
            return
        if len(keep) <= 1 or self.rows >= MIN_DISTINCT_ROWS:
            self._compact(keep)

    def _compact(self, keep: tuple[str, ...]) -> None:
        rows = min(self.rows, self._estimate_combinations(keep))
        number = self.context.next_number()
        self.add(
            Compact(number=number, keep=keep, has_multiplicity=self.semantics is MatchSemantics.COUNT, rows=rows),
            reads=keep,
        )

    def _estimate_combinations(self, keep: tuple[str, ...]) -> float:
        combinations = 1.0
        for variable in keep:
            is_counted = variable != SEED and self.graph.types[variable] != VALUE_TYPE
            rows = self.context.costs.count(self.graph.types[variable]) if is_counted else self.rows
            combinations *= max(rows, 1.0)
        return combinations

    def build_steps(self, keep: Iterable[str]) -> tuple[Step, ...]:
        """Return the steps; each keeps only the columns that a later step reads or that are in `keep`."""
        live = set(keep)
        order = (*self.graph.types, SEED)
        steps: list[Step] = []
        # Backwards, so that each step knows what later ones read.
        for planned in reversed(self._steps):
            step = planned.step
            if isinstance(step, Expand | Close):
                step = replace(step, keep=tuple(variable for variable in order if variable in live))
            steps.append(step)
            live = (live - planned.binds) | planned.reads
        return tuple(reversed(steps))


def _is_grouped(type_: ValueType) -> bool:
    """Return whether values of a type can be compared as a whole column."""
    return isinstance(type_, Scalar | EnumOf) and type_ is not Scalar.BLOB


def _may_meet_hub(hops: list[Hop], costs: CostModel) -> bool:
    """Return whether hops follow stored edges, so many that one node may have nearly all paths."""
    is_plain = not any(hop.is_multi or hop.walk is not None or hop.derived is not None for hop in hops)
    return is_plain and any(costs.count(hop.edge.name) >= MIN_HUB_EDGES for hop in hops)
