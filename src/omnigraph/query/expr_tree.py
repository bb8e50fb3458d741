"""Walk and rebuild typed expressions."""

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import replace
from typing import assert_never

from omnigraph.query.expr import (
    Aggregate,
    And,
    Bm25,
    Case,
    Compare,
    Computed,
    Const,
    Contains,
    Distance,
    Entity,
    Expr,
    FieldRef,
    FuzzyScore,
    Identity,
    In,
    IsNull,
    Missing,
    Mmr,
    Nearest,
    Not,
    Now,
    Or,
    OrderTerm,
    ParamRef,
    Prop,
    Rank,
    RecordExpr,
    RecordsParam,
    Rerank,
    Rrf,
    SearchValue,
    Snippet,
    StartsWith,
    TextMatch,
    United,
    ValueRef,
    Window,
)

# Most parts of an expression are leaves, and a look at their class is four times as fast as the patterns below: a read
# of one row by its key walks some 40 parts.
_LEAVES = frozenset({Const, Missing, ParamRef, RecordsParam, Now, Prop, Identity, ValueRef})


def list_children(expr: Expr) -> tuple[Expr, ...]:
    """Return the direct children of an expression, in the order in which they are written."""
    if type(expr) in _LEAVES:
        return ()
    match expr:
        case Const() | Missing() | ParamRef() | RecordsParam() | Now() | Prop() | Identity() | ValueRef():
            return ()
        case Entity():
            return expr.fields
        case Compare():
            return (expr.left, expr.right)
        case In():
            return (expr.element, expr.collection)
        case Contains():
            return (expr.text, expr.part)
        case StartsWith():
            return (expr.text, expr.prefix)
        case IsNull():
            return (expr.operand,)
        case Not():
            return (expr.term,)
        case And() | Or():
            return expr.terms
        case TextMatch():
            return (expr.prop, expr.query) if expr.edits is None else (expr.prop, expr.query, expr.edits)
        case _:
            # Split in two, since one function for all classes would be too long to read.
            return _list_arguments(expr)


def _list_arguments(
    expr: Computed | Case | RecordExpr | FieldRef | United | SearchValue | Aggregate | Window,
) -> tuple[Expr, ...]:
    match expr:
        case Computed():
            return expr.arguments
        case Case():
            # Each condition before its value, as they are written.
            return (*(part for branch in expr.branches for part in branch), expr.otherwise)
        case RecordExpr():
            return tuple(value for _, value in expr.items)
        case FieldRef() | United():
            return (expr.operand,)
        case Nearest() | Bm25() | Snippet():
            return (expr.prop, expr.query)
        case FuzzyScore():
            return (expr.match,)
        case Distance():
            return (expr.left, expr.right)
        case Rrf():
            return (*expr.ranks, expr.k)
        case Mmr():
            return (expr.rank, expr.prop)
        case Rerank():
            return (expr.rank, expr.prop, expr.query)
        case Aggregate() | Window():
            return expr.children
        case _:
            assert_never(expr)


def find_variable(rank: Rank) -> str:
    """Return the variable whose rows a rank orders."""
    return rank.first.prop.variable if isinstance(rank, Rrf) else rank.prop.variable


def map_children(expr: Expr, change: Callable[[Expr], Expr]) -> Expr:
    """Return the expression with `change` applied to the children that may be any expression.

    The children of a search or rank and the fields of an object are unchanged: their classes are fixed.
    """
    match expr:
        case Compare() | Distance():
            return replace(expr, left=change(expr.left), right=change(expr.right))
        case In():
            return replace(expr, element=change(expr.element), collection=change(expr.collection))
        case Contains():
            return replace(expr, text=change(expr.text), part=change(expr.part))
        case StartsWith():
            return replace(expr, text=change(expr.text), prefix=change(expr.prefix))
        case IsNull():
            return replace(expr, operand=change(expr.operand))
        case Not():
            return replace(expr, term=change(expr.term))
        case And() | Or():
            return replace(expr, terms=tuple(change(term) for term in expr.terms))
        case Aggregate():
            return _map_aggregate(expr, change)
        case Window():
            return _map_window(expr, change)
        case Computed():
            return replace(expr, arguments=tuple(change(argument) for argument in expr.arguments))
        case RecordExpr():
            return replace(expr, items=tuple((name, change(value)) for name, value in expr.items))
        case FieldRef() | United():
            return replace(expr, operand=change(expr.operand))
        case Case():
            branches = tuple((change(condition), change(value)) for condition, value in expr.branches)
            return replace(expr, branches=branches, otherwise=change(expr.otherwise))
        case _:
            return expr


def _map_aggregate(expr: Aggregate, change: Callable[[Expr], Expr]) -> Aggregate:
    return replace(
        expr,
        argument=None if expr.argument is None else change(expr.argument),
        where=None if expr.where is None else change(expr.where),
        order=_map_order(expr.order, change),
        ties=tuple(map(change, expr.ties)),
    )


def _map_window(expr: Window, change: Callable[[Expr], Expr]) -> Window:
    return replace(
        expr,
        aggregate=None if expr.aggregate is None else _map_aggregate(expr.aggregate, change),
        argument=None if expr.argument is None else change(expr.argument),
        per=tuple(map(change, expr.per)),
        order=_map_order(expr.order, change),
        ties=tuple(map(change, expr.ties)),
    )


def _map_order(order: tuple[OrderTerm, ...], change: Callable[[Expr], Expr]) -> tuple[OrderTerm, ...]:
    return tuple(replace(term, value=change(term.value)) for term in order)


def walk(expr: Expr) -> Iterator[Expr]:
    """Yield the expression and all its descendants in pre-order, left to right."""
    if type(expr) in _LEAVES:
        yield expr
        return
    # A stack instead of recursion: the last child is pushed first, so that the first one is visited next.
    stack = [expr]
    while stack:
        part = stack.pop()
        yield part
        stack.extend(reversed(list_children(part)))


def find_variables(expr: Expr) -> tuple[str, ...]:
    """Return the variables that an expression reads, without duplicates, in order of appearance."""
    reads = (part.variable for part in walk(expr) if isinstance(part, Prop | Identity | ValueRef | Entity))
    return tuple(dict.fromkeys(reads))


def find_properties(expr: Expr) -> tuple[tuple[str, str], ...]:
    """Return the (variable, property) pairs that an expression reads, without duplicates, in order; ids are omitted."""
    return tuple(dict.fromkeys((part.variable, part.name) for part in walk(expr) if isinstance(part, Prop)))


def split_conjuncts(expr: Expr) -> tuple[Expr, ...]:
    """Return the conjuncts of a predicate: the terms of its `and`, however it is nested."""
    stack = [expr]
    conjuncts: list[Expr] = []
    while stack:
        part = stack.pop()
        if isinstance(part, And):
            stack.extend(reversed(part.terms))
        else:
            conjuncts.append(part)
    return tuple(conjuncts)


def build_conjunction(terms: Sequence[Expr]) -> Expr:
    """Return the conjunction of one or more terms."""
    return terms[0] if len(terms) == 1 else And(terms=tuple(terms), origin=terms[0].origin)


def find_aggregates(expr: Expr) -> tuple[Aggregate, ...]:
    """Return the aggregates in an expression, without duplicates, in order."""
    return tuple(dict.fromkeys(part for part in walk(expr) if isinstance(part, Aggregate)))


def find_windows(expr: Expr) -> tuple[Window, ...]:
    """Return the window functions in an expression, without duplicates, in order."""
    return tuple(dict.fromkeys(part for part in walk(expr) if isinstance(part, Window)))


def find_foreign(expr: Expr, known: Collection[Expr]) -> Expr | None:
    """Return the first value of a row in an expression that is no part of a `known` expression; None if there is none.

    An expression without one is decided by the known ones: it has one value for each combination of theirs.
    """
    # The properties of a whole node or edge follow from it.
    wholes = {part.variable for part in known if isinstance(part, Entity)}
    stack = [expr]
    while stack:
        part = stack.pop()
        if part in known or isinstance(part, Const | Missing | ParamRef | RecordsParam | Now):
            continue
        if isinstance(part, Prop | Identity) and part.variable in wholes:
            continue
        children = list_children(part)
        if isinstance(part, RecordExpr) and not children:
            continue
        if not children or isinstance(part, Entity | Aggregate | Window | Rank | TextMatch | Snippet | FuzzyScore):
            return part
        stack.extend(reversed(children))
    return None
