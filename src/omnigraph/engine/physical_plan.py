"""The physical plan of a read's pattern: plain data, in the order in which it runs.

A plan is a list of steps over one table of bindings, which starts as a single row without columns (or, in a `not`
block, as the combinations that are asked about). A variable that nobody needs behind the pattern, and that hangs on
the rest by one hop, is no step: it is a branch of its neighbour, and only its count, or its existence, travels there.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from typing import TypeAlias

from omnigraph.query.expr import Expr, Op
from omnigraph.query.logical_plan import HopDirection

SEED = "#seed"
"""The column of a block's bindings that says which combination of the outside a row belongs to."""


REVERSED = {HopDirection.OUT: HopDirection.IN, HopDirection.IN: HopDirection.OUT, HopDirection.BOTH: HopDirection.BOTH}
"""The direction of a hop that is travelled from its other end."""


class EdgeAccessMode(Enum):
    """How the edges of a hop are found."""

    CSR = "csr"
    INDEXED = "indexed"


class SubtreeDirection(Enum):
    """Which end of a branch is worked out first."""

    FROM_ROOT = "pull"
    """Each position of the near end looks at its neighbours."""
    FROM_LEAF = "push"
    """The far end is found on its own, and says where it leads."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Link:
    """A hop in the direction in which it is travelled."""

    edge: str
    near: str
    """The node type from which it is travelled."""
    far: str
    direction: HopDirection
    low: int = 1
    high: int = 1
    each_edge: bool = False
    """Whether parallel edges are matches of their own."""
    filters: tuple[Expr, ...] = ()
    """Predicates of the edge variable alone."""
    edge_variable: str | None = None
    """The edge variable, if a later step or the output needs it."""
    access: EdgeAccessMode = EdgeAccessMode.CSR
    fan_out: float = 1.0
    """How many far ends a near one has, on average."""
    why: str = ""

    @property
    def is_multi(self) -> bool:
        """Whether distances other than one match."""
        return self.high > 1

    @property
    def reads_edges(self) -> bool:
        """Whether it matters which edge it is."""
        return self.each_edge or bool(self.filters) or self.edge_variable is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class CountedSubtree:
    """What hangs on a variable by one hop and is not listed: counted, or only asked for its existence."""

    link: Link
    node: "Node"
    direction: SubtreeDirection
    why: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """A node variable with everything that reads it alone."""

    variable: str
    type: str
    filters: tuple[Expr, ...] = ()
    absent: tuple["AntiJoin", ...] = ()
    subtrees: tuple[CountedSubtree, ...] = ()
    rows: float = 0.0
    """How many positions are expected to pass, of all."""
    access: str = ""

    @property
    def is_free(self) -> bool:
        """Whether every row of its table passes, once."""
        return not (self.filters or self.absent or self.subtrees)


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
    keep: tuple[str, ...]
    """The columns that later steps or the output need."""
    rows: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """Keep the rows whose variable, which is bound already, passes; its branches are counted."""

    number: int
    node: Node
    rows: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Close:
    """Keep the rows whose two bound variables a hop joins; with an edge variable, once for each edge."""

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
    is_large: bool = False
    """Whether both sides are, which is seldom meant."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Join:
    """Pair every row with the matches of another part of the pattern where two values are equal, or in an order."""

    number: int
    left: Expr
    right: Expr
    op: Op = Op.EQ
    types: tuple[tuple[str, str], ...]
    steps: tuple["Step", ...]
    rows: float


@dataclass(frozen=True, slots=True, kw_only=True)
class AntiJoin:
    """Keep the rows for which a block has no match; it is solved once for each combination of what it shares."""

    number: int
    shared: tuple[tuple[str, str], ...]
    """The variables of the outside, and their types."""
    steps: tuple["Step", ...]
    rows: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Compact:
    """Forget the other columns; rows that are then equal become one, their weights summed if they count."""

    number: int
    keep: tuple[str, ...]
    has_multiplicity: bool
    rows: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Merge:
    """Rows of which nothing that is read later tells them apart become one, their weights summed if they count."""

    number: int
    values: tuple[Expr, ...]
    """All that is read later of the variables that are bound."""
    types: tuple[tuple[str, str], ...]
    has_multiplicity: bool
    rows: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Nothing:
    """No row can match."""

    number: int
    rows: float = 0.0


Step: TypeAlias = Scan | Expand | Check | Close | Filter | Product | Join | AntiJoin | Compact | Merge | Nothing


@dataclass(frozen=True, slots=True, kw_only=True)
class PhysicalPlan:
    """The steps, and the variables whose positions come out; with `counts`, rows have weights."""

    steps: tuple[Step, ...]
    variables: tuple[str, ...]
    has_multiplicity: bool = False
    warnings: tuple[str, ...] = ()

    @property
    def rows(self) -> float:
        """How many rows are expected."""
        return self.steps[-1].rows if self.steps else 1.0


def get_inner_steps(step: Step) -> tuple[Step, ...]:
    """The steps inside a step."""
    return step.steps if isinstance(step, Product | Join | AntiJoin) else ()


def iter_steps(steps: tuple[Step, ...]) -> Iterator[Step]:
    """Every step, outer ones first, also those of blocks on single variables."""
    for step in steps:
        yield step
        yield from iter_steps(get_inner_steps(step))
        if isinstance(step, Scan | Expand | Check):
            yield from _iter_node_steps(step.node)


def _iter_node_steps(node: Node) -> Iterator[Step]:
    for block in node.absent:
        yield from iter_steps((block,))
    for branch in node.subtrees:
        yield from _iter_node_steps(branch.node)
