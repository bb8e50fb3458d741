"""Bind records and the fields of values: of a record, or of a node or edge that is no variable."""

from collections.abc import Callable
from typing import Protocol

from omnigraph.lang import query_ast as ast
from omnigraph.lang.literals import Name
from omnigraph.lang.source import Span
from omnigraph.query.expr import ArrayOf, EdgeRef, EntityType, Expr, FieldRef, NodeRef, RecordExpr, RecordOf, WalkOf
from omnigraph.query.resolution import note_property
from omnigraph.query.scalar_functions import SIGNATURES
from omnigraph.query.union_types import list_members
from omnigraph.schema.catalog import AnyType
from omnigraph.schema.findings import DiagnosticCollector, join_words
from omnigraph.schema.types import Scalar

# The columns that every node and every edge has.
NODE_IDS = ("id",)
EDGE_IDS = ("id", "src", "dst")


class TypeLookup(Protocol):
    """A source of the declarations of node and edge types."""

    def get_type(self, type_: EntityType) -> AnyType:
        """Return the catalog entry of a node or edge type."""
        ...


def bind_record(
    node: ast.Record, bind: Callable[[ast.Expr], Expr | None], findings: DiagnosticCollector
) -> RecordExpr | None:
    """Bind `{ name: value, … }`; None if a value is wrong or a name is repeated, which is reported."""
    # All values are bound before the first failure returns, so that each reports its errors.
    values = [bind(item.value) for item in node.items]
    seen: set[str] = set()
    for item in node.items:
        if item.name.text in seen:
            message = f"the record already has a field `{item.name.text}`"
            findings.add_error("T25", item.name.span, message, "give each field a different name")
            return None
        seen.add(item.name.text)
    items = tuple((item.name.text, value) for item, value in zip(node.items, values, strict=True) if value is not None)
    if len(items) < len(values) or not items:
        return None
    return RecordExpr(items=items, origin=node.span)


def bind_field(
    operand: Expr,
    name: Name,
    span: Span,
    types: TypeLookup,
    findings: DiagnosticCollector,
    *,
    is_meta: bool = False,
) -> Expr | None:
    """Bind `operand.name`, where the operand is a record, or a node or edge that is a value; else it is T2."""
    owner = operand.type
    match owner:
        case RecordOf() if not is_meta:
            # Not those of a walk that are calculated: these have functions.
            type_ = dict(owner.fields).get(name.text)
            if type_ is None:
                names = [field for field, _ in owner.fields]
                help_ = findings.suggest_closest(name.text, names) or f"it has {join_words(names)}"
                if isinstance(owner, WalkOf) and name.text in ("length", "cost"):
                    help_ = f"write `{name.text}($w)`"
                findings.add_error("T2", name.span, f"the record has no field `{name.text}`", help_)
                return None
            note_property(name.span, ())
            nullable = operand.nullable or name.text not in owner.required
            return FieldRef(operand=operand, name=name.text, type=type_, nullable=nullable, origin=span)
        case NodeRef() | EdgeRef():
            return _bind_column(operand, owner, name, span, types, findings, is_meta=is_meta)
        case _:
            written = f"@{name.text}" if is_meta else name.text
            message = f"`.{written}` needs a record, a node or an edge, but this is {owner}"
            findings.add_error("T2", name.span, message, _suggest_form(name.text, operand, is_meta=is_meta))
            return None


def _suggest_form(name: str, operand: Expr, *, is_meta: bool) -> str | None:
    """Return what other languages write as a field: `$p.born.year`, `nodes($w).name`."""
    if isinstance(operand.type, ArrayOf) and not is_meta:
        return f"that of each element is a list of its own: `collect {{ each $x in … return $x.{name} }}`"
    if operand.type not in (Scalar.DATE, Scalar.DATETIME) or name not in SIGNATURES:
        return None
    return f"a part of a date is written `{name}(…)`"


def _bind_column(
    operand: Expr,
    owner: EntityType,
    name: Name,
    span: Span,
    types: TypeLookup,
    findings: DiagnosticCollector,
    *,
    is_meta: bool,
) -> Expr | None:
    if is_meta:
        ids = NODE_IDS if isinstance(owner, NodeRef) else EDGE_IDS
        if name.text == "type":
            return FieldRef(operand=operand, name="@type", type=Scalar.STRING, nullable=operand.nullable, origin=span)
        if name.text not in ids:
            message = f"unknown id `@{name.text}` of `{owner}`"
            findings.add_error("T2", name.span, message, f"it has {join_words(f'@{part}' for part in ids)}")
            return None
        return FieldRef(operand=operand, name=name.text, type=Scalar.STRING, nullable=operand.nullable, origin=span)
    prop = types.get_type(owner).find_property(name.text)
    if prop is None:
        help_ = findings.suggest_closest(name.text, types.get_type(owner).by_name)
        findings.add_error("T2", name.span, f"unknown property `{name.text}` of `{owner}`", help_)
        return None
    note_property(name.span, list_members(owner.name))
    nullable = operand.nullable or prop.nullable
    return FieldRef(operand=operand, name=prop.name, type=prop.type, nullable=nullable, origin=span)
