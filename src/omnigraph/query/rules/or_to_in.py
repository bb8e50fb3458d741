"""Rewrite `a = 1 or a = 2 or a in [3]` to `a in [1, 2, 3]`: one index lookup. Exact in three-valued logic."""

from dataclasses import dataclass

from omnigraph.query.expr import Compare, Const, Expr, In, Op, Or
from omnigraph.query.expr_tree import map_children
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
    """Return the predicate with the equalities and memberships of one subject in each `or` merged into one membership.

    Only literals of one type are merged: a literal list can't contain a parameter.
    """
    expr = map_children(expr, merge_equalities)
    if not isinstance(expr, Or):
        return expr
    groups: dict[tuple[Expr, Scalar], list[_ValueMembership]] = {}
    memberships = [_find_membership(term) for term in expr.terms]
    for membership in memberships:
        if membership is not None:
            groups.setdefault((membership.subject, membership.type), []).append(membership)
    terms: list[Expr] = []
    for term, membership in zip(expr.terms, memberships, strict=True):
        group = [] if membership is None else groups[membership.subject, membership.type]
        if len(group) < 2:
            terms.append(term)
        # The merged term replaces the first of its group; the others are dropped.
        elif membership is group[0]:
            terms.append(_merge_memberships(group, expr))
    return join_terms(expr, terms)


def _merge_memberships(group: list[_ValueMembership], origin: Or) -> In:
    values = tuple(dict.fromkeys(value for membership in group for value in membership.values))
    collection = Const(value=values, type=ListOf(group[0].type), origin=origin.origin)
    return In(element=group[0].subject, collection=collection, origin=origin.origin)


def _find_membership(term: Expr) -> _ValueMembership | None:
    match term:
        case Compare(op=Op.EQ, left=subject, right=Const(value=value, type=Scalar() | EnumOf() as type_)):
            if value is None or isinstance(subject, Const):
                return None
            # List types have scalar elements; the values of an enum are strings.
            return _ValueMembership(subject, Scalar.STRING if isinstance(type_, EnumOf) else type_, (value,))
        case In(element=subject, collection=Const(value=tuple(values), type=ListOf(element=type_))):
            return None if isinstance(subject, Const) else _ValueMembership(subject, type_, values)
        case _:
            return None
