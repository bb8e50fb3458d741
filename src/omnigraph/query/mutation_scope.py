"""Name resolution in the `where` of a mutation."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import assert_never

from omnigraph.lang import query_ast as ast
from omnigraph.lang.literals import Name
from omnigraph.query.expr import EntityType, Expr, Identity, MetaColumn, Prop
from omnigraph.query.expr_types import ROW
from omnigraph.query.resolution import note_property
from omnigraph.query.scope import Params, Reference
from omnigraph.schema.catalog import AnyType, EdgeType
from omnigraph.schema.findings import DiagnosticCollector, join_words

# The names of an edge's ends in a mutation.
ENDS: Mapping[str, MetaColumn] = {"from": MetaColumn.SRC, "to": MetaColumn.DST}

# The ends are `src` and `dst` in tables and keys; a user who writes these names is pointed to those of a mutation.
STORED_ENDS: Mapping[str, str] = {"src": "from", "dst": "to"}


@dataclass(frozen=True, slots=True)
class RowNameResolver:
    """The name resolver of a mutation's `where`: a bare name is a property of the current row."""

    declared: AnyType
    params: Params
    findings: DiagnosticCollector

    def resolve(self, node: Reference) -> Expr | None:
        """Resolve a reference; see `scope.NameResolver`."""
        match node:
            case ast.BareName():
                return self._resolve_meta(node) if node.is_meta else self._resolve_property(node)
            case ast.Variable():
                if node.name in self.params:
                    return self.params.resolve(node)
                self._report_unbound(node, node.name)
                return None
            case ast.PropertyRef():
                self._report_unbound(node.variable, ("@" if node.is_meta else "") + node.name.text)
                return None
            case _:
                assert_never(node)

    def get_type(self, type_: EntityType) -> AnyType:
        """Return the catalog entry of a node or edge type; see `NameResolver`."""
        # Only the current row is bound here, and it is no value, so that no expression has such a type.
        raise AssertionError(f"an expression over one row has the type {type_}")

    def _resolve_property(self, node: ast.BareName) -> Expr | None:
        name = node.name
        if isinstance(self.declared, EdgeType) and name.text in ENDS:
            return Identity(variable=ROW, part=ENDS[name.text], origin=node.span)
        prop = self.declared.find_property(name.text)
        if prop is None:
            report_unknown(name, self.declared, self.findings)
            return None
        note_property(name.span, (self.declared.name,))
        return Prop(
            variable=ROW,
            name=prop.name,
            type=prop.type,
            nullable=prop.nullable,
            metric=prop.metric,
            language=prop.language,
            origin=node.span,
        )

    def _resolve_meta(self, node: ast.BareName) -> Identity | None:
        name = node.name.text
        allowed = ("id", "src", "dst") if isinstance(self.declared, EdgeType) else ("id",)
        if name in allowed:
            return Identity(variable=ROW, part=MetaColumn(name), origin=node.span)
        message = f"`{self.declared.name}` has no `@{name}`"
        self.findings.add_error("T11", node.span, message, f"it has {join_words(f'@{part}' for part in allowed)}")
        return None

    def _report_unbound(self, node: ast.Variable, bare: str) -> None:
        if node.name in self.params:
            message = f"`${node.name}` is a parameter and has no properties"
        else:
            message = f"`${node.name}` is not a declared parameter"
        # `$p.name` is how a read writes it: the part after the variable is probably what was meant.
        names = {*self.declared.by_name, *ENDS, "@id", "@src", "@dst"}
        if bare in names:
            help_: str | None = f"in a mutation a property is written without a variable: `{bare}`"
        else:
            help_ = self.findings.suggest_closest(
                f"${node.name}", (f"${name}" for name in self.params.names if name != node.name)
            )
        self.findings.add_error(
            "T6", node.span, message, help_ or f"declare it: `query name(${node.name}: Type) {{ … }}`"
        )


def report_unknown(name: Name, declared: AnyType, findings: DiagnosticCollector, help_: str | None = None) -> None:
    """Report a property that the type does not have (T11); the default help is the closest name."""
    word = name.text
    if word in STORED_ENDS and isinstance(declared, EdgeType):
        help_ = f"an edge's end is called `{STORED_ENDS[word]}`"
    elif word in ENDS or word in STORED_ENDS:
        help_ = "a node has no ends; its id is `@id`"
    if help_ is None and word == "id":
        help_ = "an id is not a property: write `@id`"
    help_ = help_ or findings.suggest_closest(word, list_settable_names(declared))
    findings.add_error("T11", name.span, f"unknown property `{word}` of `{declared.name}`", help_)


def list_settable_names(declared: AnyType) -> tuple[str, ...]:
    """Return the names that an insert can set: properties, and the ends of an edge."""
    return (*declared.by_name, *(ENDS if isinstance(declared, EdgeType) else ()))
