"""The logical plan of a read: a pattern, and the output that is computed from its matches.

A read may start from the rows of another one, its source: an earlier stage, or a union of reads.

A pattern is a set of variables, hops and filters, not a tree of operators, because the order of clauses has no meaning;
the physical planner chooses the join order by cost. The plan is self-contained: names of types, typed expressions,
directions of the stored edges. Nodes are validated when they are built, so a rule that breaks the plan fails
immediately.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import TypeAlias, assert_never

from omnigraph.lang.query_ast import BlockKind
from omnigraph.lang.source import Span
from omnigraph.query.counts import is_calculated
from omnigraph.query.expr import (
    Aggregate,
    AggregateFunction,
    ArrayOf,
    Bm25,
    Computed,
    Distance,
    EdgeRef,
    Entity,
    Expr,
    ExprType,
    Identity,
    IsNull,
    Nearest,
    NodeRef,
    OrderTerm,
    Parameter,
    ParamRef,
    Rank,
    RecordsParam,
    ValueRef,
    is_predicate,
    is_whole,
    require,
)
from omnigraph.query.expr_tree import find_foreign, find_variables, walk
from omnigraph.query.expr_types import ROW
from omnigraph.query.group_plan import Grouping, OutputColumn, is_compared
from omnigraph.query.stage_plan import StageVariable, UnionSource, iter_stages, list_sources, map_source
from omnigraph.query.union_types import is_part, list_identities
from omnigraph.query.walk_plan import WalkBinding
from omnigraph.schema.types import EnumOf, ListOf, Scalar

# Columns, groups, sort keys and stages belong to the plan of a read: a caller needs only this module.
__all__ = [
    "Grouping",
    "OrderTerm",
    "OutputColumn",
    "StageVariable",
    "UnionSource",
    "iter_stages",
    "list_sources",
    "map_source",
]

# The names of anonymous variables start with it; no user can write such a name.
GENERATED_PREFIX = "#"
# So do the names of the positions of `each` elements in their lists.
POSITION_PREFIX = f"{GENERATED_PREFIX}position of "
# A documented limit of the query language: the upper bound of a hop such as `knows{1,64}`, unless it has none.
MAX_HOPS = 64


class HopDirection(Enum):
    """The direction of a hop along the stored edges."""

    OUT = "out"
    """The hop's source is the edge's stored `src`."""
    IN = "in"
    """The hop's source is the edge's stored `dst`."""
    BOTH = "both"
    """Either way; both ends have the same type, unless the hop has several members."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeBinding:
    """A variable for nodes of one type, the filters that read only this variable, and the columns to read."""

    variable: str
    type: NodeRef
    filters: tuple[Expr, ...] = ()
    columns: tuple[str, ...] = ()
    origin: Span = field(compare=False, repr=False)

    def __post_init__(self) -> None:
        _check_filters(self.filters, self.variable)


@dataclass(frozen=True, slots=True)
class HopMember:
    """One way in which a hop of several edge types is followed: along the edges of a type, in one direction.

    `BOTH` is for hops over several edges, which are searched as a whole.
    """

    edge: EdgeRef
    direction: HopDirection = HopDirection.OUT


@dataclass(frozen=True, slots=True, kw_only=True)
class DerivedEdge:
    """The edges of a hop that is a named pattern: one for each pair of `source` and `target` in its matches."""

    pattern: "Pattern"
    source: str
    target: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Hop:
    """A path of one edge, or of `low` to `high` edges, between two variables; without `high` there is no upper bound.

    Without an edge variable it is a set of (source, target) pairs: parallel edges count once. With one, there is a
    match per edge. A hop between two variables that other hops bind too closes a cycle: it is a join like any other.
    Over several edges a pair matches if its BFS distance is within the bounds; the distance of a node to itself is the
    length of the shortest cycle through it, and 0 if `low` is 0.

    With `members`, a hop follows several edge types, or one whose ends are not exactly the types of its variables;
    `ends` are then these types. Over several edges, the nodes on the way may have any type that a member connects.

    `along` are conditions on every edge and `through` on every node but the ends; both read the properties of `ROW`.
    With a `walk`, there is a match for each walk that it is bound to. `derived` edges are those of a named pattern.
    """

    edge: EdgeRef
    source: str
    target: str
    direction: HopDirection = HopDirection.OUT
    edge_variable: str | None = None
    low: int = 1
    high: int | None = 1
    filters: tuple[Expr, ...] = ()
    columns: tuple[str, ...] = ()
    members: tuple[HopMember, ...] = ()
    ends: tuple[NodeRef, NodeRef] | None = None
    along: tuple[Expr, ...] = ()
    through: tuple[Expr, ...] = ()
    walk: WalkBinding | None = None
    derived: DerivedEdge | None = None
    origin: Span = field(compare=False, repr=False)

    def __post_init__(self) -> None:
        if self.derived is not None:
            is_plain = not (self.along or self.through or self.walk or self.edge_variable)
            require(is_plain, "the edges of a named pattern have no rows of their own")
        for expr in (*self.along, *self.through):
            require(is_predicate(expr), "a condition on the way is a predicate")
            require(set(find_variables(expr)) <= {ROW}, "a condition on the way reads one edge or node")
        if self.walk is not None:
            require(self.edge_variable is None, "a path has no edge variable")
        require(0 <= self.low <= MAX_HOPS, f"lower bound {self.low}")
        if self.high is not None:
            require(max(self.low, 1) <= self.high <= MAX_HOPS, f"bounds {self.low}..{self.high}")
        require(bool(self.members) == (self.ends is not None), "members have ends")
        # A path continues at the target of the previous edge, an undirected hop at either end: both need one type.
        if (self.is_multi or self.direction is HopDirection.BOTH) and not self.members:
            require(self.edge.source == self.edge.target, "a multi-hop or undirected hop needs equal ends")
        if self.is_multi:
            require(self.edge_variable is None, "a multi-hop has no edge variable")
        if self.edge_variable is None:
            require(not self.filters and not self.columns, "only an edge variable has filters and columns")
        else:
            _check_filters(self.filters, self.edge_variable)

    @property
    def is_multi(self) -> bool:
        """Whether paths of another length than one edge match."""
        return self.high != 1 or self.low == 0

    @property
    def is_set(self) -> bool:
        """Whether parallel edges count once (no edge variable); otherwise each edge is a match."""
        return self.edge_variable is None

    @property
    def source_ref(self) -> NodeRef:
        """The node type, or union of node types, at the hop's source."""
        if self.ends is not None:
            return self.ends[0]
        return NodeRef(self.edge.target if self.direction is HopDirection.IN else self.edge.source)

    @property
    def target_ref(self) -> NodeRef:
        """The node type, or union of node types, at the hop's target."""
        if self.ends is not None:
            return self.ends[1]
        return NodeRef(self.edge.source if self.direction is HopDirection.IN else self.edge.target)

    @property
    def source_type(self) -> str:
        """The name of the node type at the hop's source."""
        return self.source_ref.name

    @property
    def target_type(self) -> str:
        """The name of the node type at the hop's target."""
        return self.target_ref.name


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedVariable:
    """A variable of an outer block that an inner block reads, and its type."""

    variable: str
    type: ExprType


@dataclass(frozen=True, slots=True, kw_only=True)
class Exists:
    """`exists { … }`, a semi-join: keep a match of the outer block if a match of `pattern` has its `shared` variables.

    If `negated`, it is `not { … }`, an anti-join: keep it if there is none. `pattern` binds the block's own variables
    only; its hops and `filters` may read the shared ones.
    """

    shared: tuple[SharedVariable, ...]
    pattern: "Pattern"
    negated: bool = False
    origin: Span = field(compare=False, repr=False)

    def __post_init__(self) -> None:
        require(bool(self.shared), "a block that only tests shares a variable with its outer block")
        check_pattern(self.pattern, _index_shared(self.shared))


@dataclass(frozen=True, slots=True, kw_only=True)
class OptionalMatch:
    """`optional { … }`, a left join: each match of the outer block with every match of `pattern` that it has, or nulls.

    The variables of `pattern` are visible outside, where they are nullable. Optional blocks apply after all else, in
    order. A block that shares no variable is the same for all matches of the outer block.
    """

    shared: tuple[SharedVariable, ...]
    pattern: "Pattern"
    origin: Span = field(compare=False, repr=False)

    def __post_init__(self) -> None:
        check_pattern(self.pattern, _index_shared(self.shared))


@dataclass(frozen=True, slots=True, kw_only=True)
class EitherBlock:
    """`either { … } or { … }`: the distinct `variables` of the matches of all alternatives.

    Each alternative binds all of `variables`; what else it binds is not visible outside. Elements of lists differ
    in their values, not in their positions.
    """

    shared: tuple[SharedVariable, ...]
    alternatives: tuple["Pattern", ...]
    variables: tuple[SharedVariable, ...]
    origin: Span = field(compare=False, repr=False)

    def __post_init__(self) -> None:
        require(bool(self.shared or self.variables), "an `either` reads or binds a variable")
        for pattern in self.alternatives:
            check_pattern(pattern, _index_shared(self.shared))
            types = pattern.types
            for each in self.variables:
                require(is_part(types.get(each.variable), each.type), f"an alternative does not bind {each.variable}")


@dataclass(frozen=True, slots=True, kw_only=True)
class ValueBlock:
    """`count { … }`, `collect { … return value }`: bind `variable` to one value for each match of the outer block.

    The matches of `pattern` have the values `value`; `distinct`, `order` with `ties`, and `limit` choose among them as
    they do in a read, and `kind` folds those that are left.
    """

    variable: str
    kind: BlockKind
    shared: tuple[SharedVariable, ...]
    pattern: "Pattern"
    value: Expr | None = None
    distinct: bool = False
    order: tuple["OrderTerm", ...] = ()
    ties: tuple[Expr, ...] = ()
    limit: "Count | None" = None
    keeps_nulls: bool = False
    """Whether `collect` puts nulls into the list, as Cypher does, instead of passing them over."""
    origin: Span = field(compare=False, repr=False)

    def __post_init__(self) -> None:
        bound = _index_shared(self.shared)
        check_pattern(self.pattern, bound)
        bound.update(self.pattern.types)
        for expr in self.exprs:
            _check_variables(expr, bound)
        if self.value is None:
            is_plain = not (self.distinct or self.order or self.limit is not None)
            require(self.kind in (BlockKind.EXISTS, BlockKind.COUNT) and is_plain, f"`{self.kind.value}` needs a value")
        if self.kind not in (BlockKind.EXISTS, BlockKind.COLLECT):
            # Built for its checks: it refuses a value that does not fold.
            require(self.aggregate.type is not None, "a block that folds")

    @property
    def exprs(self) -> tuple[Expr, ...]:
        """All expressions that are evaluated over the matches of the block."""
        value = () if self.value is None else (self.value,)
        return (*value, *(key.value for key in self.order), *self.ties)

    @property
    def aggregate(self) -> Aggregate:
        """The aggregate that folds the values of a block that neither tests nor collects."""
        return Aggregate(fold=AggregateFunction(self.kind.value), argument=self.value, origin=self.origin)

    @property
    def type(self) -> ExprType:
        """The type of the value."""
        match self.kind:
            case BlockKind.EXISTS:
                return Scalar.BOOL
            case BlockKind.COLLECT:
                return build_list_type(Scalar.BOOL if self.value is None else self.value.type)
            case _:
                return self.aggregate.type

    @property
    def nullable(self) -> bool:
        """Whether the value can be null: if there may be nothing to fold."""
        return self.kind in (BlockKind.SUM, BlockKind.MIN, BlockKind.MAX, BlockKind.AVG)


@dataclass(frozen=True, slots=True, kw_only=True)
class EachBlock:
    """`each $x in list`: a match for each element of `value`, with `variable` bound to it; none if it is null or empty.

    An element that is a node or edge is bound to its row, so that hops can start there. `position` is bound to the
    place of the element in its list, from 0: it tells matches with equal elements apart.
    """

    variable: str
    position: str
    value: Expr
    shared: tuple[SharedVariable, ...]
    origin: Span = field(compare=False, repr=False)

    def __post_init__(self) -> None:
        require(isinstance(self.value.type, ListOf | ArrayOf), f"{self.value.type} is not a list")
        _check_variables(self.value, _index_shared(self.shared))

    @property
    def type(self) -> ExprType:
        """The type of an element."""
        assert isinstance(self.value.type, ListOf | ArrayOf)  # noqa: S101 - checked when it was built
        return self.value.type.element

    @property
    def is_entity(self) -> bool:
        """Whether the elements are nodes or edges."""
        return isinstance(self.type, NodeRef | EdgeRef)


PatternBlock: TypeAlias = Exists | OptionalMatch | EitherBlock | ValueBlock | EachBlock


def build_list_type(element: ExprType) -> ExprType:
    """Return the type of a list of such elements: one that a property can have, if there is one."""
    match element:
        case EnumOf():
            return ListOf(Scalar.STRING)
        case Scalar() if element is not Scalar.BLOB:
            return ListOf(element)
        case _:
            return ArrayOf(element)


@dataclass(frozen=True, slots=True, kw_only=True)
class Pattern:
    """All matches of these variables and hops for which every filter is true, with what `blocks` add, test or exclude.

    Variables are in order of appearance in the text. `filters` may read any number of variables, also of an outer
    block; a filter that reads one variable may instead be part of its node or hop. Unconnected variables form a cross
    product. Optional blocks are in the order in which they apply.
    """

    nodes: tuple[NodeBinding, ...]
    hops: tuple[Hop, ...] = ()
    filters: tuple[Expr, ...] = ()
    blocks: tuple[PatternBlock, ...] = ()

    @property
    def own_types(self) -> dict[str, ExprType]:
        """The types of the variables that nodes and hops bind: filters of these alone can be evaluated with them."""
        types: dict[str, ExprType] = {node.variable: node.type for node in self.nodes}
        types.update({hop.edge_variable: hop.edge for hop in self.hops if hop.edge_variable is not None})
        return types

    @property
    def entity_types(self) -> dict[str, ExprType]:
        """The types of all variables that are bound to nodes and edges, also by alternatives and optional blocks."""
        types = self.own_types
        for block in self.blocks:
            if isinstance(block, EitherBlock):
                bound = _index_shared(block.variables).items()
                types.update({name: type_ for name, type_ in bound if isinstance(type_, NodeRef | EdgeRef)})
            elif isinstance(block, OptionalMatch):
                types.update(block.pattern.entity_types)
            elif isinstance(block, EachBlock) and block.is_entity:
                types[block.variable] = block.type
        return types

    @property
    def row_types(self) -> dict[str, ExprType]:
        """The types of all variables in which two matches can differ: also walks, elements of lists and positions."""
        types = self.entity_types
        types.update({hop.walk.variable: hop.walk.type for hop in self.hops if hop.walk is not None})
        for block in self.blocks:
            if isinstance(block, OptionalMatch):
                types.update(block.pattern.row_types)
            elif isinstance(block, EachBlock | EitherBlock):
                types.update(get_bound_types(block))
        return types

    @property
    def types(self) -> dict[str, ExprType]:
        """The types of all variables that can be read outside: nodes first, then edges, then those of blocks."""
        types = self.row_types
        types.update({block.variable: block.type for block in self.blocks if isinstance(block, ValueBlock)})
        return types

    @property
    def optional_variables(self) -> frozenset[str]:
        """The variables that may be null, because an optional block binds them."""
        optional = (block.pattern.row_types for block in self.blocks if isinstance(block, OptionalMatch))
        return frozenset[str]().union(*optional)

    def find_node(self, variable: str) -> NodeBinding:
        """Return the binding of a node variable.

        Raises:
            KeyError: The variable is not a node of this pattern.
        """
        for node in self.nodes:
            if node.variable == variable:
                return node
        raise KeyError(variable)


def get_patterns(block: PatternBlock) -> tuple[Pattern, ...]:
    """Return the patterns of a block: one, or its alternatives; an `each` has none."""
    if isinstance(block, EachBlock):
        return ()
    return block.alternatives if isinstance(block, EitherBlock) else (block.pattern,)


def map_patterns(block: PatternBlock, change: Callable[[Pattern], Pattern]) -> PatternBlock:
    """Return the block with `change` applied to its patterns."""
    if isinstance(block, EachBlock):
        return block
    if isinstance(block, EitherBlock):
        return replace(block, alternatives=tuple(map(change, block.alternatives)))
    return replace(block, pattern=change(block.pattern))


def get_block_exprs(block: PatternBlock) -> tuple[Expr, ...]:
    """Return the expressions of a block beside those of its patterns."""
    if isinstance(block, EachBlock):
        return (block.value,)
    return block.exprs if isinstance(block, ValueBlock) else ()


def get_bound_types(block: PatternBlock) -> dict[str, ExprType]:
    """Return the types of the variables that a block binds for the outside."""
    match block:
        case Exists():
            return {}
        case OptionalMatch():
            return block.pattern.row_types
        case EitherBlock():
            return _index_shared(block.variables)
        case ValueBlock():
            return {block.variable: block.type}
        case EachBlock():
            return {block.variable: block.type, block.position: Scalar.I64}
        case _:
            assert_never(block)


def _index_shared(shared: Iterable[SharedVariable]) -> dict[str, ExprType]:
    return {each.variable: each.type for each in shared}


Count: TypeAlias = int | ParamRef | Computed

# Each of the two lists of `rrf` has max(RRF_LIMIT_FACTOR * (limit + offset), RRF_MIN_ROWS) rows: a row that is not at
# the top of either list can still have the largest sum.
RRF_MIN_ROWS = 100
RRF_LIMIT_FACTOR = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadQuery:
    """The logical plan of a read.

    With a `source`, the pattern is matched for each of its rows, whose columns are the variables in `inputs`; rows of a
    source may be equal. `having` keeps rows or groups before all that follows. With `per`, `limit` and `offset` count
    the rows of each combination of these values. `decided` are values of blocks that read only group keys, or only
    columns with `distinct`, so that they are equal in all rows that become one.

    If `is_ordered`, rows are sorted by `rank` (nearest ascending; bm25 and rrf descending), then `order`, then `ties`
    ascending, which makes the order total (see "Order is total" in the reference of the query language); else their
    order is unspecified. With `grouping` or `distinct`, order and ties consist of expressions of the grouping or the
    output. `distinct` compares whole nodes and edges by identity.
    """

    name: str
    params: tuple[Parameter, ...] = ()
    source: "ReadQuery | UnionSource | None" = None
    inputs: tuple[StageVariable, ...] = ()
    pattern: Pattern
    output: tuple[OutputColumn, ...]
    grouping: Grouping | None = None
    decided: tuple[ValueRef, ...] = ()
    having: Expr | None = None
    distinct: bool = False
    rank: Rank | None = None
    order: tuple[OrderTerm, ...] = ()
    ties: tuple[Expr, ...] = ()
    limit: Count | None = None
    per: tuple[Expr, ...] = ()
    offset: Count | None = None
    description: str | None = None
    instruction: str | None = None
    origin: Span = field(compare=False, repr=False)
    # The classes of all parts of its expressions: what runs a query asks again and again whether there is one of these.
    kinds: frozenset[type[Expr]] = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        exprs = (*self.results, *iter_predicates(self.pattern))
        object.__setattr__(self, "kinds", frozenset(type(part) for expr in exprs for part in walk(expr)))
        self._check_source()
        check_pattern(self.pattern, {each.variable: each.type for each in self.inputs})
        names = [column.name for column in self.output]
        require(bool(names) and len(set(names)) == len(names), "column names must be unique")
        self._check_uses()
        if self.grouping is not None:
            self._check_grouped(self.grouping)
        else:
            used = (part for expr in self.results for part in walk(expr))
            require(not any(isinstance(part, Aggregate) for part in used), "an aggregate without grouping")
        require(self.having is None or is_predicate(self.having), "`having` is a predicate")
        require(not self.per or self.limit is not None, "`per` belongs to a limit")
        if self.distinct and self.grouping is None:
            # Rows with equal columns are merged, so no other expression has one value per row.
            columns = _add_identities((*(column.value for column in self.output), *self.decided))
            foreign = (find_foreign(expr, columns) for expr in self.results)
            require(all(part is None for part in foreign), "with `distinct`, only columns can be sort keys")
        if self.rank is not None:
            require(self.grouping is None and not self.distinct, "a rank can't be combined with aggregates or distinct")
        for count in (self.limit, self.offset):
            if isinstance(count, ParamRef):
                require(is_whole(count, at_least=0), "limit and offset are whole numbers")
            elif isinstance(count, Computed):
                require(is_calculated(count), "limit and offset read no rows")
            elif count is not None:
                require(count >= 0, "limit and offset are at least 0")

    @property
    def is_ordered(self) -> bool:
        """Whether the order of rows is part of the result."""
        return bool(self.order) or self.rank is not None or self.limit is not None or self.offset is not None

    @property
    def results(self) -> tuple[Expr, ...]:
        """All expressions evaluated after pattern matching: output, having, rank, order, ties, per."""
        having: tuple[Expr, ...] = () if self.having is None else (self.having,)
        rank: tuple[Expr, ...] = () if self.rank is None else (self.rank,)
        return (*(c.value for c in self.output), *having, *rank, *(k.value for k in self.order), *self.ties, *self.per)

    @property
    def compared(self) -> tuple[Expr, ...]:
        """The columns that `distinct` compares: lists and records are decided by these."""
        return tuple(column.value for column in self.output if is_compared(column.value))

    @property
    def types(self) -> dict[str, ExprType]:
        """The types of all variables: those of the source, then those of the pattern."""
        types: dict[str, ExprType] = {each.variable: each.type for each in self.inputs}
        types.update(self.pattern.types)
        return types

    def _check_source(self) -> None:
        if self.source is None:
            require(not self.inputs, "variables without a source")
            return
        first = self.source if isinstance(self.source, ReadQuery) else self.source.reads[0]
        columns = [column.name for column in first.output]
        require(columns == [each.variable for each in self.inputs], "the inputs are the columns of the source")

    def _check_uses(self) -> None:
        bound = self.types
        for expr in self.results:
            _check_variables(expr, bound)
        declared = {param.name: param for param in self.params}
        counts = [count for count in (self.limit, self.offset) if isinstance(count, ParamRef | Computed)]
        for expr in (*self.results, *iter_predicates(self.pattern), *counts):
            for part in walk(expr):
                if isinstance(part, ParamRef | RecordsParam):
                    param = declared.get(part.name)
                    fits = param is not None and (param.type, param.nullable) == (part.type, part.nullable)
                    require(fits, f"parameter {part.name} is declared differently")

    def _check_grouped(self, grouping: Grouping) -> None:
        grouped = _add_identities((*grouping.keys, *grouping.aggregates, *self.decided))
        foreign = (find_foreign(expr, grouped) for expr in self.results)
        require(all(part is None for part in foreign), "neither an aggregate nor a group key")


def require_scores(pattern: Pattern, order: Iterable[OrderTerm]) -> Pattern:
    """Return the pattern without matches that have no value of a sort key that is a distance or a score.

    A rank leaves them out too: without a vector or a match, a row is neither near nor far.
    """
    keys = [term.value for term in order if isinstance(term.value, Distance | Nearest | Bm25) and term.value.nullable]
    guards = tuple(IsNull(operand=key, negated=True, origin=key.origin) for key in keys)
    return replace(pattern, filters=(*pattern.filters, *guards)) if guards else pattern


# --- patterns ------------------------------------------------------------------------------------


def iter_predicates(pattern: Pattern) -> Iterator[Expr]:
    """Yield all predicates of a pattern and of its blocks, and the values of these."""
    for node in pattern.nodes:
        yield from node.filters
    for hop in pattern.hops:
        yield from hop.filters
        yield from (*hop.along, *hop.through)
        if hop.walk is not None and hop.walk.weight is not None:
            yield hop.walk.weight
        if hop.derived is not None:
            yield from iter_predicates(hop.derived.pattern)
    yield from pattern.filters
    for block in pattern.blocks:
        yield from get_block_exprs(block)
        for inner in get_patterns(block):
            yield from iter_predicates(inner)


def check_pattern(pattern: Pattern, outer_types: Mapping[str, ExprType]) -> None:
    """Check that the variables of a pattern are bound exactly once and that hops fit the types of their ends.

    Raises:
        ValueError: The pattern is invalid.
    """
    types = pattern.types
    edge_variables = sum(hop.edge_variable is not None for hop in pattern.hops)
    walk_variables = sum(hop.walk is not None for hop in pattern.hops)
    in_blocks = sum(len(get_bound_types(block)) for block in pattern.blocks)
    # `types` is a dict: a variable that is bound twice makes it smaller.
    count = len(pattern.nodes) + edge_variables + walk_variables + in_blocks
    require(len(types) == count, "a variable is bound twice")
    require(not types.keys() & outer_types.keys(), "a variable of an outer block is bound again")
    bound: dict[str, ExprType] = {**outer_types, **types}
    for hop in pattern.hops:
        require(bound.get(hop.source) == hop.source_ref, f"{hop.source} is not a {hop.source_type}")
        require(bound.get(hop.target) == hop.target_ref, f"{hop.target} is not a {hop.target_type}")
        # The hops of a pattern come before its optional blocks.
        require(not {hop.source, hop.target} & pattern.optional_variables, "an end of a hop is optional")
    for expr in pattern.filters:
        require(is_predicate(expr), "a filter is a predicate")
        _check_variables(expr, bound)
    for block in pattern.blocks:
        for shared in block.shared:
            require(bound.get(shared.variable) == shared.type, f"{shared.variable} is not bound in the outer block")


def _add_identities(exprs: Iterable[Expr]) -> set[Expr]:
    """Return the expressions, and the ids of those that are whole nodes or edges."""
    unique = set(exprs)
    return unique.union(*(list_identities(expr) for expr in unique if isinstance(expr, Entity)))


def _check_filters(filters: Iterable[Expr], variable: str) -> None:
    for expr in filters:
        require(is_predicate(expr), "a filter is a predicate")
        require(find_variables(expr) == (variable,), f"a filter of {variable} reads another variable")


def _check_variables(expr: Expr, bound: Mapping[str, ExprType]) -> None:
    for name in find_variables(expr):
        require(name in bound, f"variable {name} is not bound")


def build_identity(entity: Entity) -> Identity:
    """Return the id of a whole node or edge, by which it is compared."""
    return Identity(variable=entity.variable, nullable=entity.nullable, origin=entity.origin)
