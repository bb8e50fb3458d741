"""The physical plan of a read's pattern: plain data, in execution order.

A plan is a list of steps over one table of bindings, which starts as a single row without columns (in a block, as the
combinations of outer variables that it reads). A variable that is not needed after the pattern, and that is connected
by one hop only, is no step: it is a counted subtree of its neighbour, which gets only the number of its matches, or
whether there is one.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import Enum
from typing import TypeAlias

from omnigraph.query.expr import EdgeRef, Expr, ExprType, NodeRef, Op, Prop, ValueRef
from omnigraph.query.logical_plan import HopDirection, ReadQuery, ValueBlock
from omnigraph.query.union_types import list_members, unite_nodes
from omnigraph.query.walk_plan import WalkBinding

# In the types of a plan, the type of a variable that is bound to a value instead of a row. No type can have this name.
VALUE_TYPE = "#value"
# The column of a block's bindings with the number of the outer combination that a row belongs to. No variable can
# have this name, because of the `#`.
SEED = "#seed"
# Outer variables of which a block reads these values only, so that it is solved once for all rows where they are equal.
OuterValues: TypeAlias = tuple[tuple[str, tuple[Prop | ValueRef, ...]], ...]
# The direction of a hop when it is followed from its other end.
REVERSED = {HopDirection.OUT: HopDirection.IN, HopDirection.IN: HopDirection.OUT, HopDirection.BOTH: HopDirection.BOTH}


def get_type_name(type_: ExprType) -> str:
    """Return the name by which a plan knows the type of a variable: that of its table, or `VALUE_TYPE`."""
    return type_.name if isinstance(type_, NodeRef | EdgeRef) else VALUE_TYPE


class EdgeAccessMode(Enum):
    """How the edges of a hop are read: from the CSR adjacency in memory, or by index lookups."""

    CSR = "csr"
    INDEXED = "indexed"


class SubtreeDirection(Enum):
    """The end at which the evaluation of a counted subtree starts."""

    # The values appear in the output of `explain`.
    FROM_ROOT = "pull"
    """Each position of the near end reads its neighbours."""
    FROM_LEAF = "push"
    """The far end is solved first, and adds its counts to its neighbours."""


@dataclass(frozen=True, slots=True)
class LinkMember:
    """One way in which a hop of several edge types is followed: along the edges of a type, in one direction."""

    edge: str
    direction: HopDirection
    source: str
    """The node type at the stored start of its edges."""
    target: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Link:
    """A hop, in the direction in which it is followed."""

    edge: str
    """The edge type, or the union of those of `members`."""
    near: str
    """The node type where it starts, or a union of node types."""
    far: str
    direction: HopDirection
    low: int = 1
    high: int | None = 1
    members: tuple[LinkMember, ...] = ()
    """The ways in which it is followed; none for a single edge type between exactly `near` and `far`."""
    each_edge: bool = False
    """Whether each of several parallel edges is a separate match."""
    filters: tuple[Expr, ...] = ()
    """Predicates that read only the edge variable."""
    along: tuple[Expr, ...] = ()
    """Conditions on every edge of the way."""
    through: tuple[Expr, ...] = ()
    """Conditions on every node of the way but its ends."""
    walk: WalkBinding | None = None
    """The walks that are found; their variable is bound if `binds_walk`."""
    binds_walk: bool = False
    derived: "DerivedSteps | None" = None
    """How the edges are found that a named pattern stands for."""
    is_backward: bool = False
    """Whether the near end is the end of the hop's walks, not their start."""
    # None unless a later step or the output needs the edge.
    edge_variable: str | None = None
    access: EdgeAccessMode = EdgeAccessMode.CSR
    fan_out: float = 1.0
    """The average number of far ends per near end."""
    why: str = ""

    @property
    def is_multi(self) -> bool:
        """Whether paths of another length than one edge match."""
        return self.high != 1 or self.low == 0

    @property
    def space(self) -> tuple[str, str]:
        """The types, or unions of types, whose positions a single edge of it connects.

        The nodes on a walk may be of any type that a member connects, not only of those at its ends.
        """
        if not self.is_multi or not self.members:
            return self.near, self.far
        ends = {end for member in self.members for end in (member.source, member.target)}
        name = unite_nodes({*ends, *list_members(self.near), *list_members(self.far)}).name
        return name, name

    @property
    def loads_edges(self) -> bool:
        """Whether the lists of the hop have its edges, if only to test them."""
        return self.reads_edges or bool(self.along)

    @property
    def reads_edges(self) -> bool:
        """Whether the edge itself is needed, not only its two ends."""
        return self.each_edge or bool(self.filters) or self.edge_variable is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class DerivedSteps:
    """The steps that solve a named pattern, whose matches are the edges of a hop."""

    steps: tuple["Step", ...]
    source: str
    target: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CountedSubtree:
    """A part of the pattern, connected to a variable by one hop, whose matches are counted, not listed.

    Without multiplicity, only their existence is tested.
    """

    link: Link
    node: "Node"
    direction: SubtreeDirection
    why: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """A node variable, with the predicates, blocks that test it, and subtrees that depend on it alone."""

    variable: str
    type: str
    filters: tuple[Expr, ...] = ()
    blocks: tuple["SemiJoin", ...] = ()
    subtrees: tuple[CountedSubtree, ...] = ()
    rows: float = 0.0
    """The expected number of positions that pass, of the whole table."""
    access: str = ""

    @property
    def is_free(self) -> bool:
        """Whether every row of its table is exactly one match."""
        return not (self.filters or self.blocks or self.subtrees)


@dataclass(frozen=True, slots=True, kw_only=True)
class Scan:
    """Bind a variable to every row that passes: the first step."""

    number: int
    node: Node
    rows: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Expand:
    """Follow a hop from a bound variable to one that is not."""

    number: int
    source: str
    link: Link
    node: Node
    # The columns that later steps or the output need; all others are dropped here.
    keep: tuple[str, ...]
    rows: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """Keep the rows whose variable, already bound, passes; its counted subtrees multiply the rows."""

    number: int
    node: Node
    rows: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Close:
    """Close a cycle: keep the rows whose two bound variables a hop connects; with an edge variable, once per edge."""

    number: int
    source: str
    target: str
    link: Link
    keep: tuple[str, ...]
    rows: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Filter:
    """Keep the rows for which every predicate is true."""

    number: int
    predicates: tuple[Expr, ...]
    types: tuple[tuple[str, str], ...]
    """The type of each variable that they read."""
    rows: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Product:
    """Pair every row with every match of another part of the pattern."""

    number: int
    steps: tuple["Step", ...]
    rows: float
    left_rows: float
    right_rows: float
    # Whether both sides are large, which is rarely intended: the plan then has a warning.
    is_large: bool = False


class Membership(Enum):
    """How one value is a part of another one. The value is the word for it, after the larger one."""

    ELEMENT = "contains"
    PART = "has the part"
    PREFIX = "starts_with"


@dataclass(frozen=True, slots=True)
class JoinComparison:
    """`left op right`: the left side reads the rows that a join starts from, the right side the others."""

    left: Expr
    op: Op
    right: Expr

    def swap(self) -> "JoinComparison":
        """Return the same comparison with the sides swapped."""
        return JoinComparison(self.right, self.op.mirrored, self.left)


@dataclass(frozen=True, slots=True)
class JoinMembership:
    """A list with an element, or a text with a part or prefix; `is_whole_left` if the left side is the larger one."""

    left: Expr
    kind: Membership
    right: Expr
    is_whole_left: bool

    def swap(self) -> "JoinMembership":
        """Return the same condition with the sides swapped."""
        return JoinMembership(self.right, self.kind, self.left, not self.is_whole_left)


@dataclass(frozen=True, slots=True)
class JoinAlternatives:
    """Two or more comparisons for equality, of which one holds."""

    terms: tuple[JoinComparison, ...]

    def swap(self) -> "JoinAlternatives":
        """Return the same condition with the sides swapped."""
        return JoinAlternatives(tuple(term.swap() for term in self.terms))


JoinCondition: TypeAlias = JoinComparison | JoinMembership | JoinAlternatives


@dataclass(frozen=True, slots=True, kw_only=True)
class Join:
    """Pair every row with the matches of another part of the pattern for which conditions on two values hold.

    Either one condition with alternatives; or any number of equalities, at most one membership, and at most two others,
    of which the second is no `!=`.
    """

    number: int
    conditions: tuple[JoinCondition, ...]
    types: tuple[tuple[str, str], ...]
    steps: tuple["Step", ...]
    rows: float


@dataclass(frozen=True, slots=True, kw_only=True)
class SemiJoin:
    """Keep the rows for which a block has a match, or if `is_anti` those for which it has none.

    Like every block it is solved once per combination of the shared variables.
    """

    number: int
    shared: tuple[tuple[str, str], ...]
    """The outer variables, and their types."""
    outer_values: OuterValues
    steps: tuple["Step", ...]
    rows: float
    is_anti: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class LeftJoin:
    """Pair every row with its matches of an optional block; a row without a match stays, with no positions."""

    number: int
    shared: tuple[tuple[str, str], ...]
    outer_values: OuterValues
    steps: tuple["Step", ...]
    # The variables of the block that later steps or the output need.
    binds: tuple[str, ...]
    rows: float
    fan_out: float = 1.0
    """The expected number of rows per row."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TypeConversion:
    """A variable whose rows of one type become rows of a union that the type is a part of."""

    variable: str
    from_type: str
    to_type: str


@dataclass(frozen=True, slots=True, kw_only=True)
class UnionJoin:
    """Pair every row with the distinct matches of all alternatives."""

    number: int
    shared: tuple[tuple[str, str], ...]
    outer_values: OuterValues
    alternatives: tuple[tuple["Step", ...], ...]
    variables: tuple[str, ...]
    """The variables in which two matches differ."""
    binds: tuple[str, ...]
    rows: float
    fan_out: float = 1.0
    conversions: tuple[tuple["TypeConversion", ...], ...] = ()
    """Of each alternative, the variables whose type is a part of the one that they have outside."""
    elements: tuple[tuple[str, ExprType], ...] = ()
    """The variables that are bound to elements of lists, which are compared by their values."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BindValue:
    """Bind a variable to the value of a block in every row."""

    number: int
    shared: tuple[tuple[str, str], ...]
    outer_values: OuterValues
    steps: tuple["Step", ...]
    block: ValueBlock
    types: tuple[tuple[str, str], ...]
    """The type of each variable that the values of the block read."""
    has_multiplicity: bool
    rows: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Compact:
    """Drop the other columns and merge rows that are then equal, with the sum of their multiplicities if needed."""

    number: int
    keep: tuple[str, ...]
    has_multiplicity: bool
    rows: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Merge:
    """Merge rows that are equal in all values read later, with the sum of their multiplicities if needed."""

    number: int
    values: tuple[Expr, ...]
    """All values that are read later of the bound variables."""
    types: tuple[tuple[str, str], ...]
    has_multiplicity: bool
    rows: float
    is_for_hubs: bool = False
    """Whether it only pays off where the hop before or after it lists very many rows, which is known when it runs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Nothing:
    """No row can match."""

    number: int
    rows: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Unnest:
    """Pair every row with each element of a list; a row whose list is null or empty is dropped."""

    number: int
    variable: str
    value: Expr
    types: tuple[tuple[str, str], ...]
    """The type of each variable that the list reads."""
    # The variables that later steps or the output need: the element, its position in the list, both or none.
    element: str | None
    position: str | None
    is_entity: bool
    """Whether the elements are positions of nodes or edges, not values."""
    rows: float
    # Only whether there is an element matters, if nothing of it is needed.
    is_test: bool = False
    fan_out: float = 1.0
    """The expected number of elements of a list."""


BlockStep: TypeAlias = SemiJoin | LeftJoin | UnionJoin | BindValue | Unnest
Step: TypeAlias = Scan | Expand | Check | Close | Filter | Product | Join | BlockStep | Compact | Merge | Nothing


@dataclass(frozen=True, slots=True)
class MemoryEstimate:
    """Bytes that have to be in memory while a plan runs."""

    adjacency: int
    columns: int

    @property
    def total(self) -> int:
        """All of them."""
        return self.adjacency + self.columns


@dataclass(frozen=True, slots=True, kw_only=True)
class PhysicalPlan:
    """The steps, and the variables whose positions are returned; with `has_multiplicity`, rows have multiplicities."""

    steps: tuple[Step, ...]
    variables: tuple[str, ...]
    has_multiplicity: bool = False
    warnings: tuple[str, ...] = ()
    # Of an earlier stage, or of each read of a union: their rows are those that the first step starts from.
    sources: tuple["PhysicalPlan", ...] = ()
    # Instead of steps: reads whose aggregates together are those of the read, in one row each.
    parts: tuple[tuple[ReadQuery, "PhysicalPlan"], ...] = ()
    expected_rows: float = 1.0
    """The expected number of rows of the result."""
    memory: MemoryEstimate | None = field(default=None, compare=False, repr=False)
    """What it needs of memory, once that was estimated: it takes a tenth of a point read."""

    @property
    def rows(self) -> float:
        """The expected number of rows."""
        return self.steps[-1].rows if self.steps else 1.0


def get_inner_steps(step: Step) -> tuple[Step, ...]:
    """Return the steps nested in a step."""
    if isinstance(step, UnionJoin):
        return tuple(inner for steps in step.alternatives for inner in steps)
    return step.steps if isinstance(step, Product | Join | SemiJoin | LeftJoin | BindValue) else ()


def iter_steps(steps: tuple[Step, ...]) -> Iterator[Step]:
    """Yield every step, outer ones first, including those of blocks on single variables."""
    for step in steps:
        yield step
        yield from iter_steps(get_inner_steps(step))
        if isinstance(step, Scan | Expand | Check):
            yield from _iter_node_steps(step.node)


def _iter_node_steps(node: Node) -> Iterator[Step]:
    for block in node.blocks:
        yield from iter_steps((block,))
    for subtree in node.subtrees:
        yield from _iter_node_steps(subtree.node)
