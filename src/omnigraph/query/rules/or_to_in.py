"""`a = 1 or a = 2 or a in [3]` becomes `a in [1, 2, 3]`: one look into an index. Exact in three-valued logic."""

from dataclasses import dataclass

from omnigraph.query.expr import Compare, Const, Expr, In, Op, Or, map_children
from omnigraph.query.rules.constant_folding import join_terms
from omnigraph.schema.catalog import Value
from omnigraph.schema.types import EnumOf, ListOf, Scalar


@dataclass(frozen=True, slots=True)
class _ValueMembership:
    """`subject` is one of `values`, all of one type."""

    subject: Expr
    type: Scalar
    values: tuple[Value, ...]


def merge_equalities(expr: Expr) -> Expr:
    """The predicate with the equalities and memberships of each `or` over one subject merged into one membership.

    Only literals merge, and only those of one type; a parameter is no member of a literal list.
    """
    expr = map_children(expr, merge_equalities)
    if not isinstance(expr, Or):
        return expr
    groups: dict[tuple[Expr, Scalar], list[_ValueMembership]] = {}
    choices = {place: choice for place, term in enumerate(expr.terms) if (choice := _find_membership(term)) is not None}
    for choice in choices.values():
        groups.setdefault((choice.subject, choice.type), []).append(choice)
    terms: list[Expr] = []
    for place, term in enumerate(expr.terms):
        group = groups.get((choices[place].subject, choices[place].type), []) if place in choices else []
        if len(group) < 2:
            terms.append(term)
        elif choices[place] is group[0]:
            terms.append(_merge_memberships(group, expr))
    return join_terms(expr, terms)


def _merge_memberships(group: list[_ValueMembership], origin: Or) -> In:
    values = tuple(dict.fromkeys(value for choice in group for value in choice.values))
    collection = Const(value=values, type=ListOf(group[0].type), origin=origin.origin)
    return In(element=group[0].subject, collection=collection, origin=origin.origin)


def _find_membership(term: Expr) -> _ValueMembership | None:
    match term:
        case Compare(op=Op.EQ, left=subject, right=Const(value=value, type=Scalar() | EnumOf() as type_)):
            if value is None or isinstance(subject, Const):
                return None
            return _ValueMembership(subject, Scalar.STRING if isinstance(type_, EnumOf) else type_, (value,))
        case In(element=subject, collection=Const(value=tuple(values), type=ListOf(element=type_))):
            return None if isinstance(subject, Const) else _ValueMembership(subject, type_, values)
        case _:
            return None
