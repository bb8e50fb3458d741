"""Bind what a value block returns: its value, and what chooses among the values of its matches."""

from dataclasses import dataclass

from omnigraph.lang import query_ast as ast
from omnigraph.lang.printer import format_expr as print_expr
from omnigraph.query.bind_aggregates import ARGUMENT_TYPES
from omnigraph.query.bind_expr import ExprBinder
from omnigraph.query.bind_output import bind_count, build_identities
from omnigraph.query.expr import (
    AggregateFunction,
    Const,
    EdgeRef,
    Entity,
    Expr,
    NodeRef,
    Now,
    ParamRef,
    Rank,
    ShapedType,
    is_foldable,
)
from omnigraph.query.expr_tree import find_foreign
from omnigraph.query.functions import CallContext
from omnigraph.query.logical_plan import Count, OrderTerm, build_identity
from omnigraph.query.scope import ReadNameResolver, Scope
from omnigraph.schema.findings import DiagnosticCollector
from omnigraph.schema.types import Scalar, is_scalar


@dataclass(frozen=True, slots=True, kw_only=True)
class BlockReturn:
    """What a value block returns; without a value, it counts or tests matches."""

    value: Expr | None = None
    distinct: bool = False
    order: tuple[OrderTerm, ...] = ()
    ties: tuple[Expr, ...] = ()
    limit: Count | None = None


def bind_value_block(
    node: ast.Block, scope: Scope, appearance: tuple[str, ...], findings: DiagnosticCollector
) -> BlockReturn | None:
    """Bind the `return` of a block in the scope of its clauses; None if it has an error, which is reported."""
    binder = ExprBinder(ReadNameResolver(scope, findings), findings, scope.lifter)
    before = len(findings)
    if node.value is None:
        if node.kind not in (ast.BlockKind.EXISTS, ast.BlockKind.COUNT):
            message = f"`{node.kind.value} {{ … }}` needs a value"
            findings.add_error("T8", node.span, message, f"write `{node.kind.value} {{ … return value }}`")
            return None
        return BlockReturn()
    # The value is folded like the argument of an aggregate, so it may be a whole node or edge.
    value = binder.bind_value(node.value, CallContext.AGGREGATE)
    if value is None or not _is_valid_value(node, node.value, value, findings):
        return None
    if isinstance(value, Entity) and node.kind is ast.BlockKind.COUNT:
        # Counting tells nodes apart by their ids, so no other column has to be read.
        value = build_identity(value)
    order = [_bind_key(key, node, value, binder) for key in node.order]
    limit = bind_count(node.limit, "limit", scope, findings)
    # An error in one key must not hide those of the others, so all are bound before this returns.
    if len(findings) > before:
        return None
    if node.kind is ast.BlockKind.EXISTS:
        # Whether there is a match does not depend on what it returns.
        return BlockReturn()
    return BlockReturn(
        value=value,
        distinct=node.distinct,
        order=tuple(key for key in order if key is not None),
        ties=_build_ties(node, value, scope, appearance),
        limit=limit,
    )


def _is_valid_value(node: ast.Block, written: ast.Expr, value: Expr, findings: DiagnosticCollector) -> bool:
    text = print_expr(written)
    if isinstance(value, Rank):
        findings.add_error("T18", written.span, "a rank function can't be the value of a block")
        return False
    type_ = value.type
    is_entity = isinstance(type_, NodeRef | EdgeRef)
    if node.distinct and not is_entity and (isinstance(type_, ShapedType) or not is_scalar(type_)):
        message = f"`{text}` is {type_}, which can't be compared, so it can't be used with `distinct`"
        findings.add_error("T8", written.span, message)
        return False
    if node.kind in (ast.BlockKind.EXISTS, ast.BlockKind.COUNT) or (
        node.kind is ast.BlockKind.COLLECT and type_ is not Scalar.BLOB
    ):
        return True
    if node.kind is ast.BlockKind.COLLECT:
        findings.add_error("T8", written.span, f"`{text}` is {type_}, and there are no lists of it")
        return False
    fold = AggregateFunction(node.kind.value)
    if is_entity or not is_foldable(fold, type_):
        what = f"a whole `{type_}`" if is_entity else str(type_)
        message = f"`{node.kind.value}` needs {ARGUMENT_TYPES[fold]}, but `{text}` is {what}"
        findings.add_error("T8", written.span, message, f"name a property: `{text}.property`" if is_entity else None)
        return False
    return True


def _bind_key(node: ast.OrderKey, block: ast.Block, value: Expr, binder: ExprBinder) -> OrderTerm | None:
    key = binder.bind_value(node.value, CallContext.OPERAND)
    if key is None:
        return None
    text = print_expr(node.value)
    report = binder.findings.add_error
    if isinstance(key, Entity):
        help_ = f"order by a property, or by its id: `${key.variable}.@id`"
        report("T7", node.value.span, f"`{text}` is a whole `{key.type}`, which has no order", help_)
    elif isinstance(key, Const | ParamRef | Now):
        report("T7", node.value.span, f"`{text}` is the same for all matches, so it orders nothing", "name a property")
    elif isinstance(key.type, ShapedType) or not is_scalar(key.type):
        report("T7", node.value.span, f"`{text}` is {key.type}, which has no order")
    elif block.distinct and find_foreign(key, _list_known(value)) is not None:
        message = f"`{text}` is not the value, so equal values could have several of it"
        report("T9", node.value.span, message, "order by the value, or drop `distinct`")
    else:
        return OrderTerm(value=key, descending=bool(node.descending))
    return None


def _list_known(value: Expr) -> set[Expr]:
    return {value, build_identity(value)} if isinstance(value, Entity) else {value}


def _build_ties(node: ast.Block, value: Expr, scope: Scope, appearance: tuple[str, ...]) -> tuple[Expr, ...]:
    # Equal values are one, so they decide alone; else matches differ in the ids of their variables.
    if not node.distinct:
        return tuple(build_identities(appearance, scope, node.span))
    if isinstance(value, Const | ParamRef | Now):
        # There is a single value, so there is nothing to order.
        return ()
    return (build_identity(value) if isinstance(value, Entity) else value,)
