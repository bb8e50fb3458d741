"""Evaluate the conditions of a join: the values of each side are read once for each of its rows, not for each pair."""

from collections.abc import Mapping

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.engine.bindings import Bindings
from omnigraph.engine.execution_context import ExecutionContext
from omnigraph.engine.operators.filter import BindingValues
from omnigraph.engine.operators.join import ComparedKeys, MemberKeys, match_alternatives, match_keys
from omnigraph.engine.operators.join_matches import JoinMatches
from omnigraph.engine.operators.rank_index import estimate_index_bytes
from omnigraph.engine.physical_plan import Join, JoinAlternatives, JoinComparison, JoinMembership, Membership
from omnigraph.engine.predicate_eval import as_shared, evaluate_over, find_shared_type
from omnigraph.query.expr import Expr, Identity, MetaColumn, Op, ShapedType
from omnigraph.schema.arrow import to_arrow_type
from omnigraph.schema.types import ListOf, Scalar, ValueType
from omnigraph.storage.arrow_buffers import build_array
from omnigraph.storage.columnar_sets import concat_chunks

# Codes, orders and places of runs while keys are matched: about this many bytes for a key of either side.
_BYTES_PER_KEY = 64


def match_join(step: Join, left: Bindings, right: Bindings, context: ExecutionContext) -> JoinMatches:
    """Return which rows of the two sides a join pairs."""
    evaluator = _KeyEvaluator(left, right, dict(step.types), context)
    sizes = left.size, right.size
    budget = context.budget
    alternatives: list[ComparedKeys] = []
    comparisons: list[ComparedKeys] = []
    member: MemberKeys | None = None
    for condition in step.conditions:
        match condition:
            case JoinComparison():
                comparisons.append(evaluator.evaluate_comparison(condition))
            case JoinMembership():
                member = evaluator.evaluate_membership(condition)
            case JoinAlternatives(terms):
                alternatives = [evaluator.evaluate_comparison(term) for term in terms]
    keys = sum(sizes) if member is None else len(member.whole) + len(member.part)
    nbytes = _BYTES_PER_KEY * keys * max(len(alternatives), 1)
    if sum(each.op is not Op.EQ for each in comparisons) > 1:
        nbytes += estimate_index_bytes(right.size)
    budget.claim(nbytes, "matching two parts of the pattern")
    matches: JoinMatches
    if alternatives:
        matches = match_alternatives(alternatives, sizes, budget.check)
    else:
        matches = match_keys(comparisons, member, sizes, budget.check)
    budget.release(nbytes)
    return matches


class _KeyEvaluator:
    """Reads the values that the conditions of a join compare."""

    def __init__(self, left: Bindings, right: Bindings, types: Mapping[str, str], context: ExecutionContext) -> None:
        self._sides = left, right
        self._types = types
        self._context = context

    def evaluate_comparison(self, condition: JoinComparison) -> ComparedKeys:
        """Return the values of both sides, in the type that they share."""
        left, right = condition.left, condition.right
        if condition.op in (Op.EQ, Op.NE) and self._is_same_type(left, right):
            # Ids of the same type are equal if the positions are, and positions need not be read from a table.
            return ComparedKeys(self._get_positions(left, 0), condition.op, self._get_positions(right, 1))
        return ComparedKeys(
            _share(self._evaluate(left, 0), _get_type(left), _get_type(right)),
            condition.op,
            _share(self._evaluate(right, 1), _get_type(right), _get_type(left)),
        )

    def evaluate_membership(self, condition: JoinMembership) -> MemberKeys:
        """Return lists or texts of one side, and elements or parts of the other."""
        sides = (self._evaluate(condition.left, 0), self._evaluate(condition.right, 1))
        exprs = (condition.left, condition.right)
        whole, part = sides if condition.is_whole_left else sides[::-1]
        whole_expr, part_expr = exprs if condition.is_whole_left else exprs[::-1]
        if condition.kind is not Membership.ELEMENT:
            whole, part = (side.cast(to_arrow_type(Scalar.STRING)) for side in (whole, part))
            return MemberKeys(whole, condition.kind, part, condition.is_whole_left)
        lists_type = whole_expr.type
        assert isinstance(lists_type, ListOf)  # noqa: S101 - the planner checks it
        elements = _share(whole.flatten(), lists_type.element, _get_type(part_expr))
        rows = np.asarray(pc.list_parent_indices(whole))
        part = _share(part, _get_type(part_expr), lists_type.element)
        return MemberKeys(elements, condition.kind, part, condition.is_whole_left, rows)

    def _is_same_type(self, left: Expr, right: Expr) -> bool:
        match left, right:
            case Identity(part=MetaColumn.ID), Identity(part=MetaColumn.ID):
                return self._types[left.variable] == self._types[right.variable]
            case _:
                return False

    def _get_positions(self, expr: Expr, side: int) -> pa.Array:
        assert isinstance(expr, Identity)  # noqa: S101 - callers check it
        at = self._sides[side].columns[expr.variable].astype(np.int64, copy=False)
        # A missing row has no id, so it equals nothing.
        return pa.array(at, mask=at < 0) if expr.nullable else build_array(at)

    def _evaluate(self, expr: Expr, side: int) -> pa.Array:
        bindings = self._sides[side]
        values = BindingValues(bindings.columns, bindings.size, self._types, self._context)
        return concat_chunks(evaluate_over(expr, values, self._context.inputs))


def _share(values: pa.Array, type_: ValueType, other: ValueType) -> pa.Array:
    """Return values in the type that represents those of both types exactly."""
    keys = as_shared(values, type_, other)
    shared = find_shared_type(type_, other)
    return keys if keys.type == shared else keys.cast(shared)  # `as_shared` does not cast large strings


def _get_type(expr: Expr) -> ValueType:
    type_ = expr.type
    assert not isinstance(type_, ShapedType)  # noqa: S101 - a join compares values
    return type_
