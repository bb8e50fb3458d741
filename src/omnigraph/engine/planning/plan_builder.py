"""Steps of a plan while it is made: what is bound by now, how many rows are expected, what still waits."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from enum import Enum
from itertools import count

from omnigraph.engine.physical_plan import SEED, Close, Compact, Expand, Filter, Merge, Step
from omnigraph.engine.planning.cost_model import CostModel
from omnigraph.engine.planning.counted_subtrees import PlanBlock
from omnigraph.engine.planning.pattern_graph import AntiJoinBlock, JoinPredicate, PatternGraph
from omnigraph.query.expr import Entity, Expr, Identity, Prop, find_variables, walk
from omnigraph.query.logical_plan import Hop
from omnigraph.schema.types import EnumOf, Scalar, ValueType

MIN_MERGED_ROWS, MIN_MERGE_FACTOR = 64.0, 4.0
"""From so many rows on, those with equal values are one before they are paired, if that leaves only this share."""
MIN_DISTINCT_ROWS = 100_000.0
"""From so many on, rows of several columns are made distinct before they are handed out."""


class MatchSemantics(Enum):
    """What the output makes of matches that differ only in variables it does not need."""

    EVERY = "every"
    """Each is a row of its own."""
    COUNT = "count"
    """Their number counts."""
    EXISTS = "exists"
    """It counts only that there is one."""


class PlanContext:
    """What all parts of one plan share: estimates, the numbers of steps, and what is read of the matches at the end.

    `lead` is the variable that decides first about the order of rows of which only some are asked for.
    """

    def __init__(self, costs: CostModel, outputs: tuple[Expr, ...], lead: str | None = None) -> None:
        self.costs, self.outputs, self.leading_variable = costs, outputs, lead
        self._numbers = count(1)

    def next_number(self) -> int:
        """The next step's number."""
        return next(self._numbers)


@dataclass(frozen=True, slots=True)
class _PlannedStep:
    """A step before it is known which columns later ones need."""

    step: Step
    reads: frozenset[str]
    binds: frozenset[str]


@dataclass(slots=True)
class PendingPredicates:
    """Predicates and blocks of a pattern whose variables are not all bound yet."""

    join_predicates: list[JoinPredicate]
    blocks: list[AntiJoinBlock]

    def collect_variables(self) -> set[str]:
        """The variables that they read."""
        found: set[str] = set()
        return found.union(*(each.reads for each in self.join_predicates), *(each.reads for each in self.blocks))


class PlanBuilder:
    """The steps of one pattern, or of a part of it that is solved on its own."""

    def __init__(
        self,
        maker: PlanContext,
        shape: PatternGraph,
        waiting: PendingPredicates,
        plan_block: PlanBlock,
        *,
        needed: tuple[str, ...],
        semantics: MatchSemantics,
        rows: float = 1.0,
        bound: Iterable[str] = (),
    ) -> None:
        self.context, self.shape, self.pending, self._plan_block = maker, shape, waiting, plan_block
        self.needed, self.semantics, self.rows = needed, semantics, rows
        self.bound: dict[str, None] = dict.fromkeys(bound)
        self._steps: list[_PlannedStep] = []

    def fork(self) -> "PlanBuilder":
        """For another part of the same pattern, with nothing bound; what waits is the same."""
        return PlanBuilder(
            self.context, self.shape, self.pending, self._plan_block, needed=self.needed, semantics=self.semantics
        )

    @property
    def is_blank(self) -> bool:
        """Whether no variable was bound yet."""
        return not self.bound and not any(draft.binds for draft in self._steps)

    def add(
        self, step: Step, *, reads: Iterable[str] = (), binds: Iterable[str] = (), rows: float | None = None
    ) -> None:
        """The next step; `rows` are expected behind it."""
        binds = frozenset(binds)
        self._steps.append(_PlannedStep(step, frozenset(reads), binds))
        self.bound.update(dict.fromkeys(variable for variable in self.shape.types if variable in binds))
        self.rows = step.rows if rows is None else rows

    # --- what waits for variables -----------------------------------------------------------------------

    def apply_pending(self, *, with_blocks: bool = True) -> None:
        """Apply every predicate, and every block, whose variables are bound by now."""
        ready = [crossing for crossing in self.pending.join_predicates if crossing.reads <= self.bound.keys()]
        for crossing in ready:
            self.pending.join_predicates.remove(crossing)
        if ready:
            self.filter(tuple(crossing.expr for crossing in ready))
        if not with_blocks:
            return
        for block in [block for block in self.pending.blocks if block.reads <= self.bound.keys()]:
            self.pending.blocks.remove(block)
            self.add(self._plan_block(block.absent, self.rows), reads=block.reads)

    def filter(self, predicates: tuple[Expr, ...]) -> None:
        """Only rows for which all predicates are true."""
        reads = frozenset(variable for expr in predicates for variable in find_variables(expr))
        rows = self.rows
        for expr in predicates:
            rows *= self.context.costs.estimate_selectivity(expr) if reads else 1.0
        number = self.context.next_number()
        self.add(Filter(number=number, predicates=predicates, types=self.get_types(reads), rows=rows), reads=reads)

    def get_types(self, reads: Iterable[str]) -> tuple[tuple[str, str], ...]:
        """The types of variables, in the order of the pattern."""
        wanted = set(reads)
        return tuple((variable, type_name) for variable, type_name in self.shape.types.items() if variable in wanted)

    # --- columns --------------------------------------------------------------------------------------

    def find_live_variables(self) -> tuple[str, ...]:
        """The bound variables that the output or what waits still reads."""
        reads = self.pending.collect_variables().union(self.needed)
        return tuple(variable for variable in self.shape.types if variable in self.bound and variable in reads)

    def find_needed_edges(self) -> frozenset[str]:
        """The variables whose edges must be told apart by somebody."""
        return frozenset(self.needed).union(
            *(crossing.reads for crossing in self.shape.join_predicates), *(block.reads for block in self.shape.blocks)
        )

    def forget_dead(self, left: list[Hop]) -> None:
        """Between hops: when a variable is of no more use, rows that differ in it alone become one, if that pays."""
        if self.semantics is MatchSemantics.EVERY or not left or SEED in self.needed:
            return
        reads = set(self.find_live_variables()).union(*({hop.source, hop.target} for hop in left))
        live = tuple(variable for variable in self.bound if variable in reads)
        if len(live) < len(self.bound) and self.rows > 2 * self._estimate_combinations(live):
            self._compact(live)
            self.bound = dict.fromkeys(live)

    def shrink(self) -> None:
        """Before another part is attached: rows that differ in what is of no more use become one."""
        keep = self.find_live_variables()
        if self.semantics is not MatchSemantics.EVERY and SEED not in self.needed and len(keep) < len(self.bound):
            self._compact(keep)
            self.bound = dict.fromkeys(keep)

    def merge(self, left: Iterable[Hop] = ()) -> None:
        """Before a hop, or another part: rows of which all that is read later is equal become one, if that pays."""
        if self.semantics is MatchSemantics.EVERY or SEED in self.needed or self.rows < MIN_MERGED_ROWS:
            return
        values = self._find_later_reads(left)
        combinations = 1.0
        for variable, type_name in self.get_types(self.bound):
            own = [value for value in values if value.variable == variable]
            combinations *= self.context.costs.estimate_combinations(type_name, own)
        if values and combinations * MIN_MERGE_FACTOR <= self.rows:
            step = Merge(
                number=self.context.next_number(),
                values=values,
                types=self.get_types(self.bound),
                has_multiplicity=self.semantics is MatchSemantics.COUNT,
                rows=combinations,
            )
            self.add(step, reads=(value.variable for value in values))

    def _find_later_reads(self, left: Iterable[Hop]) -> tuple[Prop | Identity | Entity, ...]:
        """What the output or what waits reads of the bound variables: values, or which row it is."""
        exprs = (*self.context.outputs, *(crossing.expr for crossing in self.pending.join_predicates))
        found: dict[Prop | Identity | Entity, None] = {}
        for part in (part for expr in exprs for part in walk(expr)):
            if isinstance(part, Prop | Identity | Entity) and part.variable in self.bound:
                is_value = not isinstance(part, Prop) or _is_grouped(part.type)
                found[part if is_value else Identity(variable=part.variable, origin=part.origin)] = None
        ends = [(variable, hop.origin) for hop in left for variable in (hop.source, hop.target)]
        ends += [(variable, block.absent.origin) for block in self.pending.blocks for variable in sorted(block.reads)]
        found |= {Identity(variable=name, origin=origin): None for name, origin in ends if name in self.bound}
        return tuple(found)

    def finish(self, keep: tuple[str, ...]) -> None:
        """Behind the last step: equal rows become one, where a column more is bound than is kept."""
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
        found = 1.0
        for variable in keep:
            counted = self.rows if variable == SEED else self.context.costs.count(self.shape.types[variable])
            found *= max(counted, 1.0)
        return found

    def build_steps(self, keep: Iterable[str]) -> tuple[Step, ...]:
        """The steps, each carrying on only what a later one reads or is kept to the end."""
        live = set(keep)
        order = (*self.shape.types, SEED)
        steps: list[Step] = []
        for draft in reversed(self._steps):
            step = draft.step
            if isinstance(step, Expand | Close):
                step = replace(step, keep=tuple(variable for variable in order if variable in live))
            steps.append(step)
            live = (live - draft.binds) | draft.reads
        return tuple(reversed(steps))


def _is_grouped(type_: ValueType) -> bool:
    """Whether values of a type can be told apart as a whole column."""
    return isinstance(type_, Scalar | EnumOf) and type_ is not Scalar.BLOB
