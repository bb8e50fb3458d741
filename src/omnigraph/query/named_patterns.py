"""Named patterns: replace their uses by the clauses that they stand for, before anything is bound.

`colleague($p, $q)` becomes a block of one alternative, so that it is a set over its parameters. Its other variables get
names that no user can write, and are not visible outside.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, is_dataclass, replace
from itertools import count
from typing import Any

from omnigraph.lang import literals as lit
from omnigraph.lang import query_ast as ast
from omnigraph.lang.source import Span
from omnigraph.query.functions import FUNCTIONS
from omnigraph.query.logical_plan import DerivedEdge
from omnigraph.query.scope import HIDDEN_PREFIX
from omnigraph.schema.catalog import Catalog
from omnigraph.schema.findings import DiagnosticCollector, join_words

_LEAVES = (Span, lit.Name, str, int, float, bool, type(None))


@dataclass(frozen=True, kw_only=True)
class DerivedCatalog(Catalog):
    """A catalog with an edge type for each named pattern that a query follows several times."""

    derived: Mapping[str, DerivedEdge] = field(default_factory=dict)


@dataclass(frozen=True)
class PatternExpander:
    """The named patterns of a file by name, and what is needed to replace their uses in one query."""

    patterns: Mapping[str, ast.PatternDecl]
    findings: DiagnosticCollector
    numbers: Iterator[int] = field(default_factory=lambda: count(1))

    def expand(self, node: Any) -> Any:  # noqa: ANN401 - it maps any syntax node to one of its kind
        """Return a syntax node with all uses of named patterns replaced."""
        match node:
            case ast.Where(predicate=ast.Call() as call) if call.function.text in self.patterns:
                return self._expand_call(call)
            case ast.PathClause() if self._uses_pattern(node.hop):
                message = "a path lists edges, and a named pattern has none of its own"
                self.findings.add_error("T23", node.hop.edge_span, message, "follow it as a hop, without a path")
                return ast.Either(alternatives=((),), span=node.span)
            case ast.TraversalClause() if self._uses_pattern(node):
                return self._expand_hop(node)
            case tuple():
                return tuple(self.expand(each) for each in node)
            case _:
                is_leaf = isinstance(node, _LEAVES) or not is_dataclass(node)
                return node if is_leaf else self._expand_fields(node)

    def _expand_fields(self, node: Any) -> Any:  # noqa: ANN401 - as above
        changes = {}
        for each in fields(node):
            value = getattr(node, each.name)
            changed = value if isinstance(value, _LEAVES) else self.expand(value)
            if changed is not value and changed != value:
                changes[each.name] = changed
        return replace(node, **changes) if changes else node

    def _uses_pattern(self, node: ast.TraversalClause) -> bool:
        return any(edge.name.text in self.patterns for edge in node.edges)

    def _expand_call(self, call: ast.Call) -> ast.Clause:
        pattern = self.patterns[call.function.text]
        arguments = [argument for argument in call.arguments if isinstance(argument, ast.Variable)]
        names = ", ".join(f"${param.variable.name}" for param in pattern.params)
        usage = f"write `{pattern.name.text}({names})`"
        if len(arguments) < len(call.arguments):
            wrong = next(argument for argument in call.arguments if not isinstance(argument, ast.Variable))
            self.findings.add_error("T27", wrong.span, f"`{pattern.name.text}` takes variables", usage)
        elif len(arguments) != len(pattern.params):
            message = f"`{pattern.name.text}` takes {len(pattern.params)} variables, not {len(arguments)}"
            self.findings.add_error("T27", call.span, message, usage)
        else:
            return ast.Either(alternatives=(self._rename(pattern, arguments),), span=call.span)
        return ast.Either(alternatives=((),), span=call.span)

    def _expand_hop(self, node: ast.TraversalClause) -> ast.Clause:
        if len(node.edges) > 1:
            message = "a named pattern can't be followed together with other edges"
            self.findings.add_error("T4", node.edge_span, message, "write `either { … } or { … }` in the pattern")
            return ast.Either(alternatives=((),), span=node.span)
        pattern = self.patterns[node.edges[0].name.text]
        if len(pattern.params) != 2 or node.edge_variable is not None or node.along or node.through:
            self._report_edge(node, pattern)
            return ast.Either(alternatives=((),), span=node.span)
        if node.bounds is not None:
            # Bound as an edge of its own, see `DerivedCatalog`.
            return node
        ends = [node.source, node.target]
        alternatives = [self._rename(pattern, ends)]
        if node.is_undirected:
            alternatives.append(self._rename(pattern, ends[::-1]))
        return ast.Either(alternatives=tuple(alternatives), span=node.span)

    def _report_edge(self, node: ast.TraversalClause, pattern: ast.PatternDecl) -> None:
        name = pattern.name.text
        if len(pattern.params) != 2:
            message = f"`{name}` has {len(pattern.params)} parameters, so it is no edge"
            self.findings.add_error("T4", node.edge_span, message, "an edge has two: its source and its target")
        elif node.edge_variable is not None:
            message = f"`{name}` is a named pattern, which has no edges of its own"
            self.findings.add_error("T23", node.edge_variable.span, message, "drop the edge variable")
        else:
            condition = (*node.along, *node.through)[0]
            message = f"`{name}` is a named pattern, so there are no conditions on the way"
            self.findings.add_error("T23", condition.span, message, "write the condition in the pattern")

    def _rename(self, pattern: ast.PatternDecl, arguments: Sequence[ast.Variable]) -> tuple[ast.Clause, ...]:
        """Return the clauses of a pattern with its parameters replaced and its other variables hidden."""
        number = next(self.numbers)
        given = {param.variable.name: each.name for param, each in zip(pattern.params, arguments, strict=True)}
        bindings = tuple(
            ast.Binding(variable=replace(each, name=each.name), types=param.types, span=each.span)
            for param, each in zip(pattern.params, arguments, strict=True)
        )
        renamer = _Renamer(given, f"{HIDDEN_PREFIX}{pattern.name.text}{number}.")
        return (*bindings, *self.expand(renamer.rename(pattern.clauses)))


@dataclass(frozen=True)
class _Renamer:
    """The new names of the variables of a pattern; those that are no parameter get a prefix."""

    given: Mapping[str, str]
    prefix: str

    def rename(self, node: Any) -> Any:  # noqa: ANN401 - it maps any syntax node to one of its kind
        if isinstance(node, ast.Variable):
            is_anonymous = node.name == ast.ANONYMOUS
            return node if is_anonymous else replace(node, name=self.given.get(node.name, f"{self.prefix}{node.name}"))
        if isinstance(node, tuple):
            return tuple(self.rename(each) for each in node)
        if isinstance(node, _LEAVES) or not is_dataclass(node) or isinstance(node, type):
            return node
        return replace(node, **{each.name: self.rename(getattr(node, each.name)) for each in fields(node)})


def expand_patterns(query: ast.Query, patterns: Sequence[ast.PatternDecl], findings: DiagnosticCollector) -> ast.Query:
    """Return a query with the uses of named patterns replaced; wrong uses are reported."""
    if not patterns:
        return query
    expander = PatternExpander({pattern.name.text: pattern for pattern in patterns}, findings)
    expanded = expander.expand(query.body)
    return query if expanded == query.body else replace(query, body=expanded)


def check_patterns(
    patterns: Sequence[ast.PatternDecl], catalog: Catalog, findings: DiagnosticCollector
) -> tuple[ast.PatternDecl, ...]:
    """Return the patterns that can be used; wrong names and recursion are reported."""
    valid: dict[str, ast.PatternDecl] = {}
    for pattern in patterns:
        name = pattern.name
        if name.text in valid:
            message = f"there is already a pattern `{name.text}` in this file"
            findings.add_error("Q002", name.span, message, "give it another name")
        elif catalog.find_edge(name.text) is not None or name.text in FUNCTIONS:
            kind = "a function" if name.text in FUNCTIONS else "an edge"
            message = f"`{name.text}` is the name of {kind}, so it can't name a pattern"
            findings.add_error("Q002", name.span, message, "give it another name")
        else:
            valid[name.text] = pattern
    used = {name: _find_used(pattern, valid) for name, pattern in valid.items()}
    for pattern_name in list(valid):
        circle = _find_circle(pattern_name, used)
        if circle:
            shown = join_words(circle)
            message = f"`{pattern_name}` is used by itself, in {shown}: a named pattern can't be recursive"
            help_ = f"follow it several times as an edge: `$a {pattern_name}{{1,*}} $b`"
            findings.add_error("T6", valid[pattern_name].name.span, message, help_)
            del valid[pattern_name]
    return tuple(valid.values())


def iter_used_patterns(node: Any, patterns: Sequence[ast.PatternDecl]) -> Iterator[str]:  # noqa: ANN401 - any syntax node
    """Yield the names of the patterns that a syntax node uses, also inside of those that it uses."""
    by_name = {pattern.name.text: pattern for pattern in patterns}
    todo = [name for name in _iter_names(node) if name in by_name]
    seen: set[str] = set()
    while todo:
        name = todo.pop()
        if name not in seen:
            seen.add(name)
            yield name
            todo.extend(_find_used(by_name[name], by_name))


def iter_followed_patterns(node: Any, patterns: Sequence[ast.PatternDecl]) -> Iterator[str]:  # noqa: ANN401 - as above
    """Yield the names of the patterns that a syntax node follows over several edges."""
    names = {pattern.name.text for pattern in patterns}
    for hop in _iter_hops(node):
        if hop.bounds is not None and len(hop.edges) == 1 and hop.edges[0].name.text in names:
            yield hop.edges[0].name.text


def _iter_hops(node: Any) -> Iterator[ast.TraversalClause]:  # noqa: ANN401 - any syntax node
    if isinstance(node, ast.TraversalClause):
        yield node
    if isinstance(node, tuple):
        for each in node:
            yield from _iter_hops(each)
    elif is_dataclass(node) and not isinstance(node, _LEAVES):
        for each in fields(node):
            yield from _iter_hops(getattr(node, each.name))


def _find_used(pattern: ast.PatternDecl, names: Mapping[str, object]) -> tuple[str, ...]:
    """Return the named patterns that a pattern uses, in order."""
    return tuple(dict.fromkeys(name for name in _iter_names(pattern.clauses) if name in names))


def _iter_names(node: Any) -> Iterator[str]:  # noqa: ANN401 - any syntax node
    match node:
        case ast.Call():
            yield node.function.text
        case ast.TraversalClause():
            yield from (edge.name.text for edge in node.edges)
        case _:
            pass
    if isinstance(node, tuple):
        for each in node:
            yield from _iter_names(each)
    elif is_dataclass(node) and not isinstance(node, _LEAVES):
        for each in fields(node):
            yield from _iter_names(getattr(node, each.name))


def _find_circle(name: str, used: Mapping[str, tuple[str, ...]]) -> tuple[str, ...]:
    """Return the names by which a pattern uses itself, itself last; none if it does not."""
    todo: list[tuple[str, ...]] = [(name,)]
    seen: set[str] = set()
    while todo:
        path = todo.pop()
        for each in used.get(path[-1], ()):
            if each == name:
                return path
            if each not in seen:
                seen.add(each)
                todo.append((*path, each))
    return ()
