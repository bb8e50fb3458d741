"""Bind one `MATCH`: variables with the types that fit, hops, relationships that differ, paths, and its conditions."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import NoReturn

from omnigraph.lang.cypher import tree
from omnigraph.lang.literals import Name
from omnigraph.lang.query_ast import BlockKind
from omnigraph.lang.source import Span
from omnigraph.query.bind_hops import simplify_members
from omnigraph.query.cypher import values
from omnigraph.query.cypher.context import CypherContext, KnownEnds
from omnigraph.query.cypher.drafts import PatternHop, PatternNode
from omnigraph.query.cypher.elements import build_each
from omnigraph.query.cypher.expressions import ExpressionBinder, Subqueries
from omnigraph.query.cypher.operators import list_terms
from omnigraph.query.cypher.paths import build_path, list_relationships, separate_hops
from omnigraph.query.cypher.properties import build_type_test, read_property
from omnigraph.query.cypher.scope import ComputedVariable, CypherScope, CypherVariable, EntityVariable, build_whole
from omnigraph.query.expr import (
    ArrayOf,
    Const,
    EdgeRef,
    Entity,
    Expr,
    Identity,
    NodeRef,
    Not,
    Op,
    Prop,
    RecordExpr,
    ValueRef,
)
from omnigraph.query.expr_tree import find_variables, walk
from omnigraph.query.expr_types import ROW, WALK_LENGTH, build_walk_type
from omnigraph.query.logical_plan import (
    MAX_HOPS,
    Exists,
    Hop,
    HopDirection,
    HopMember,
    NodeBinding,
    Pattern,
    PatternBlock,
    ValueBlock,
)
from omnigraph.query.pattern_scope import build_edge_ref
from omnigraph.query.union_types import list_members, unite_edges, unite_nodes
from omnigraph.query.walk_plan import WalkBinding, WalkKind, read_part
from omnigraph.schema.types import ListOf, Scalar

_WALK_KINDS = {
    tree.PathKind.ALL: WalkKind.PATH,
    tree.PathKind.SHORTEST: WalkKind.SHORTEST,
    tree.PathKind.ALL_SHORTEST: WalkKind.ALL_SHORTEST,
}


@dataclass(frozen=True, slots=True)
class Matched:
    """The pattern of a `MATCH`, and the scope after it."""

    pattern: Pattern
    scope: CypherScope
    late: tuple[Expr, ...] = ()
    """Conditions whose calculations may fail: they are for the matches that fulfil all others."""
    marker: Expr | None = None
    """What is null where an optional pattern that binds nothing has no match."""


def join_late(matched: Matched) -> Pattern:
    """Return a pattern with all of its conditions, for a block: it has no stage after the matches."""
    if not matched.late:
        return matched.pattern
    pattern = matched.pattern
    origin = matched.late[0].origin
    # As one condition: it does not fail where one of the others decides.
    whole = values.build_and((*pattern.filters, *matched.late), origin)
    return replace(pattern, filters=(whole,))


@dataclass
class MatchBinder:
    """Bind one `MATCH`, or the pattern of a block."""

    context: CypherContext
    subqueries: Subqueries
    nodes: dict[str, PatternNode] = field(default_factory=dict)
    hops: list[PatternHop] = field(default_factory=list)
    filters: list[Expr] = field(default_factory=list)
    blocks: list[PatternBlock] = field(default_factory=list)
    late: list[Expr] = field(default_factory=list)

    def bind(self, match: tree.Match, scope: CypherScope) -> Matched:
        """Return the pattern with all its conditions.

        Raises:
            RefusedError: It has a mistake, which was reported.
        """
        self._check_names(match, scope)
        if any(_is_null_variable(node, scope) for path in match.patterns for node in path.nodes):
            return _bind_nothing(match, scope)
        paths = [(path, *self._draft_path(path, scope)) for path in match.patterns]
        # Types first: what can't match is not bound at all.
        self._narrow()
        for hop in self.hops:
            _refuse_unknown_zero(self.context, hop)
        is_empty = not all(node.types for node in self.nodes.values()) or not all(hop.members for hop in self.hops)
        is_impossible = any(_has_empty_bounds(hop.pattern.length) for hop in self.hops)
        if is_empty and not (self.context.catalog.nodes and (self.context.catalog.edges or not self.hops)):
            return _bind_nothing(match, scope)
        if is_empty:
            self._take_apart()
        scope, bindings = self._bind_nodes(scope)
        built: list[Hop] = []
        for hop in self.hops:
            bound, scope = self._bind_hop(hop, scope)
            built.append(bound)
        for path, nodes, hops in paths:
            if path.variable is not None:
                scope = scope.add(path.variable.text, build_path(self.context, path, nodes, hops))
        if is_empty or is_impossible:
            # A false condition is all that is left of it.
            no = values.build_const(value=False, origin=match.span)
            return Matched(Pattern(nodes=bindings, hops=tuple(built), filters=(no,)), scope)
        filters, blocks = separate_hops(self.context, self.hops)
        self.filters += filters
        self.blocks += blocks
        binder = ExpressionBinder(self.context, scope, self.subqueries)
        self._bind_conditions(match, binder)
        pattern = Pattern(
            nodes=bindings,
            hops=tuple(built),
            filters=tuple(self.filters),
            blocks=(*self.blocks, *binder.blocks),
        )
        if match.optional and not pattern.types:
            return _mark(self.context, Matched(pattern, scope, tuple(self.late)), match)
        return Matched(pattern, scope, tuple(self.late))

    # --- drafting ----------------------------------------------------------------------------------

    def _check_names(self, match: tree.Match, scope: CypherScope) -> None:
        """Check that no relationship or path has a name that is taken."""
        taken: set[str] = set()
        for path in match.patterns:
            names = [each.variable for each in path.relationships]
            for name in (path.variable, *names):
                if name is None:
                    continue
                known = scope.find(name.text)
                is_bound_again = isinstance(known, EntityVariable) and isinstance(known.type, EdgeRef)
                is_list = any(name is hop.variable and hop.length is not None for hop in path.relationships)
                is_bound_again = is_bound_again or (isinstance(known, ComputedVariable) and is_list)
                if name.text in taken or (known is not None and (not is_bound_again or name is path.variable)):
                    message = f"`{name.text}` is already defined"
                    self.context.findings.refuse("C004", name.span, message, "give it another name")
                taken.add(name.text)
        for path in match.patterns:
            for node in path.nodes:
                if node.variable is not None and node.variable.text in taken:
                    message = f"`{node.variable.text}` is a relationship or path, and no node"
                    self.context.findings.refuse("C004", node.variable.span, message, "give it another name")

    def _draft_path(self, path: tree.PathPattern, scope: CypherScope) -> tuple[list[PatternNode], list[PatternHop]]:
        nodes = [self._draft_node(node, scope) for node in path.nodes]
        hops = []
        for index, pattern in enumerate(path.relationships):
            edges = self.context.names.resolve_types(pattern.types)
            known = None if pattern.variable is None else scope.find(pattern.variable.text)
            if pattern.length is not None and isinstance(known, ComputedVariable):
                # A walk over the relationships of a list has their types.
                bound = values.get_inner_type(known.value.type)
                edges &= frozenset(list_members(str(bound))) if isinstance(bound, EdgeRef) else edges
            hops.append(PatternHop(pattern, path.kind, nodes[index], nodes[index + 1], edges))
        self.hops += hops
        if path.variable is not None and len(hops) > 1:
            for hop in hops:
                hop.path = (nodes, hops)
        return nodes, hops

    def _draft_node(self, node: tree.NodePattern, scope: CypherScope) -> PatternNode:
        names = self.context.names
        types = names.all_nodes if node.labels is None else names.resolve_labels(node.labels)
        key = f"#{len(self.nodes)}" if node.variable is None else node.variable.text
        known = self.nodes.get(key)
        # A node that is written again has all labels that are written.
        if known is not None:
            if known.bound is None:
                known.types &= types
                known.labelled &= types
            elif node.labels is not None:
                self._filter_bound(known.bound, types, node)
            return known
        draft = PatternNode(key, node, types, types)
        variable = None if node.variable is None else scope.find(node.variable.text)
        if variable is not None:
            draft.bound = self._require_node(node, variable)
            draft.name = draft.bound.name
            members = frozenset(list_members(draft.bound.type.name))
            if node.labels is not None:
                self._filter_bound(draft.bound, types, node)
            draft.types = members
        self.nodes[key] = draft
        return draft

    def _filter_bound(self, variable: EntityVariable, types: frozenset[str], node: tree.NodePattern) -> None:
        whole = build_whole(self.context.catalog, variable, node.span)
        test = build_type_test(whole, types, node)
        self.filters.append(test)

    def _require_node(self, node: tree.NodePattern, variable: CypherVariable) -> EntityVariable:
        if isinstance(variable, EntityVariable) and isinstance(variable.type, NodeRef):
            return variable
        assert node.variable is not None  # noqa: S101 - only a named node can be bound already
        message = f"`{node.variable.text}` is no node"
        return self.context.findings.refuse("C004", node.variable.span, message, "give the node another name")

    def _narrow(self) -> None:
        """Leave each node the types that its hops allow, to a fixed point."""
        is_changed = True
        while is_changed:
            is_changed = False
            for hop in self.hops:
                hop.members = list(self._iter_members(hop))
                pairs = ((hop.left, _list_ends(hop, left=True)), (hop.right, _list_ends(hop, left=False)))
                if hop.is_walk:
                    low = 1 if hop.pattern.length is None or hop.pattern.length.low is None else hop.pattern.length.low
                    # A walk without a relationship ends where it starts.
                    zero = (hop.right.types, hop.left.types) if low == 0 else (frozenset[str](), frozenset[str]())
                    pairs = ((hop.left, pairs[0][1] | zero[0]), (hop.right, pairs[1][1] | zero[1]))
                for node, ends in pairs:
                    narrowed = node.types & ends
                    # A variable of an earlier clause keeps its type; its hops are followed where they fit.
                    if node.bound is None and narrowed != node.types:
                        node.types = narrowed
                        is_changed = True

    def _iter_members(self, hop: PatternHop) -> Iterator[HopMember]:
        direction = hop.pattern.direction
        for name in sorted(hop.edges):
            edge = self.context.catalog.edges[name]
            ref = build_edge_ref(edge)
            if hop.is_walk:
                walks = {tree.Direction.OUT: HopDirection.OUT, tree.Direction.IN: HopDirection.IN}
                yield HopMember(ref, walks.get(direction, HopDirection.BOTH))
                continue
            if direction is not tree.Direction.IN and edge.source in hop.left.types and edge.target in hop.right.types:
                yield HopMember(ref, HopDirection.OUT)
            if direction is not tree.Direction.OUT and edge.target in hop.left.types and edge.source in hop.right.types:
                yield HopMember(ref, HopDirection.IN)

    def _take_apart(self) -> None:
        """Give the variables of a pattern that can't match the types of their own labels, each hop by itself.

        They are nodes and relationships in what follows, although there are none.
        """
        names = self.context.names
        ends: list[tuple[PatternNode, PatternNode]] = []
        for node in self.nodes.values():
            if node.bound is None:
                node.types = node.labelled or names.all_nodes
        for hop in self.hops:
            hop.edges = hop.edges or names.all_edges
            for node in (hop.left, hop.right):
                pattern = tree.NodePattern(variable=None, labels=None, properties=None, span=node.pattern.span)
                end = PatternNode(f"#{len(self.nodes)}", pattern, names.all_nodes, names.all_nodes)
                self.nodes[end.key] = end
                ends.append((node, end))
            hop.left, hop.right = ends[-2][1], ends[-1][1]
        self._narrow()
        for node, end in ends:
            if node.bound is None:
                node.types = node.types & end.types or node.types

    # --- binding -----------------------------------------------------------------------------------

    def _bind_nodes(self, scope: CypherScope) -> tuple[CypherScope, tuple[NodeBinding, ...]]:
        bindings: list[NodeBinding] = []
        for draft in self.nodes.values():
            if draft.bound is not None:
                continue
            variable = draft.pattern.variable
            draft.name = self.context.declare(None if variable is None else variable.text, draft.type)
            bindings.append(NodeBinding(variable=draft.name, type=draft.type, origin=draft.pattern.span))
            if variable is not None:
                scope = scope.add(variable.text, EntityVariable(name=draft.name, type=draft.type))
        return scope, tuple(bindings)

    def _bind_hop(self, hop: PatternHop, scope: CypherScope) -> tuple[Hop, CypherScope]:
        edge = unite_edges(member.edge for member in hop.members)
        is_both = hop.pattern.direction is tree.Direction.BOTH
        common = {
            "edge": edge,
            "source": hop.left.name,
            "target": hop.right.name,
            "direction": HopDirection.BOTH if is_both else HopDirection.OUT,
            "members": tuple(hop.members),
            "ends": (hop.left.type, hop.right.type),
            "origin": hop.pattern.span,
        }
        if hop.is_walk:
            return self._bind_walk(hop, edge, common, scope)
        variable = hop.pattern.variable
        known = None if variable is None else scope.find(variable.text)
        name = self.context.declare(None if variable is None or known is not None else variable.text, edge)
        entity = EntityVariable(name=name, type=edge)
        nodes = tuple(node.bound or EntityVariable(name=node.name, type=node.type) for node in (hop.left, hop.right))
        if hop.pattern.direction is tree.Direction.IN:
            nodes = nodes[::-1]
        self.context.ends[name] = KnownEnds((nodes[0], nodes[1]), is_directed=not is_both)
        # Every hop binds its edge, so that parallel ones are rows of their own.
        hop.value = build_whole(self.context.catalog, entity, hop.pattern.span)
        if known is not None:
            is_same = values.compare(Op.EQ, scope.read(known, hop.pattern.span), hop.value, hop.pattern.span)
            assert is_same is not None  # noqa: S101 - relationships compare
            self.filters.append(is_same)
        elif variable is not None:
            scope = scope.add(variable.text, entity)
        return simplify_members(Hop(edge_variable=name, **common)), scope  # type: ignore[arg-type]

    def _bind_walk(
        self, hop: PatternHop, edge: EdgeRef, common: dict[str, object], scope: CypherScope
    ) -> tuple[Hop, CypherScope]:
        length = hop.pattern.length
        low = 1 if length is None or length.low is None else length.low
        high = 1 if length is None else length.high
        if max(low, high or 0) > MAX_HOPS:
            help_ = f"a bound is at most {MAX_HOPS}; without an upper bound the budget of the query ends it"
            self.context.findings.refuse("C001", hop.pattern.span, f"a length of more than {MAX_HOPS}", help_)
        span = hop.pattern.span
        # A walk is followed from the end that its relationships start at.
        if hop.pattern.direction is tree.Direction.IN:
            members = tuple(HopMember(member.edge, HopDirection.OUT) for member in hop.members)
            source, target = hop.right, hop.left
        else:
            members, (source, target) = tuple(hop.members), (hop.left, hop.right)
        on_way = {end for member in members for end in (member.edge.source, member.edge.target)}
        ends = (source.type, target.type)
        edges = {member.edge for member in members}
        searched = unite_nodes(on_way.union(*(list_members(end.name) for end in ends)))
        if hop.path is not None:
            # The parts of a path become one list, whose elements have one type.
            for other in hop.path[1]:
                edges |= {member.edge for member in other.members}
                on_way |= {end for member in other.members for end in (member.edge.source, member.edge.target)}
            on_way = on_way.union(*(list_members(each.type.name) for each in hop.path[0]))
        node = unite_nodes(on_way.union(*(list_members(end.name) for end in ends)))
        type_ = build_walk_type(node, unite_edges(edges))
        along, members = self._bind_along(hop, members, scope)
        variable = hop.pattern.variable
        name = self.context.declare(None, type_)
        walk = WalkBinding(
            variable=name,
            kind=_WALK_KINDS[hop.kind],
            type=type_,
            of=None if hop.path is None else searched,
            origin=span,
        )
        hop.value = ValueRef(variable=name, type=type_, nullable=False, origin=span)
        if variable is not None:
            listed = list_relationships(hop)
            known = scope.find(variable.text)
            if known is None:
                scope = scope.add(variable.text, ComputedVariable(value=listed))
            else:
                self.filters.append(_require_same(self.context, hop, scope.read(known, span), listed))
        if high == 0:
            is_empty = values.compare(Op.EQ, read_part(hop.value, WALK_LENGTH), values.build_const(0, span), span)
            assert is_empty is not None  # noqa: S101 - numbers compare
            self.filters.append(is_empty)
        bound = Hop(
            edge=edge,
            source=source.name,
            target=target.name,
            direction=HopDirection.BOTH if hop.pattern.direction is tree.Direction.BOTH else HopDirection.OUT,
            members=members,
            ends=ends,
            low=low,
            high=None if high is None else max(high, low, 1),
            along=along,
            walk=walk,
            origin=span,
        )
        del common
        return simplify_members(bound), scope

    def _bind_along(
        self, hop: PatternHop, members: tuple[HopMember, ...], scope: CypherScope
    ) -> tuple[tuple[Expr, ...], tuple[HopMember, ...]]:
        """Return the conditions on each relationship of a walk, and the types that can fulfil them."""
        pattern = hop.pattern
        tests = [] if pattern.where is None else self._bind_along_where(pattern, pattern.where, members, scope)
        if pattern.properties is None:
            return tuple(tests), members
        binder = ExpressionBinder(self.context, scope, self.subqueries)
        entries = _list_entries(pattern.properties, binder)
        names = {key.text for key, _ in entries}
        owner = EntityVariable(name=ROW, type=unite_edges(member.edge for member in members))
        props = [read_property(self.context, owner, key) for key, _ in entries]
        fitting = tuple(member for member in members if _has_all(self.context, member, names))
        if not fitting:
            return (values.build_const(value=False, origin=pattern.span),), members
        for prop, (key, value) in zip(props, entries, strict=True):
            test = values.compare(Op.EQ, prop, value, key.span)
            if test is None or set(find_variables(test)) - {ROW} or binder.blocks:
                _refuse_along(self.context, key.span)
            tests.append(test)
        return tuple(tests), fitting

    def _bind_along_where(
        self, pattern: tree.RelationshipPattern, where: tree.Expr, members: tuple[HopMember, ...], scope: CypherScope
    ) -> list[Expr]:
        """Return the conditions of a `WHERE` inside a length, in which the variable is each relationship in turn."""
        owner = EntityVariable(name=ROW, type=unite_edges(member.edge for member in members))
        if pattern.variable is not None:
            scope = scope.add(pattern.variable.text, owner)
        binder = ExpressionBinder(self.context, scope, self.subqueries)
        tests = [binder.bind_condition(term) for term in list_terms(where, tree.BinaryOp.AND)]
        for test in tests:
            parts = list(walk(test))
            is_plain = not any(isinstance(part, Entity | Identity | ValueRef) for part in parts)
            if not is_plain or set(find_variables(test)) - {ROW} or binder.blocks or values.is_strict(test):
                _refuse_along(self.context, where.span)
            names = {part.name for part in parts if isinstance(part, Prop)}
            if not all(_has_all(self.context, member, names) for member in members):
                help_ = "name the relationship types that have it: `[r:KNOWS* WHERE r.km > 1]`"
                message = "a `WHERE` inside a length over a property that some relationships lack is not supported"
                self.context.findings.refuse("C002", where.span, message, help_)
        return tests

    # --- conditions --------------------------------------------------------------------------------

    def _bind_conditions(self, match: tree.Match, binder: ExpressionBinder) -> None:
        for path in match.patterns:
            for node in path.nodes:
                self._bind_map(node, binder)
            for hop in path.relationships:
                self._bind_relationship_map(hop, binder)
        if match.where is None:
            return
        # Each term is a filter of its own, which the planner places where it can be decided.
        for term in list_terms(match.where, tree.BinaryOp.AND):
            self._bind_term(term, binder)

    def _bind_term(self, term: tree.Expr, binder: ExpressionBinder) -> None:
        condition = binder.bind_condition(term)
        if _take_test(condition, binder.blocks):
            return
        (self.late if values.is_strict(condition) else self.filters).append(condition)

    def _bind_map(self, node: tree.NodePattern, binder: ExpressionBinder) -> None:
        if node.properties is not None:
            draft = self._find_draft(node)
            owner = draft.bound or EntityVariable(name=draft.name, type=draft.type)
            self._bind_entries(node.properties, owner, binder)
        if node.where is not None:
            self.filters.append(binder.bind_condition(node.where))

    def _find_draft(self, node: tree.NodePattern) -> PatternNode:
        if node.variable is not None:
            return self.nodes[node.variable.text]
        return next(draft for draft in self.nodes.values() if draft.pattern is node)

    def _bind_relationship_map(self, pattern: tree.RelationshipPattern, binder: ExpressionBinder) -> None:
        hop = next(each for each in self.hops if each.pattern is pattern)
        if pattern.properties is None and pattern.where is None:
            return
        if hop.is_walk:
            return
        if pattern.properties is not None:
            assert isinstance(hop.value, Entity)  # noqa: S101 - a single relationship
            owner = EntityVariable(name=hop.value.variable, type=hop.value.type)
            self._bind_entries(pattern.properties, owner, binder)
        if pattern.where is not None:
            self.filters.append(binder.bind_condition(pattern.where))

    def _bind_entries(
        self, properties: tree.MapLiteral | tree.Parameter, owner: EntityVariable, binder: ExpressionBinder
    ) -> None:
        entries = _list_entries(properties, binder)
        for key, value in entries:
            test = values.compare(Op.EQ, read_property(self.context, owner, key), value, key.span)
            if test is None:
                binder.refuse_form(key.span, "lists and maps can't be compared", "compare their elements")
            self.filters.append(test)


def _take_test(condition: Expr, blocks: list[PatternBlock]) -> bool:
    """Turn the last block into one that only tests, if a condition is nothing but its value: a join without values."""
    negated = isinstance(condition, Not)
    tested = condition.term if isinstance(condition, Not) else condition
    block = blocks[-1] if blocks else None
    if not isinstance(tested, ValueRef) or not isinstance(block, ValueBlock) or block.variable != tested.variable:
        return False
    if block.kind is not BlockKind.EXISTS or not block.shared:
        return False
    blocks[-1] = Exists(shared=block.shared, pattern=block.pattern, negated=negated, origin=block.origin)
    return True


def _is_null_variable(node: tree.NodePattern, scope: CypherScope) -> bool:
    """Return whether a node is a variable that is the literal null, which nothing matches."""
    variable = None if node.variable is None else scope.find(node.variable.text)
    return isinstance(variable, ComputedVariable) and values.is_null(variable.value)


def _has_empty_bounds(length: tree.Length | None) -> bool:
    """Return whether no walk has this length, as `*2..1` has it."""
    return length is not None and length.low is not None and length.high is not None and length.high < length.low


def _list_ends(hop: PatternHop, *, left: bool) -> frozenset[str]:
    """Return the node types at one end of the ways in which a hop can be followed."""
    ends = set()
    for member in hop.members:
        if member.direction is HopDirection.BOTH:
            ends |= {member.edge.source, member.edge.target}
            continue
        is_source = (member.direction is HopDirection.OUT) == left
        ends.add(member.edge.source if is_source else member.edge.target)
    return frozenset(ends)


def _mark(context: CypherContext, matched: Matched, match: tree.Match) -> Matched:
    """Return a pattern that binds a value, if only to tell whether it has a match."""
    one = Const(value=(1,), type=ListOf(Scalar.I64), origin=match.span)
    block, _, _ = build_each(context, "#match", one, match.span, matched.scope)
    marker = ValueRef(variable=block.variable, type=Scalar.I64, nullable=True, origin=match.span)
    pattern = replace(matched.pattern, blocks=(*matched.pattern.blocks, block))
    return replace(matched, pattern=pattern, marker=marker)


def _refuse_unknown_zero(context: CypherContext, hop: PatternHop) -> None:
    length = hop.pattern.length
    if length is not None and length.low == 0 and not hop.members:
        help_ = "leave the hop out, or name a relationship type that there is"
        message = "a length of 0 over no relationship type is not supported"
        context.findings.refuse("C002", hop.pattern.span, message, help_)


def _require_same(context: CypherContext, hop: PatternHop, known: Expr, listed: Expr) -> Expr:
    """Return whether the relationships of a walk are those of a list."""
    is_list = isinstance(known.type, ArrayOf) and isinstance(known.type.element, EdgeRef)
    test = values.compare(Op.EQ, known, listed, hop.pattern.span) if is_list else None
    if test is None:
        help_ = "name another variable, and compare the relationships"
        message = "a variable length over this variable is not supported"
        context.findings.refuse("C002", hop.pattern.span, message, help_)
    return test


def _list_entries(
    properties: tree.MapLiteral | tree.Parameter, binder: ExpressionBinder
) -> Sequence[tuple[Name, Expr]]:
    if isinstance(properties, tree.MapLiteral):
        return [(key, binder.bind(value)) for key, value in properties.entries]
    given = binder.bind(properties)
    if not isinstance(given, RecordExpr):
        binder.refuse_type(properties.span, f"`${properties.name}` is {values.describe(given.type)}, and no map")
    return [(Name(name, properties.span), value) for name, value in given.items]


def _bind_nothing(match: tree.Match, scope: CypherScope) -> Matched:
    """Return a pattern without matches, whose variables are null: the schema has no types that they could have."""
    null = ComputedVariable(value=values.build_unknown(match.span))
    names: list[Name | None] = []
    for path in match.patterns:
        names += [path.variable, *(each.variable for each in path.nodes)]
        names += [each.variable for each in path.relationships]
    for name in names:
        if name is not None and scope.find(name.text) is None:
            scope = scope.add(name.text, null)
    no = values.build_const(value=False, origin=match.span)
    return Matched(Pattern(nodes=(), filters=(no,)), scope)


def _has_all(context: CypherContext, member: HopMember, names: set[str]) -> bool:
    edge = context.catalog.edges[member.edge.name]
    return all(edge.find_property(name) for name in names)


def _refuse_along(context: CypherContext, span: Span) -> NoReturn:
    help_ = "test them afterwards: `WHERE all(r IN relationships(p) WHERE r.km = n.km)`"
    message = "conditions of a variable length that read other variables are not supported"
    context.findings.refuse("C002", span, message, help_)
