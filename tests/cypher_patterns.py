"""Matching patterns for the interpreter: every assignment, by trying each node and relationship.

Relationships inside one `MATCH` differ, also across variable lengths. What a pattern asks of properties is checked as
soon as the variables that it reads are bound.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from cypher_values import (
    CypherError,
    ModelGraph,
    Node,
    Path,
    Relationship,
    Row,
    Value,
    compare_equal,
    normalize_name,
)
from omnigraph.lang.cypher import tree
from omnigraph.lang.literals import Name

Evaluate = Callable[[tree.Expr, Row], Value]


@dataclass
class State:
    """A partial assignment: the bound variables, the used relationships, and the walk of the current path."""

    row: Row
    used: frozenset[Relationship] = frozenset()
    nodes: tuple[Node, ...] = ()
    walk: tuple[Relationship, ...] = ()
    checks: tuple[Callable[[Row], bool], ...] = ()


@dataclass
class Matcher:
    """Finds the assignments of patterns in a graph."""

    graph: ModelGraph
    evaluate: Evaluate
    outgoing: dict[Node, list[Relationship]] = field(default_factory=dict)
    incoming: dict[Node, list[Relationship]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for relationship, (source, target) in self.graph.relationships.items():
            self.outgoing.setdefault(source, []).append(relationship)
            self.incoming.setdefault(target, []).append(relationship)

    def match(self, patterns: tuple[tree.PathPattern, ...], row: Row) -> Iterator[Row]:
        """Yield the row extended by each assignment of all patterns together."""
        states: list[State] = [State(row)]
        for pattern in patterns:
            states = [extended for state in states for extended in self._match_path(pattern, state)]
        for state in states:
            if all(check(state.row) for check in state.checks):
                yield state.row

    # --- paths ---------------------------------------------------------------------------------------

    def _match_path(self, pattern: tree.PathPattern, state: State) -> Iterator[State]:
        started = State(state.row, state.used, (), (), state.checks)
        found = self._walk(pattern, 0, started)
        if pattern.kind is not tree.PathKind.ALL:
            found = iter(self._select_shortest(pattern, list(found)))
        for end in found:
            row = end.row
            if pattern.variable is not None:
                row = {**row, pattern.variable.text: Path(end.nodes, end.walk)}
            yield State(row, end.used, (), (), end.checks)

    def _walk(self, pattern: tree.PathPattern, index: int, state: State) -> Iterator[State]:
        """Bind the node at `index`, which must be the last of the walk unless the walk is empty, and what follows."""
        node = pattern.nodes[index]
        candidates = [state.nodes[-1]] if state.nodes else list(self.graph.nodes)
        for candidate in candidates:
            bound = self._bind_node(node, candidate, state)
            if bound is None:
                continue
            if index == len(pattern.relationships):
                yield bound
                continue
            for step in self._walk_relationship(pattern.relationships[index], bound):
                yield from self._walk(pattern, index + 1, step)

    def _bind_node(self, pattern: tree.NodePattern, node: Node, state: State) -> State | None:
        if pattern.labels is not None and not has_labels(pattern.labels, self.graph.labels[node.type]):
            return None
        row = state.row
        if pattern.variable is not None:
            name = pattern.variable.text
            if name in row and row[name] != node:
                return None
            row = {**row, name: node}
        nodes = state.nodes or (node,)
        checks = (*state.checks, *self._build_checks(pattern.properties, pattern.where, node))
        return State(row, state.used, nodes, state.walk, checks)

    # --- relationships -------------------------------------------------------------------------------

    def _walk_relationship(self, pattern: tree.RelationshipPattern, state: State) -> Iterator[State]:
        name = None if pattern.variable is None else pattern.variable.text
        if pattern.length is None:
            for step in self._take_steps(pattern, state):
                last = step.walk[-1]
                if name is not None and name in state.row and state.row[name] != last:
                    continue
                yield _with_value(step, name, last)
            return
        low = 1 if pattern.length.low is None else pattern.length.low
        high = pattern.length.high
        start = len(state.walk)
        frontier = [state]
        count = 0
        while frontier:
            if count >= low:
                for end in frontier:
                    walked: Value = list(end.walk[start:])
                    if name is None or name not in state.row or state.row[name] == walked:
                        yield _with_value(end, name, walked)
            if count == high:
                break
            frontier = [step for end in frontier for step in self._take_steps(pattern, end)]
            count += 1

    def _take_steps(self, pattern: tree.RelationshipPattern, state: State) -> Iterator[State]:
        here = state.nodes[-1]
        steps: list[tuple[Relationship, Node]] = []
        if pattern.direction is not tree.Direction.IN:
            steps.extend((edge, self.graph.relationships[edge][1]) for edge in self.outgoing.get(here, ()))
        if pattern.direction is not tree.Direction.OUT:
            loops = pattern.direction is tree.Direction.BOTH
            steps.extend(
                (edge, self.graph.relationships[edge][0])
                for edge in self.incoming.get(here, ())
                if not (loops and self.graph.relationships[edge][0] == here)
            )
        for edge, target in steps:
            if edge in state.used:
                continue
            if pattern.types is not None and not has_labels(pattern.types, self.graph.types[edge.type]):
                continue
            checks = (*state.checks, *self._build_checks(pattern.properties, pattern.where, edge, pattern.variable))
            nodes, walk = (*state.nodes, target), (*state.walk, edge)
            yield State(state.row, state.used | {edge}, nodes, walk, checks)

    # --- conditions ----------------------------------------------------------------------------------

    def _build_checks(
        self,
        properties: tree.MapLiteral | tree.Parameter | None,
        where: tree.Expr | None,
        entity: Node | Relationship,
        variable: Name | None = None,
    ) -> list[Callable[[Row], bool]]:
        checks: list[Callable[[Row], bool]] = []
        if properties is not None:
            asked: tree.Expr = properties

            def has_properties(row: Row) -> bool:
                values = self.evaluate(asked, row)
                if not isinstance(values, dict):
                    raise CypherError("properties are a map")
                own = self.graph.get_properties(entity)
                return all(compare_equal(own.get(key), value) is True for key, value in values.items())

            checks.append(has_properties)
        if where is not None:
            condition = where
            name = None if variable is None else variable.text

            def holds(row: Row) -> bool:
                inner = row if name is None else {**row, name: entity}
                return self.evaluate(condition, inner) is True

            checks.append(holds)
        return checks

    def _select_shortest(self, pattern: tree.PathPattern, found: list[State]) -> list[State]:
        """Keep the shortest walks of each pair of ends: one, the smallest by its ids, or all."""
        ends: dict[tuple[Node, Node], list[State]] = {}
        for state in found:
            if all(check(state.row) for check in state.checks):
                ends.setdefault((state.nodes[0], state.nodes[-1]), []).append(state)
        kept: list[State] = []
        for states in ends.values():
            fewest = min(len(state.walk) for state in states)
            shortest = [state for state in states if len(state.walk) == fewest]
            if pattern.kind is tree.PathKind.SHORTEST:
                shortest = [min(shortest, key=lambda state: (state.nodes, state.walk))]
            kept.extend(shortest)
        return kept


def _with_value(state: State, name: str | None, value: Value) -> State:
    if name is None:
        return state
    return State({**state.row, name: value}, state.used, state.nodes, state.walk, state.checks)


def has_labels(asked: tree.LabelExpr, labels: tuple[str, ...]) -> bool:
    """Return whether the labels of a node, or the names of an edge type, fit what a pattern asks."""
    match asked:
        case tree.LabelName(name=name):
            return normalize_name(name.text) in {normalize_name(label) for label in labels}
        case tree.AnyLabel():
            return bool(labels)
        case tree.LabelAnd(terms=terms):
            return all(has_labels(term, labels) for term in terms)
        case tree.LabelOr(terms=terms):
            return any(has_labels(term, labels) for term in terms)
        case tree.LabelNot(term=term):
            return not has_labels(term, labels)


def list_pattern_variables(patterns: tuple[tree.PathPattern, ...]) -> list[str]:
    """Return the names that patterns bind, in order."""
    names: dict[str, None] = {}
    for pattern in patterns:
        variables = [pattern.variable]
        variables += [node.variable for node in pattern.nodes]
        variables += [relationship.variable for relationship in pattern.relationships]
        names.update((variable.text, None) for variable in variables if variable is not None)
    return list(names)
