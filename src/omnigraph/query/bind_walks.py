"""Bind paths: their weights, the conditions on the way, and the functions that read a walk."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import assert_never

from omnigraph.lang import query_ast as ast
from omnigraph.lang.printer import format_expr as print_expr
from omnigraph.query.bind_literal import clip_text
from omnigraph.query.expr import EntityType, Expr, FieldRef, Identity, MetaColumn, Prop, WalkOf
from omnigraph.query.expr_types import ROW
from omnigraph.query.functions import Function
from omnigraph.query.resolution import note_property
from omnigraph.query.scope import Params, Reference, report_unknown_property
from omnigraph.query.walk_plan import WALK_FUNCTIONS, read_part
from omnigraph.schema.catalog import AnyType, EdgeType
from omnigraph.schema.findings import DiagnosticCollector, join_words


@dataclass(frozen=True, slots=True)
class WayNameResolver:
    """The name resolver of conditions on the way: a bare name is a property of the edge or node itself.

    With several types, a property is one that all have with one type.
    """

    declared: tuple[AnyType, ...]
    params: Params
    findings: DiagnosticCollector
    # `along`, `through` or `by`, for messages.
    word: str

    def resolve(self, node: Reference) -> Expr | None:
        """Resolve a reference; see `scope.NameResolver`."""
        match node:
            case ast.BareName():
                return self._resolve_meta(node) if node.is_meta else self._resolve_property(node)
            case ast.Variable():
                if node.name in self.params:
                    return self.params.resolve(node)
                self._report_variable(node.name, node)
                return None
            case ast.PropertyRef():
                self._report_variable(node.variable.name, node)
                return None
            case _:
                assert_never(node)

    def get_type(self, type_: EntityType) -> AnyType:
        """Return the catalog entry of a node or edge type; see `NameResolver`."""
        # Only the edge or node itself is bound here, and it is no value.
        raise AssertionError(f"a condition on the way has the type {type_}")

    def _resolve_property(self, node: ast.BareName) -> Prop | None:
        props = [type_.find_property(node.name.text) for type_ in self.declared]
        for type_, prop in zip(self.declared, props, strict=True):
            if prop is None:
                if any(present is not None for present in props):
                    name = node.name.text
                    message = f"`{name}` is not a property of every type on the way: `{type_.name}` has none"
                    self.findings.add_error("T2", node.name.span, message, "leave out the types that don't have it")
                else:
                    report_unknown_property(node.name, type_, self.findings)
                return None
        present = [prop for prop in props if prop is not None]
        first = present[0]
        # One column holds the values of all types, so no type is converted silently.
        if any(prop.type != first.type for prop in present):
            types = join_words(
                f"{prop.type} of `{type_.name}`" for type_, prop in zip(self.declared, present, strict=True)
            )
            message = f"`{node.name.text}` has several types here: {types}"
            self.findings.add_error("T2", node.span, message, "name edges whose property has one type")
            return None
        note_property(node.name.span, (type_.name for type_ in self.declared))
        nullable = any(prop.nullable for prop in present)
        return Prop(variable=ROW, name=first.name, type=first.type, nullable=nullable, origin=node.span)

    def _resolve_meta(self, node: ast.BareName) -> Identity | None:
        name = node.name.text
        # Members of a union are all nodes or all edges, so the first one tells which.
        allowed = ("id", "src", "dst") if isinstance(self.declared[0], EdgeType) else ("id",)
        if name in allowed:
            return Identity(variable=ROW, part=MetaColumn(name), origin=node.span)
        ids = join_words(f"@{part}" for part in allowed)
        self.findings.add_error("T2", node.span, f"`{self.declared[0].name}` has no `@{name}`", f"it has {ids}")
        return None

    def _report_variable(self, name: str, node: ast.Expr) -> None:
        message = f"`{print_expr(node)}` can't be used in `{self.word}`"
        what = "the edge" if isinstance(self.declared[0], EdgeType) else "the node"
        help_ = f"it reads the properties of {what} itself, without a variable, and parameters"
        # `$parameter.property` is another mistake than the variable of a pattern.
        if name in self.params:
            message, help_ = f"`${name}` is a parameter and has no properties", "use it without a property"
        self.findings.add_error("T6", node.span, message, help_)


def bind_walk_call(
    call: ast.Call, function: Function, bind: Callable[[ast.Expr], Expr | None], findings: DiagnosticCollector
) -> FieldRef | None:
    """Bind `length($w)`, `cost($w)`, `nodes($w)` or `edges($w)`."""
    (node,) = call.arguments
    argument = bind(node)
    if argument is None:
        return None
    text = clip_text(print_expr(node))
    if not isinstance(argument.type, WalkOf):
        message = f"`{function.name}` needs a path, but `{text}` is {argument.type}"
        findings.add_error("T27", node.span, message, "bind one in `match`: `path $w = $a knows{1,4} $b`")
        return None
    part = WALK_FUNCTIONS[function.name]
    if argument.type.find_field(part) is None:
        message = f"`{text}` has no cost, because its edges have no weights"
        findings.add_error(
            "T27", node.span, message, f"a cost belongs to a `cheapest` path; its edges: `length({text})`"
        )
        return None
    return read_part(argument, part)
