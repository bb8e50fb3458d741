"""Walk the syntax trees of expressions."""

from collections.abc import Iterator
from typing import assert_never

from omnigraph.lang import query_ast as ast


def list_children(expr: ast.Expr) -> tuple[ast.Expr, ...]:
    """Return the direct operands and arguments of an expression, in source order."""
    match expr:
        case ast.Variable() | ast.PropertyRef() | ast.BareName() | ast.Star() | ast.LiteralExpr():
            return ()
        case ast.Call():
            return (*expr.arguments, *(value for _, value in expr.options))
        case ast.Arithmetic() | ast.Compare():
            return (expr.left, expr.right)
        case ast.Negate() | ast.IsNull():
            return (expr.operand,)
        case ast.Index():
            return (expr.operand, expr.index)
        case ast.ListExpr():
            return expr.items
        case ast.Case():
            parts = tuple(part for branch in expr.branches for part in (branch.condition, branch.value))
            return parts if expr.otherwise is None else (*parts, expr.otherwise)
        case ast.Not():
            return (expr.term,)
        case ast.And() | ast.Or():
            return expr.terms
        case _:
            assert_never(expr)


def walk(expr: ast.Expr) -> Iterator[ast.Expr]:
    """Yield the expression and all its descendants in pre-order, left to right."""
    stack = [expr]
    while stack:
        part = stack.pop()
        yield part
        stack.extend(reversed(list_children(part)))
