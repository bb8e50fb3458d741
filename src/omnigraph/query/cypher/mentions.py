"""What an expression of a statement mentions: variables and aggregates."""

from collections.abc import Iterator
from dataclasses import fields, is_dataclass

from omnigraph.lang.cypher import tree
from omnigraph.query.cypher.aggregates import is_aggregate


def has_aggregate(expr: object) -> bool:
    """Return whether an expression folds rows."""
    return any(map(is_folding, walk(expr)))


def is_folding(part: object) -> bool:
    """Return whether a part of a tree is an aggregate."""
    return isinstance(part, tree.CountStar) or (isinstance(part, tree.Call) and is_aggregate(part.function.text))


def list_names(expr: object) -> list[str]:
    """Return the names of all variables that stand in an expression, also those that it binds itself."""
    names: list[str] = []
    for part in walk(expr):
        if isinstance(part, tree.Variable):
            names.append(part.name)
        elif isinstance(part, tree.NodePattern | tree.RelationshipPattern) and part.variable is not None:
            names.append(part.variable.text)
    return names


def walk(part: object) -> Iterator[object]:
    """Yield all parts of a tree, without recursion: statements may be deep."""
    waiting = [part]
    while waiting:
        each = waiting.pop()
        yield each
        if isinstance(each, tuple):
            waiting += reversed(each)
        elif is_dataclass(each):
            waiting += [getattr(each, field.name) for field in reversed(fields(each))]
