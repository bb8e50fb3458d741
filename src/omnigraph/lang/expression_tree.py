"""Walk the syntax trees of expressions and clauses."""

from collections.abc import Iterable, Iterator
from typing import assert_never

from omnigraph.lang import query_ast as ast


def list_children(expr: ast.Expr) -> tuple[ast.Expr, ...]:
    """Return the direct operands and arguments of an expression, in source order.

    The children of a block are its value, its order keys and its limit: they see the variables of its clauses. The
    expressions inside the clauses are not among them; `list_clause_expressions` has those. The children of a call
    include its filter, its order and its window.
    """
    match expr:
        case ast.Variable() | ast.PropertyRef() | ast.BareName() | ast.Star() | ast.LiteralExpr():
            return ()
        case ast.AllProperties():
            return (expr.variable,)
        case ast.Call():
            return _list_call_parts(expr)
        case ast.Arithmetic() | ast.Compare():
            return (expr.left, expr.right)
        case ast.Negate() | ast.IsNull() | ast.Field():
            return (expr.operand,)
        case ast.Index():
            return (expr.operand, expr.index)
        case ast.ListExpr():
            return expr.items
        case ast.Record():
            return tuple(item.value for item in expr.items)
        case ast.Case():
            parts = tuple(part for branch in expr.branches for part in (branch.condition, branch.value))
            return parts if expr.otherwise is None else (*parts, expr.otherwise)
        case ast.Block():
            return _list_present(expr.value, *_list_key_values(expr.order), expr.limit)
        case ast.Not():
            return (expr.term,)
        case ast.And() | ast.Or():
            return expr.terms
        case _:
            assert_never(expr)


def _list_call_parts(call: ast.Call) -> tuple[ast.Expr, ...]:
    options = (value for _, value in call.options)
    parts = _list_present(*call.arguments, *options, call.where, *_list_key_values(call.order), call.limit)
    if call.window is None:
        return parts
    return (*parts, *call.window.per, *_list_key_values(call.window.order))


def _list_key_values(keys: Iterable[ast.OrderKey]) -> tuple[ast.Expr, ...]:
    return tuple(key.value for key in keys)


def _list_present(*parts: ast.Expr | None) -> tuple[ast.Expr, ...]:
    return tuple(part for part in parts if part is not None)


def walk(expr: ast.Expr) -> Iterator[ast.Expr]:
    """Yield the expression and all its descendants in pre-order, left to right; see `list_children` for blocks."""
    stack = [expr]
    while stack:
        part = stack.pop()
        yield part
        stack.extend(reversed(list_children(part)))


def list_clause_expressions(clause: ast.Clause) -> tuple[ast.Expr, ...]:
    """Return the expressions that stand directly in a clause, in source order; those of inner clauses are not."""
    match clause:
        case ast.Binding():
            return tuple(each.value for each in clause.filters)
        case ast.TraversalClause():
            return (*clause.along, *clause.through)
        case ast.PathClause():
            return _list_present(*clause.hop.along, *clause.hop.through, clause.weight)
        case ast.Where():
            return (clause.predicate,)
        case ast.Let() | ast.Each():
            return (clause.value,)
        case ast.NotBlock() | ast.OptionalBlock() | ast.Either():
            return ()
        case _:
            assert_never(clause)


def list_inner_clauses(clause: ast.Clause) -> tuple[ast.Clause, ...]:
    """Return the clauses directly inside a clause that is a block; the alternatives of an `either` in order."""
    match clause:
        case ast.NotBlock() | ast.OptionalBlock():
            return clause.clauses
        case ast.Either():
            return tuple(inner for alternative in clause.alternatives for inner in alternative)
        case _:
            return ()


def walk_deep(expr: ast.Expr) -> Iterator[ast.Expr]:
    """Yield the expression and all its descendants, those in the clauses of blocks included."""
    for part in walk(expr):
        yield part
        if isinstance(part, ast.Block):
            yield from walk_clauses(part.clauses)


def walk_clauses(clauses: Iterable[ast.Clause]) -> Iterator[ast.Expr]:
    """Yield all expressions of clauses, of the clauses inside them, and of blocks in their expressions."""
    for clause in clauses:
        for expr in list_clause_expressions(clause):
            yield from walk_deep(expr)
        yield from walk_clauses(list_inner_clauses(clause))
