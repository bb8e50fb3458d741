"""Represent a pattern for the planner: filters by variable, join predicates, blocks, and components."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from omnigraph.engine.physical_plan import get_type_name
from omnigraph.query.expr import Expr
from omnigraph.query.expr_tree import find_variables, split_conjuncts
from omnigraph.query.logical_plan import EachBlock, EitherBlock, Exists, Hop, Pattern, PatternBlock, get_bound_types

# By variable the hops that end there, each with the variable at its other end.
HopsByVariable = dict[str, list[tuple[Hop, str]]]


@dataclass(frozen=True, slots=True)
class JoinPredicate:
    """A predicate of several variables, or of an outer one."""

    expr: Expr
    reads: frozenset[str]


@dataclass(frozen=True, slots=True)
class PendingBlock:
    """A block that is a step of its own: all but tests of a single node of the pattern."""

    block: PatternBlock
    reads: frozenset[str]
    binds: frozenset[str]


class PatternGraph:
    """The parts of a pattern, sorted by the variables that they read. Outer variables are bound already."""

    def __init__(self, pattern: Pattern, outer: Mapping[str, str]) -> None:
        own_types = {node.variable: node.type.name for node in pattern.nodes}
        self.own_variables = tuple(own_types)
        self.outer = dict(outer)
        self.types: dict[str, str] = {**outer, **own_types}
        self.types.update({name: get_type_name(type_) for name, type_ in pattern.types.items()})
        # Bound by alternatives or lists: hops from them can be followed only afterwards.
        self.late_variables: dict[str, None] = {}
        self.filters: dict[str, tuple[Expr, ...]] = {node.variable: node.filters for node in pattern.nodes}
        self.constants: list[Expr] = []
        self.join_predicates: list[JoinPredicate] = []
        edge_filters = self._push_down(pattern)
        self.hops = tuple(
            replace(hop, filters=(*hop.filters, *edge_filters[hop.edge_variable]))
            if hop.edge_variable in edge_filters
            else hop
            for hop in pattern.hops
        )
        self.node_blocks: dict[str, list[Exists]] = {}
        self.blocks: list[PendingBlock] = []
        for block in pattern.blocks:
            shared = [each.variable for each in block.shared]
            # A test of a single node can be evaluated together with that node's filters.
            if isinstance(block, Exists) and len(shared) == 1 and shared[0] in own_types:
                self.node_blocks.setdefault(shared[0], []).append(block)
            else:
                self.blocks.append(PendingBlock(block, frozenset(shared), frozenset(get_bound_types(block))))
            if isinstance(block, EitherBlock):
                self.late_variables.update(dict.fromkeys(each.variable for each in block.variables))
            elif isinstance(block, EachBlock) and block.is_entity:
                self.late_variables[block.variable] = None

    def _push_down(self, pattern: Pattern) -> dict[str | None, list[Expr]]:
        """Assign the pattern's predicates to the variables that they read; return those of edge variables."""
        edge_filters: dict[str | None, list[Expr]] = {}
        edge_variables = {hop.edge_variable for hop in pattern.hops}
        for term in (term for expr in pattern.filters for term in split_conjuncts(expr)):
            reads = find_variables(term)
            if not reads:
                self.constants.append(term)
            elif len(reads) == 1 and reads[0] in self.filters:
                self.filters[reads[0]] = (*self.filters[reads[0]], term)
            elif len(reads) == 1 and reads[0] in edge_variables:
                edge_filters.setdefault(reads[0], []).append(term)
            else:
                self.join_predicates.append(JoinPredicate(term, frozenset(reads)))
        return edge_filters

    def find_required(self, needed: Iterable[str]) -> set[str]:
        """Return the node variables that must be listed: needed ones, and those that join predicates or blocks read."""
        required = {*needed, *self.outer}
        required.update(
            *(predicate.reads for predicate in self.join_predicates), *(block.reads for block in self.blocks)
        )
        for hop in self.hops:
            # `group_hops` omits self-loops, so a variable that is stripped as a leaf would lose this one.
            if hop.source == hop.target:
                required.add(hop.source)
            # Each walk is a match, so walks are listed even where only their number counts.
            is_listed = hop.walk is not None or hop.derived is not None
            if hop.edge_variable in required or is_listed or self.is_late(hop):
                required |= {hop.source, hop.target}
        listed = self.filters.keys() | self.outer.keys() | self.late_variables.keys()
        return required & listed

    def is_late(self, hop: Hop) -> bool:
        """Return whether alternatives or a list bind an end of a hop."""
        return hop.source in self.late_variables or hop.target in self.late_variables

    def find_ends_of(self, variables: Iterable[str], hops: Iterable[Hop]) -> set[str]:
        """Return the nodes between which hops bind edges or walks that are among the variables."""
        wanted = set(variables)
        bound = (hop for hop in hops if hop.edge_variable in wanted or (hop.walk and hop.walk.variable in wanted))
        return {end for hop in bound for end in (hop.source, hop.target)}

    def group_hops(self, hops: Iterable[Hop]) -> HopsByVariable:
        """Return the hops between different variables, by both ends."""
        variables = (*self.outer, *self.own_variables, *self.late_variables)
        grouped: HopsByVariable = {variable: [] for variable in variables}
        for hop in hops:
            if hop.source != hop.target:
                grouped[hop.source].append((hop, hop.target))
                grouped[hop.target].append((hop, hop.source))
        return grouped

    def find_components(self, hops: Iterable[Hop], variables: Iterable[str], bound: Iterable[str]) -> list[list[str]]:
        """Return the components of variables that hops connect, in order of appearance; bound variables are one."""
        edges = self.group_hops(hops)
        start = [variable for variable in bound if variable in edges]
        left = dict.fromkeys((*start, *variables))
        components: list[list[str]] = []
        while left:
            todo = start if not components and start else [next(iter(left))]
            component: dict[str, None] = {}
            while todo:
                variable = todo.pop()
                if variable not in component:
                    component[variable] = None
                    todo.extend(other for _, other in edges[variable])
            components.append([variable for variable in left if variable in component])
            left = {variable: None for variable in left if variable not in component}
        return components


# Counted subtrees are at most this number of hops deep: they are evaluated recursively.
MAX_SUBTREE_DEPTH = 24


def strip_leaves(edges: HopsByVariable, members: Iterable[str], required: set[str]) -> tuple[list[str], HopsByVariable]:
    """Remove leaves that are not required until none is left; return the remaining variables, and the subtrees on them.

    A leaf is connected to the rest by a single hop. Without a required variable, the first one remains.
    """
    depths: dict[str, int] = {}
    members = list(members)
    left = {variable: dict(enumerate(edges[variable])) for variable in members}
    subtrees: HopsByVariable = {}
    # Reversed, since `pop` takes the last: leaves are removed in order of appearance.
    todo = [variable for variable in reversed(members) if variable not in required]
    core = dict.fromkeys(members)
    while todo:
        variable = todo.pop()
        if variable not in core or len(left[variable]) != 1 or depths.get(variable, 0) >= MAX_SUBTREE_DEPTH:
            continue
        ((hop, other),) = left[variable].values()
        del core[variable]
        left[other] = {key: pair for key, pair in left[other].items() if pair[0] is not hop}
        subtrees.setdefault(other, []).append((hop, variable))
        depths[other] = max(depths.get(other, 0), depths.get(variable, 0) + 1)
        if other not in required:
            todo.append(other)
    return list(core), subtrees
