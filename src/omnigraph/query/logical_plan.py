"""The logical plan of a read: a pattern and what is made of its matches.

A pattern is a set of variables, hops and filters, not a chain of operators, because the order of clauses carries no
meaning; the physical planner chooses the order by cost. Everything an engine needs is here: names of types, typed
expressions, directions as stored. Nodes are validated when built; a rule that breaks the plan fails at once.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import TypeAlias

from omnigraph.lang.source import Span
from omnigraph.query.expr import (
    Aggregate,
    EdgeRef,
    Entity,
    EntityType,
    Expr,
    Identity,
    NodeRef,
    Parameter,
    ParamRef,
    Rank,
    find_properties,
    find_variables,
    is_predicate,
    is_whole,
    walk,
)
from omnigraph.query.mutation_plan import MutationQuery

GENERATED_PREFIX = "#"
"""What names of anonymous variables start with; no user can write it."""
MAX_HOPS = 64


def _require(holds: bool, problem: str) -> None:
    if not holds:
        raise ValueError(problem)


class HopDirection(Enum):
    """How a hop runs over the stored edges."""

    OUT = "out"
    """The hop's source is the edge's stored `src`."""
    IN = "in"
    """The hop's source is the edge's stored `dst`."""
    BOTH = "both"
    """Either way; both ends have the same type."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeBinding:
    """A variable for nodes of one type, predicates that read it alone, and the columns that are read at all."""

    variable: str
    type: NodeRef
    filters: tuple[Expr, ...] = ()
    columns: tuple[str, ...] = ()
    origin: Span = field(compare=False, repr=False)

    def __post_init__(self) -> None:
        _check_filters(self.filters, self.variable)


@dataclass(frozen=True, slots=True, kw_only=True)
class Hop:
    """An edge, or `low` to `high` edges, between two variables.

    Without an edge variable it is a set of (source, target) pairs, however many parallel edges there are. With one,
    there is a match for each edge. A hop between two variables that other hops bind too closes a cycle: it is a join
    like any other. With `high` > 1 a pair matches when its smallest distance, breadth first, is within the bounds; a
    node pairs with itself only through a cycle whose length is.
    """

    edge: EdgeRef
    source: str
    target: str
    direction: HopDirection = HopDirection.OUT
    edge_variable: str | None = None
    low: int = 1
    high: int = 1
    filters: tuple[Expr, ...] = ()
    columns: tuple[str, ...] = ()
    origin: Span = field(compare=False, repr=False)

    def __post_init__(self) -> None:
        _require(1 <= self.low <= self.high <= MAX_HOPS, f"bounds {self.low}..{self.high}")
        if self.is_multi or self.direction is HopDirection.BOTH:
            _require(self.edge.source == self.edge.target, "a multi-hop or undirected hop needs equal ends")
        if self.is_multi:
            _require(self.edge_variable is None, "a multi-hop has no edge variable")
        if self.edge_variable is None:
            _require(not self.filters and not self.columns, "only an edge variable has filters and columns")
        else:
            _check_filters(self.filters, self.edge_variable)

    @property
    def is_multi(self) -> bool:
        """Whether distances other than one match."""
        return self.high > 1

    @property
    def is_set(self) -> bool:
        """Whether parallel edges count once (no edge variable); otherwise each edge is a match."""
        return self.edge_variable is None

    @property
    def source_type(self) -> str:
        """The node type at the hop's source."""
        return self.edge.target if self.direction is HopDirection.IN else self.edge.source

    @property
    def target_type(self) -> str:
        """The node type at the hop's target."""
        return self.edge.source if self.direction is HopDirection.IN else self.edge.target


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedVariable:
    """A variable of the outside that a `not` block reads, and its type."""

    variable: str
    type: EntityType


@dataclass(frozen=True, slots=True, kw_only=True)
class NotExists:
    """`not { … }`: keeps a match of the outside when the block has none that agrees on the `shared` variables.

    `pattern` binds the block's own variables only; what it says about shared ones is in its hops and `filters`.
    """

    shared: tuple[SharedVariable, ...]
    pattern: "Pattern"
    origin: Span = field(compare=False, repr=False)

    def __post_init__(self) -> None:
        _require(bool(self.shared), "a `not` block shares a variable with its outside")
        check_pattern(self.pattern, {s.variable: s.type for s in self.shared})


@dataclass(frozen=True, slots=True, kw_only=True)
class Pattern:
    """All matches of these variables and hops for which every filter is true, less those that `absent` takes away.

    Variables stand in the order in which they appear in the text. `filters` may read any number of
    variables, also of the outside; what reads one variable alone may as well stand at its binding or hop. Variables
    that nothing connects form a product.
    """

    nodes: tuple[NodeBinding, ...]
    hops: tuple[Hop, ...] = ()
    filters: tuple[Expr, ...] = ()
    absent: tuple[NotExists, ...] = ()

    @property
    def types(self) -> dict[str, EntityType]:
        """The pattern's own variables (nodes first, then edges) and their types."""
        found: dict[str, EntityType] = {node.variable: node.type for node in self.nodes}
        found.update({hop.edge_variable: hop.edge for hop in self.hops if hop.edge_variable is not None})
        return found

    def find_node(self, variable: str) -> NodeBinding:
        """The binding of a node variable; KeyError if it isn't one of this pattern."""
        for node in self.nodes:
            if node.variable == variable:
                return node
        raise KeyError(variable)


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputColumn:
    """An output column."""

    name: str
    value: Expr


@dataclass(frozen=True, slots=True, kw_only=True)
class Grouping:
    """One output row for each combination of `keys` (null is a value like any other); without keys, exactly one row.

    `aggregates` are all that output and order need, each once. Output, order and ties are made of keys and aggregates:
    an equal expression is the same value.
    """

    keys: tuple[Expr, ...]
    aggregates: tuple[Aggregate, ...]

    def __post_init__(self) -> None:
        _require(bool(self.aggregates), "a grouping without an aggregate is `distinct`")
        _require(len(set(self.keys)) == len(self.keys), "a group key stands twice")
        _require(len(set(self.aggregates)) == len(self.aggregates), "an aggregate stands twice")


@dataclass(frozen=True, slots=True, kw_only=True)
class OrderTerm:
    """A value to sort by; null is smallest: first ascending, last descending."""

    value: Expr
    descending: bool = False


Count: TypeAlias = int | ParamRef

RRF_MIN_ROWS, RRF_LIMIT_FACTOR = 100, 4
"""How many rows each list of an `rrf` holds: this many times limit + offset, and at least so many."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadQuery:
    """A bound read.

    Rows are sorted by `rank` (nearest ascending; bm25 and rrf descending), then `order`, then `ties` ascending; the
    reference of the query language ("Order is total") says what these are, `bind_output` makes them. All of it only
    when `is_ordered`; otherwise the order is unspecified. Under `grouping` and `distinct`, order and ties hold nothing
    but expressions of the grouping or the output. `distinct` compares whole nodes and edges by identity.
    """

    name: str
    params: tuple[Parameter, ...] = ()
    pattern: Pattern
    output: tuple[OutputColumn, ...]
    grouping: Grouping | None = None
    distinct: bool = False
    rank: Rank | None = None
    order: tuple[OrderTerm, ...] = ()
    ties: tuple[Expr, ...] = ()
    limit: Count | None = None
    offset: Count | None = None
    description: str | None = None
    instruction: str | None = None
    origin: Span = field(compare=False, repr=False)

    def __post_init__(self) -> None:
        check_pattern(self.pattern, {})
        names = [column.name for column in self.output]
        _require(bool(names) and len(set(names)) == len(names), "columns have names of their own")
        self._check_uses()
        if self.grouping is not None:
            self._check_grouped(self.grouping)
        else:
            used = (part for expr in self.results for part in walk(expr))
            _require(not any(isinstance(part, Aggregate) for part in used), "an aggregate without grouping")
        if self.distinct and self.grouping is None:
            known = _add_identities(column.value for column in self.output)
            _require(all(expr in known for expr in self.results), "under `distinct`, only columns have an order")
        if self.rank is not None:
            _require(self.grouping is None and not self.distinct, "a rank does not go with aggregates or distinct")
        for count in (self.limit, self.offset):
            if isinstance(count, ParamRef):
                _require(is_whole(count, at_least=0), "limit and offset are whole numbers")
            elif count is not None:
                _require(count >= 0, "limit and offset are at least 0")

    @property
    def is_ordered(self) -> bool:
        """Whether the order of rows is part of the result."""
        return bool(self.order) or self.rank is not None or self.limit is not None or self.offset is not None

    @property
    def results(self) -> tuple[Expr, ...]:
        """Every expression behind the pattern: output, rank, order, ties."""
        rank: tuple[Expr, ...] = () if self.rank is None else (self.rank,)
        return (*(c.value for c in self.output), *rank, *(k.value for k in self.order), *self.ties)

    def _check_uses(self) -> None:
        bound = self.pattern.types
        for expr in self.results:
            _check_variables(expr, bound)
        declared = {param.name: param for param in self.params}
        counts = [count for count in (self.limit, self.offset) if isinstance(count, ParamRef)]
        for expr in (*self.results, *iter_predicates(self.pattern), *counts):
            for part in walk(expr):
                if isinstance(part, ParamRef):
                    param = declared.get(part.name)
                    fits = param is not None and (param.type, param.nullable) == (part.type, part.nullable)
                    _require(fits, f"parameter {part.name} is not declared like that")

    def _check_grouped(self, grouping: Grouping) -> None:
        known = _add_identities((*grouping.keys, *grouping.aggregates))
        _require(all(expr in known for expr in self.results), "neither an aggregate nor a group key")


BoundQuery: TypeAlias = ReadQuery | MutationQuery


# --- questions about patterns --------------------------------------------------------------------


def iter_predicates(pattern: Pattern) -> Iterator[Expr]:
    """Every predicate of a pattern and of the blocks inside it."""
    for node in pattern.nodes:
        yield from node.filters
    for hop in pattern.hops:
        yield from hop.filters
    yield from pattern.filters
    for absent in pattern.absent:
        yield from iter_predicates(absent.pattern)


def prune_columns(query: ReadQuery) -> ReadQuery:
    """The query with `columns` of every variable set to what is read of it, anywhere: names, sorted."""
    read = list(query.results)
    if query.grouping is not None:
        read += [*query.grouping.keys, *query.grouping.aggregates]
    return replace(
        query, pattern=_prune_pattern_columns(query.pattern, {p for expr in read for p in find_properties(expr)})
    )


def check_pattern(pattern: Pattern, outside: dict[str, EntityType]) -> None:
    """Refuses (ValueError) a pattern with unbound or repeated variables, or hops that don't fit their ends."""
    own = pattern.types
    edge_variables = sum(hop.edge_variable is not None for hop in pattern.hops)
    _require(len(own) == len(pattern.nodes) + edge_variables, "a variable is bound twice")
    _require(not own.keys() & outside.keys(), "a variable of the outside is bound again")
    bound = {**outside, **own}
    for hop in pattern.hops:
        _require(bound.get(hop.source) == NodeRef(hop.source_type), f"{hop.source} is no {hop.source_type}")
        _require(bound.get(hop.target) == NodeRef(hop.target_type), f"{hop.target} is no {hop.target_type}")
    for expr in pattern.filters:
        _require(is_predicate(expr), "a filter is a predicate")
        _check_variables(expr, bound)
    for absent in pattern.absent:
        for shared in absent.shared:
            _require(bound.get(shared.variable) == shared.type, f"{shared.variable} is not bound outside")


def _add_identities(exprs: Iterable[Expr]) -> set[Expr]:
    """The expressions, and the ids of those that are whole nodes or edges."""
    found = set(exprs)
    ids: set[Expr] = {Identity(variable=e.variable, origin=e.origin) for e in found if isinstance(e, Entity)}
    return found | ids


def _check_filters(filters: Iterable[Expr], variable: str) -> None:
    for expr in filters:
        _require(is_predicate(expr), "a filter is a predicate")
        _require(find_variables(expr) == (variable,), f"a filter of {variable} reads something else")


def _check_variables(expr: Expr, bound: dict[str, EntityType]) -> None:
    for name in find_variables(expr):
        _require(name in bound, f"variable {name} is not bound")


def _find_read_columns(pattern: Pattern) -> set[tuple[str, str]]:
    """What is read inside a pattern; variables of a block inside are its own affair, as two blocks may share a name."""
    exprs = [
        *pattern.filters,
        *(f for n in pattern.nodes for f in n.filters),
        *(f for h in pattern.hops for f in h.filters),
    ]
    found = {pair for expr in exprs for pair in find_properties(expr)}
    for absent in pattern.absent:
        own = absent.pattern.types
        found |= {(variable, name) for variable, name in _find_read_columns(absent.pattern) if variable not in own}
    return found


def _prune_pattern_columns(pattern: Pattern, read: set[tuple[str, str]]) -> Pattern:
    needs: dict[str | None, list[str]] = {}
    for variable, name in sorted(read | _find_read_columns(pattern)):
        needs.setdefault(variable, []).append(name)
    return replace(
        pattern,
        nodes=tuple(replace(node, columns=tuple(needs.get(node.variable, ()))) for node in pattern.nodes),
        hops=tuple(replace(hop, columns=tuple(needs.get(hop.edge_variable, ()))) for hop in pattern.hops),
        absent=tuple(replace(a, pattern=_prune_pattern_columns(a.pattern, set())) for a in pattern.absent),
    )
