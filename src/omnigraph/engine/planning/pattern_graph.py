"""A pattern as the planner sees it: what reads one variable, what joins several, and which parts hang on the rest."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from omnigraph.query.expr import Expr, find_variables, split_conjuncts
from omnigraph.query.logical_plan import Hop, NotExists, Pattern

HopsByVariable = dict[str, list[tuple[Hop, str]]]
"""By variable the hops that end there, and the variable at the other end."""


@dataclass(frozen=True, slots=True)
class JoinPredicate:
    """A predicate of several variables, or of the outside."""

    expr: Expr
    reads: frozenset[str]


@dataclass(frozen=True, slots=True)
class AntiJoinBlock:
    """A `not` block that shares several variables, or one that is no node of the pattern."""

    absent: NotExists
    reads: frozenset[str]


class PatternGraph:
    """The parts of a pattern, whose variables of the outside are bound already."""

    def __init__(self, pattern: Pattern, outside: Mapping[str, str]) -> None:
        own = {node.variable: node.type.name for node in pattern.nodes}
        self.own = tuple(own)
        self.outside = dict(outside)
        self.types: dict[str, str] = {**outside, **own}
        self.types.update({hop.edge_variable: hop.edge.name for hop in pattern.hops if hop.edge_variable is not None})
        self.filters: dict[str, tuple[Expr, ...]] = {node.variable: node.filters for node in pattern.nodes}
        self.constants: list[Expr] = []
        self.join_predicates: list[JoinPredicate] = []
        pushed = self._push_down(pattern)
        self.hops = tuple(
            replace(hop, filters=(*hop.filters, *pushed[hop.edge_variable])) if hop.edge_variable in pushed else hop
            for hop in pattern.hops
        )
        self.single: dict[str, list[NotExists]] = {}
        self.blocks: list[AntiJoinBlock] = []
        for absent in pattern.absent:
            shared = [each.variable for each in absent.shared]
            if len(shared) == 1 and shared[0] in own:
                self.single.setdefault(shared[0], []).append(absent)
            else:
                self.blocks.append(AntiJoinBlock(absent, frozenset(shared)))

    def _push_down(self, pattern: Pattern) -> dict[str | None, list[Expr]]:
        """Sort the pattern's predicates by what they read; those of one edge variable are returned."""
        of_edges: dict[str | None, list[Expr]] = {}
        for term in (term for expr in pattern.filters for term in split_conjuncts(expr)):
            reads = find_variables(term)
            if not reads:
                self.constants.append(term)
            elif len(reads) == 1 and reads[0] in self.filters:
                self.filters[reads[0]] = (*self.filters[reads[0]], term)
            elif len(reads) == 1 and reads[0] not in self.outside:
                of_edges.setdefault(reads[0], []).append(term)
            else:
                self.join_predicates.append(JoinPredicate(term, frozenset(reads)))
        return of_edges

    def find_required(self, needed: Iterable[str]) -> set[str]:
        """The node variables that must be listed: what is needed, and what more than one of joins."""
        found = {*needed, *self.outside}
        found.update(*(crossing.reads for crossing in self.join_predicates), *(block.reads for block in self.blocks))
        for hop in self.hops:
            if hop.source == hop.target:
                found.add(hop.source)
            if hop.edge_variable in found:
                found |= {hop.source, hop.target}
        return {variable for variable in found if variable in self.filters or variable in self.outside}

    def group_hops(self, hops: Iterable[Hop]) -> HopsByVariable:
        """The hops between different variables, by both ends."""
        found: HopsByVariable = {variable: [] for variable in (*self.outside, *self.own)}
        for hop in hops:
            if hop.source != hop.target:
                found[hop.source].append((hop, hop.target))
                found[hop.target].append((hop, hop.source))
        return found

    def find_components(self) -> list[list[str]]:
        """The variables that hops connect, in order of appearance; all of the outside counts as connected."""
        edges = self.group_hops(self.hops)
        left = dict.fromkeys((*self.outside, *self.own))
        found: list[list[str]] = []
        while left:
            todo = list(self.outside) if not found and self.outside else [next(iter(left))]
            part: dict[str, None] = {}
            while todo:
                variable = todo.pop()
                if variable not in part:
                    part[variable] = None
                    todo.extend(other for _, other in edges[variable])
            found.append([variable for variable in left if variable in part])
            left = {variable: None for variable in left if variable not in part}
        return found


MAX_SUBTREE_DEPTH = 24
"""Branches are at most so many hops deep: they are worked out one inside the other."""


def strip_leaves(edges: HopsByVariable, members: Iterable[str], required: set[str]) -> tuple[list[str], HopsByVariable]:
    """The variables that stay when leaves that nobody requires are taken off, again and again; and what hangs where.

    A leaf hangs on the rest by a single hop. Without a required variable the first one stays.
    """
    depths: dict[str, int] = {}
    members = list(members)
    left = {variable: dict(enumerate(edges[variable])) for variable in members}
    hanging: HopsByVariable = {}
    todo = [variable for variable in reversed(members) if variable not in required]
    core = dict.fromkeys(members)
    while todo:
        variable = todo.pop()
        if variable not in core or len(left[variable]) != 1 or depths.get(variable, 0) >= MAX_SUBTREE_DEPTH:
            continue
        ((hop, other),) = left[variable].values()
        del core[variable]
        left[other] = {place: pair for place, pair in left[other].items() if pair[0] is not hop}
        hanging.setdefault(other, []).append((hop, variable))
        depths[other] = max(depths.get(other, 0), depths.get(variable, 0) + 1)
        if other not in required:
            todo.append(other)
    return list(core), hanging
