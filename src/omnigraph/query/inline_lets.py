"""Inline `let`: replace the names of abbreviations by their expressions, before anything is bound.

An abbreviation may be used in every clause of its block, in the blocks inside it, and after `match`. Names are resolved
where it stands: a name that only an inner block binds is an error in the `let` itself, which is bound once on its own.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields, is_dataclass, replace
from typing import Any, TypeVar

from omnigraph.lang import literals as lit
from omnigraph.lang import query_ast as ast
from omnigraph.lang.expression_tree import walk_deep
from omnigraph.lang.source import Span
from omnigraph.query.column_names import build_column_name
from omnigraph.schema.findings import DiagnosticCollector

_Output = TypeVar("_Output", ast.Read, ast.Stage)
# The fields of syntax nodes that bind a variable: an abbreviation is a value, and stands for no variable there.
_BINDING_FIELDS = frozenset({"variable", "source", "target", "edge_variable"})
# Each abbreviation that uses another one twice doubles the expression: thirty of them would fill the memory. At this
# size, binding takes about a second.
MAX_PARTS = 2_000
# Expressions are bound recursively, so abbreviations of abbreviations must end before Python's recursion limit.
MAX_DEPTH = 64
_LEAVES = (Span, lit.Name, str, int, float, bool, type(None))


@dataclass(frozen=True)
class LetInliner:
    """The abbreviations that are visible in a block, with the abbreviations in their own expressions replaced."""

    values: Mapping[str, ast.Expr]
    findings: DiagnosticCollector

    def enter(self, clauses: Iterable[ast.Clause]) -> "LetInliner":
        """Return the inliner of an inner block: its own abbreviations are added."""
        own = {clause.variable.name: clause for clause in clauses if isinstance(clause, ast.Let)}
        if not own:
            return self
        return LetInliner(_resolve_lets(own, self.values, self.findings), self.findings)

    def inline_clauses(self, clauses: tuple[ast.Clause, ...]) -> tuple[ast.Clause, ...]:
        """Return the clauses of a block with all abbreviations replaced."""
        inner = self.enter(clauses)
        return tuple(inner.inline(clause) for clause in clauses)

    def inline(self, node: Any) -> Any:  # noqa: ANN401 - it maps any syntax node to one of its kind
        """Return a syntax node with all abbreviations in its expressions replaced."""
        match node:
            case ast.Variable() if node.name in self.values:
                return self.values[node.name]
            case ast.PropertyRef() if node.variable.name in self.values:
                return _inline_property(node, self.values[node.variable.name])
            case ast.Block():
                # The value and the order of a block see its abbreviations.
                inner = self.enter(node.clauses)
                clauses = tuple(inner.inline(clause) for clause in node.clauses)
                return replace(inner.inline_fields(node, skipped="clauses"), clauses=clauses)
            case ast.NotBlock() | ast.OptionalBlock():
                return replace(node, clauses=self.inline_clauses(node.clauses))
            case ast.Either():
                return replace(node, alternatives=tuple(self.inline_clauses(each) for each in node.alternatives))
            case tuple():
                return tuple(self.inline(each) for each in node)
            case _:
                is_leaf = isinstance(node, _LEAVES) or not is_dataclass(node)
                return node if is_leaf or not self.values else self.inline_fields(node)

    def inline_fields(self, node: Any, skipped: str = "") -> Any:  # noqa: ANN401 - as above
        """Return a syntax node with all abbreviations in its fields replaced, but for one."""
        changes: dict[str, Any] = {}
        for field in fields(node):
            value = getattr(node, field.name)
            if field.name in _BINDING_FIELDS or field.name == skipped or isinstance(value, _LEAVES):
                continue
            changed = self.inline(value)
            if changed is not value:
                changes[field.name] = changed
        return replace(node, **changes) if changes else node

    def inline_output(self, output: _Output) -> _Output:
        """Return a read or stage whose columns, keys and conditions have all abbreviations replaced."""
        if not self.values:
            return output
        changed: _Output = replace(
            self.inline_fields(output, skipped="clauses"),
            projections=tuple(map(self._inline_projection, output.projections)),
        )
        return changed

    def _inline_projection(self, node: ast.Projection) -> ast.Projection:
        value = self.inline(node.value)
        if value == node.value or node.alias is not None:
            return replace(node, value=value)
        # The column has the name that was written, not that of what it stands for.
        return replace(node, value=value, alias=lit.Name(build_column_name(node.value), node.value.span))


def inline_lets(output: _Output, findings: DiagnosticCollector) -> _Output:
    """Return a read or stage with its abbreviations replaced; cycles are reported. The `let` clauses stay."""
    inliner = LetInliner({}, findings).enter(output.clauses)
    clauses = tuple(inliner.inline(clause) for clause in output.clauses)
    inlined: _Output = replace(inliner.inline_output(output), clauses=clauses)
    return inlined


def _resolve_lets(
    own: Mapping[str, ast.Let], outer: Mapping[str, ast.Expr], findings: DiagnosticCollector
) -> dict[str, ast.Expr]:
    """Return all visible abbreviations; those of the block may use each other in any order, but not in a circle."""
    resolved = dict(outer)
    sizes = {name: _count_parts(value, {}) for name, value in outer.items()}
    depths: dict[str, int] = {}
    done: set[str] = set()

    def resolve(name: str, path: tuple[str, ...]) -> None:
        if name in done:
            return
        clause = own[name]
        if name in path:
            circle = " uses ".join(f"`${each}`" for each in (*path[path.index(name) :], name))
            message = f"`${name}` is an abbreviation of itself: {circle}"
            findings.add_error("T6", clause.variable.span, message, "write out one of them")
            done.add(name)
            # Its own name stays, which is no variable: nothing is replaced without an end.
            resolved.pop(name, None)
            return
        for used in _find_used(clause.value, own):
            resolve(used, (*path, name))
        if name not in done:
            done.add(name)
            visible = {each: value for each, value in resolved.items() if each not in own or each in done}
            visible.pop(name, None)
            sizes[name] = _count_parts(clause.value, sizes)
            depths[name] = 1 + max((depths.get(used, 0) for used in _find_used(clause.value, own)), default=0)
            if sizes[name] > MAX_PARTS or depths[name] > MAX_DEPTH:
                message = f"`${name}` stands for an expression of more than {MAX_PARTS:,} parts"
                if depths[name] > MAX_DEPTH:
                    message = f"`${name}` stands for more than {MAX_DEPTH} abbreviations, one inside the other"
                help_ = "use each abbreviation fewer times, or calculate it once in a stage: `with { … as x }`"
                findings.add_error("T6", clause.variable.span, message, help_)
                sizes[name], depths[name] = 1, 0
                resolved.pop(name, None)
                return
            resolved[name] = LetInliner(visible, findings).inline(clause.value)

    for name in own:
        resolve(name, ())
    return resolved


def _count_parts(value: ast.Expr, sizes: Mapping[str, int]) -> int:
    """Return the number of parts of an expression after its abbreviations, of known sizes, are replaced."""
    count = 0
    for part in walk_deep(value):
        name = part.variable.name if isinstance(part, ast.PropertyRef) else getattr(part, "name", None)
        count += sizes.get(name, 1) if isinstance(name, str) else 1
    return count


def _find_used(value: ast.Expr, own: Mapping[str, ast.Let]) -> list[str]:
    names = (part.variable.name if isinstance(part, ast.PropertyRef) else part.name for part in _list_references(value))
    return list(dict.fromkeys(name for name in names if name in own))


def _list_references(value: ast.Expr) -> list[ast.Variable | ast.PropertyRef]:
    return [part for part in walk_deep(value) if isinstance(part, ast.Variable | ast.PropertyRef)]


def _inline_property(node: ast.PropertyRef, value: ast.Expr) -> ast.Expr:
    match value:
        case ast.Variable():
            return replace(node, variable=value)
        case _:
            return ast.Field(operand=value, name=node.name, is_meta=node.is_meta, span=node.span)
