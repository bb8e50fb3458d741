"""Lower what binds a variable to a value: blocks that fold their matches, and elements of lists."""

from collections.abc import Mapping
from dataclasses import replace

from omnigraph.engine.physical_plan import BindValue, Unnest
from omnigraph.engine.relational.delegates import is_plain_type
from omnigraph.engine.relational.dialect import UnsupportedForm
from omnigraph.engine.relational.expressions import can_overflow
from omnigraph.engine.relational.lower_state import LoweringState, ValueColumn, has_one_form
from omnigraph.engine.relational.tree import (
    MULTIPLICITY,
    BlockFold,
    ColumnTerm,
    DefaultTerm,
    Distinct,
    ExprTerm,
    GroupRows,
    JoinKind,
    JoinRows,
    ListOfValues,
    Measure,
    NumberTerm,
    OrderRows,
    Project,
    Relation,
    SortTerm,
    Term,
    UnnestRows,
    name_overflow,
    name_value,
)
from omnigraph.lang.query_ast import BlockKind
from omnigraph.query.expr import Aggregate, AggregateFunction, Const, Entity, Expr
from omnigraph.query.format_expr import format_expr
from omnigraph.query.logical_plan import ValueBlock, build_identity
from omnigraph.schema.types import EnumOf, ListOf, Scalar

# The value of a match, and the values that matches are sorted by.
_MATCH_VALUE = "#value"
# The values of blocks without matches; the others are null then.
_DEFAULTS: Mapping[BlockKind, bool | int | tuple[str, ...]] = {
    BlockKind.EXISTS: False,
    BlockKind.COUNT: 0,
    BlockKind.COLLECT: (),
}


def is_test_alone(block: ValueBlock) -> bool:
    """Return whether equal matches of a block need not be counted: they fold to the same value as one of them."""
    is_same = block.kind in (BlockKind.MIN, BlockKind.MAX) and block.limit is None
    return block.distinct or block.kind is BlockKind.EXISTS or is_same


def bind_block(state: LoweringState, step: BindValue, inner: LoweringState) -> None:
    """Bind a variable to the value of a block, whose matches for each combination of outer values are `inner`.

    Raises:
        UnsupportedForm: The value has no relational form.
    """
    block = step.block
    if block.keeps_nulls:
        raise UnsupportedForm("a list that keeps nulls")
    columns = state.list_shared(step.shared)
    for expr in block.exprs:
        _check_plain(inner, expr, block)
    measures, relation = _fold_matches(block, inner, columns)
    # Combinations without a match have no group. The left join keeps them; null equals null in it as it does in groups,
    # because an outer value may be null.
    folded = GroupRows(input=relation, keys=columns, measures=measures)
    joined = JoinRows(
        kind=JoinKind.LEFT,
        left=state.relation,
        right=folded,
        equal=tuple((name, name) for name in columns),
        is_null_equal=True,
    )
    value = name_value(block.variable)
    default = _build_default(block)
    # A sum has no default: one that overflowed is null too, and must stay so beside its mark.
    if default.value is None:
        state.relation = joined
    else:
        items: list[tuple[str, Term]] = [
            (name, DefaultTerm(name, default) if name == value else ColumnTerm(name)) for name in joined.names
        ]
        state.relation = Project(input=joined, items=tuple(items))
    overflow = format_expr(block.aggregate) if len(measures) > 1 else None
    has_one_zero = block.kind in (BlockKind.MIN, BlockKind.MAX)
    state.bind_value(block.variable, ValueColumn(block.type, overflow, has_one_zero=has_one_zero))


def bind_default(state: LoweringState, block: ValueBlock) -> None:
    """Bind a variable to the value of a block that has no match at all."""
    items: list[tuple[str, Term]] = [(name, ColumnTerm(name)) for name in state.relation.names]
    items.append((name_value(block.variable), ExprTerm(_build_default(block))))
    state.relation = Project(input=state.relation, items=tuple(items))
    state.bind_value(block.variable, ValueColumn(block.type, has_one_zero=True))


def _build_default(block: ValueBlock) -> Const:
    """Return the value of a block for a combination without matches."""
    type_ = block.type
    if not isinstance(type_, Scalar | EnumOf | ListOf):
        raise UnsupportedForm("`collect` of whole nodes or edges")
    return Const(value=_DEFAULTS.get(block.kind), type=type_, origin=block.origin)


def _check_plain(inner: LoweringState, expr: Expr, block: ValueBlock) -> None:
    if can_overflow(expr):
        # In memory, only the value that is folded is unknown, and it is an error where it is shown.
        raise UnsupportedForm("a value block over a calculation that may overflow")
    if not isinstance(expr.type, Scalar | EnumOf) and not isinstance(expr, Entity):
        is_counted = block.kind is BlockKind.COUNT and (has_one_form(expr.type) or not block.distinct)
        if not is_counted or not is_plain_type(expr.type):
            raise UnsupportedForm(f"a value block over {expr.type}")
    if expr.type is Scalar.BLOB:
        raise UnsupportedForm("a value block over blobs")
    inner.host.check_expr(_to_value(expr))
    inner.require_values(expr)


def _to_value(expr: Expr) -> Expr:
    return build_identity(expr) if isinstance(expr, Entity) else expr


def _fold_matches(
    block: ValueBlock, inner: LoweringState, columns: tuple[str, ...]
) -> tuple[tuple[tuple[str, Measure], ...], Relation]:
    """Return the measures that fold the matches of each combination, and the relation that they fold."""
    name = name_value(block.variable)
    if block.kind is BlockKind.EXISTS:
        true = Const(value=True, type=Scalar.BOOL, origin=block.origin)
        items: tuple[tuple[str, Term], ...] = tuple((each, ColumnTerm(each)) for each in columns)
        marked = Project(input=inner.relation, items=(*items, (_MATCH_VALUE, ExprTerm(true))))
        # A group exists only if there was a match, so `any` of a constant tells it; the others get the default.
        fold = Aggregate(fold=AggregateFunction.ANY, argument=true, origin=block.origin)
        return ((name, BlockFold(aggregate=fold, column=_MATCH_VALUE)),), marked
    relation, order = _choose_matches(block, inner, columns)
    if block.kind is BlockKind.COLLECT:
        collect = Aggregate(
            fold=AggregateFunction.COLLECT,
            argument=block.value,
            order=block.order,
            ties=block.ties,
            origin=block.origin,
        )
        return ((name, ListOfValues(aggregate=collect, column=_MATCH_VALUE, order=order)),), relation
    multiplicity = MULTIPLICITY if MULTIPLICITY in relation.names else None
    column = None if block.value is None else _MATCH_VALUE
    fold_value = BlockFold(aggregate=block.aggregate, column=column, multiplicity=multiplicity)
    if block.kind is BlockKind.SUM and block.aggregate.type is Scalar.I64:
        # SQL has no value for an overflow: the sum becomes null, and this column tells it from a sum of nothing.
        overflow = (name_overflow(block.variable), replace(fold_value, is_overflow=True))
        return ((name, fold_value), overflow), relation
    return ((name, fold_value),), relation


def _choose_matches(
    block: ValueBlock, inner: LoweringState, columns: tuple[str, ...]
) -> tuple[Relation, tuple[SortTerm, ...]]:
    """Return the matches that count with their value: one of equal values if distinct, and the first of an order."""
    is_sorted = block.kind is BlockKind.COLLECT or block.limit is not None
    has_counts = MULTIPLICITY in inner.relation.names and not block.distinct
    if has_counts and is_sorted:
        raise UnsupportedForm("an order of matches that are counted")
    items: list[tuple[str, Term]] = [(name, ColumnTerm(name)) for name in (*columns, *[MULTIPLICITY] * has_counts)]
    if block.value is not None:
        # In a list, a zero keeps its sign.
        is_key = block.distinct or block.kind is not BlockKind.COLLECT
        items.append((_MATCH_VALUE, ExprTerm(_to_value(block.value), is_key=is_key)))
    order: list[SortTerm] = []
    if is_sorted:
        descending = [*(term.descending for term in block.order), *(False for _ in block.ties)]
        sorts = [*(term.value for term in block.order), *block.ties]
        order = [SortTerm(f"#sort {number}", is_down) for number, is_down in enumerate(descending)]
        items += [
            (term.column, ExprTerm(_to_value(sort), is_key=True)) for term, sort in zip(order, sorts, strict=True)
        ]
    # SQL has no relation without columns; only the number of its rows is read.
    items = items or [(_MATCH_VALUE, NumberTerm(1))]
    relation: Relation = Project(input=inner.relation, items=tuple(items))
    if block.distinct:
        relation = Distinct(input=relation)
    # With the ties the order is total: an engine adds rows to a list in the order in which its threads find them.
    if block.limit is not None:
        limit = inner.host.resolve_limit(block.limit)
        relation = OrderRows(input=relation, order=tuple(order), limit=limit, per=columns)
    return relation, tuple(order)


def unnest(state: LoweringState, step: Unnest) -> None:
    """Bind variables to the elements of a list, and their places.

    Raises:
        UnsupportedForm: The elements are no plain values, or an integer in the list may overflow.
    """
    type_ = step.value.type
    if step.is_entity or not isinstance(type_, ListOf) or not is_plain_type(type_):
        raise UnsupportedForm("`each` over nodes, edges, walks or records")
    if can_overflow(step.value):
        # In memory, such a list has one unknown element.
        raise UnsupportedForm("`each` over a list whose calculation may overflow")
    state.host.check_expr(step.value)
    state.require_values(step.value)
    element = None if step.element is None else name_value(step.element)
    position = None if step.position is None else name_value(step.position)
    # A test needs one row if the list has an element, not one for each.
    is_test = step.is_test and element is None and position is None
    state.relation = UnnestRows(
        input=state.relation, value=step.value, element=element, position=position, is_test=is_test
    )
    if step.element is not None:
        state.bind_value(step.element, ValueColumn(type_.element))
    if step.position is not None:
        state.bind_value(step.position, ValueColumn(Scalar.I64))
