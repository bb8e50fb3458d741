"""Aggregates whose values a comprehension, a quantifier or a `reduce` goes through: a clause before folds them."""

from dataclasses import fields, is_dataclass, replace
from typing import Final, TypeVar

from omnigraph.lang.cypher import tree
from omnigraph.lang.literals import Name
from omnigraph.query.cypher.mentions import has_aggregate, is_folding, walk

T = TypeVar("T")
_GOING_THROUGH: Final = (tree.ListComprehension, tree.Quantifier, tree.Reduce)


def fold_before(projection: tree.Projection) -> tuple[tree.With, tree.Projection] | None:
    """Return a projection as two: groups and aggregates, then what is calculated of them; None if one will do."""
    items = [item for item in projection.items if has_aggregate(item.value)]
    sources = (part.source for item in items for part in walk(item.value) if isinstance(part, _GOING_THROUGH))
    if not any(map(has_aggregate, sources)) or projection.star:
        return None
    names: dict[tree.Expr, Name] = {}
    for item in projection.items:
        if item not in items:
            is_variable = isinstance(item.value, tree.Variable)
            name = item.value.name if isinstance(item.value, tree.Variable) and is_variable else f"#key{len(names)}"
            names.setdefault(item.value, Name(name, item.span))
    for item in items:
        for part in _list_folds(item.value):
            names.setdefault(part, Name(f"#fold{len(names)}", part.span))
    span = projection.span
    first = tuple(
        tree.ProjectionItem(value=value, alias=name, text=name.text, span=value.span) for value, name in names.items()
    )
    variables: dict[object, tree.Expr] = {
        value: tree.Variable(name=name.text, span=value.span) for value, name in names.items()
    }
    second = tuple(
        replace(item, value=substitute(item.value, variables), alias=Name(item.name, item.span))
        for item in projection.items
    )
    before = tree.With(projection=tree.Projection(items=first, span=span), where=None, span=span)
    return before, replace(projection, items=second, order=substitute(projection.order, variables))


def list_unfolded(expr: tree.Expr) -> list[tree.Variable | tree.Property]:
    """Return the variables, and properties of variables, that an expression reads beside its aggregates."""
    unfolded: list[tree.Variable | tree.Property] = []
    waiting: list[object] = [expr]
    while waiting:
        part = waiting.pop()
        if is_folding(part):
            continue
        if isinstance(part, tree.Variable) or (
            isinstance(part, tree.Property) and isinstance(part.operand, tree.Variable)
        ):
            unfolded.append(part)
        else:
            waiting += _list_parts(part)
    return unfolded


def _list_folds(expr: tree.Expr) -> list[tree.Call | tree.CountStar]:
    """Return the aggregates of an expression, in the order in which they are written."""
    return [part for part in walk(expr) if isinstance(part, tree.Call | tree.CountStar) and is_folding(part)]


def substitute(part: T, variables: dict[object, tree.Expr]) -> T:
    """Return a tree in which some parts are variables."""
    if isinstance(part, tuple):
        return tuple(substitute(each, variables) for each in part)  # type: ignore[return-value]
    if not is_dataclass(part) or isinstance(part, type):
        return part
    if part in variables:
        return variables[part]  # type: ignore[return-value]
    changed = {field.name: substitute(getattr(part, field.name), variables) for field in fields(part) if field.init}
    return replace(part, **changed)


def _list_parts(part: object) -> list[object]:
    if isinstance(part, tuple):
        return list(part)
    return [getattr(part, field.name) for field in fields(part)] if is_dataclass(part) else []
