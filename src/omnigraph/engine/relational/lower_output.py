"""Lower the output of a read: groups whose aggregates an engine computes exactly, and the first rows of an order."""

from dataclasses import dataclass, replace

from omnigraph.engine.relational.dialect import UnsupportedForm
from omnigraph.engine.relational.lower import LoweredPattern
from omnigraph.engine.relational.tree import (
    MULTIPLICITY,
    AnyOf,
    ColumnTerm,
    ExprTerm,
    Fold,
    GroupRows,
    Measure,
    OrderRows,
    Project,
    Relation,
    Select,
    SortTerm,
    Term,
    name_row,
)
from omnigraph.query.expr import Aggregate, AggregateFunction, Entity, Expr, OrderTerm
from omnigraph.query.expr_tree import find_variables, find_windows
from omnigraph.query.logical_plan import Grouping, ReadQuery, build_identity
from omnigraph.schema.types import EnumOf, Scalar


@dataclass(frozen=True, slots=True)
class LoweredGroups:
    """One row per group: positions of a row of each variable that the keys read, and parts of the aggregates."""

    relation: Relation
    variables: tuple[str, ...]
    parts: tuple[tuple[Aggregate, tuple[str, ...]], ...]
    """Of each aggregate, the columns that it consists of: one, or for an average the sum and the count."""


def list_output_reads(query: ReadQuery) -> tuple[Expr, ...]:
    """Return the expressions of the output that an engine may evaluate: keys, aggregates, conditions, sort keys."""
    if query.grouping is not None:
        return (*query.grouping.keys, *query.grouping.aggregates)
    if query.limit is None:
        return ()
    having = () if query.having is None else (query.having,)
    return (*having, *(term.value for term in query.order), *query.ties, *query.per)


def lower_groups(query: ReadQuery, grouping: Grouping, lowered: LoweredPattern) -> LoweredGroups:
    """Return the groups of a read.

    Raises:
        UnsupportedForm: A key or an aggregate has no relational form. Its dialect may refuse more when it is printed.
    """
    relation = lowered.relation
    variables: dict[str, None] = {}
    items: list[tuple[str, Term]] = [(name, ColumnTerm(name)) for name in relation.names]
    keys: list[str] = []
    if query.decided:
        raise UnsupportedForm("a group key that a block computes")
    for number, key in enumerate(grouping.keys):
        read = find_variables(key)
        # The row that stands for a group has the key's value if the key reads one variable alone.
        if len(read) != 1:
            raise UnsupportedForm("a group key of several variables")
        variables[read[0]] = None
        keys.append(f"#key {number}")
        items.append((keys[-1], ExprTerm(_to_key(key), is_key=True)))
    multiplicity = MULTIPLICITY if MULTIPLICITY in relation.names else None
    measures: list[tuple[str, Measure]] = [(name_row(name), AnyOf(column=name_row(name))) for name in variables]
    parts: list[tuple[Aggregate, tuple[str, ...]]] = []
    for aggregate in grouping.aggregates:
        columns = []
        for part in _split_aggregate(aggregate):
            columns.append(f"#fold {len(measures)}")
            measures.append((columns[-1], Fold(aggregate=part, multiplicity=multiplicity)))
        parts.append((aggregate, tuple(columns)))
    projected = Project(input=relation, items=tuple(items))
    groups = GroupRows(input=projected, keys=tuple(keys), measures=tuple(measures))
    return LoweredGroups(groups, tuple(variables), tuple(parts))


def _to_key(expr: Expr) -> Expr:
    """Return what is compared of a key: the id of a whole node or edge, or a single value."""
    if isinstance(expr, Entity):
        return build_identity(expr)
    if not isinstance(expr.type, Scalar | EnumOf) or expr.type is Scalar.BLOB:
        raise UnsupportedForm(f"a key of the type {expr.type}")
    return expr


def _split_aggregate(aggregate: Aggregate) -> tuple[Aggregate, ...]:
    """Return an average as a sum and a count, of which it is the exact quotient."""
    if aggregate.argument is not None and aggregate.fold is not AggregateFunction.COUNT:
        if not isinstance(aggregate.argument.type, Scalar | EnumOf):
            raise UnsupportedForm(f"`{aggregate.fold.value}` of {aggregate.argument.type}")
    elif isinstance(aggregate.argument, Entity):
        aggregate = replace(aggregate, argument=build_identity(aggregate.argument))
    if aggregate.fold is not AggregateFunction.AVG:
        return (aggregate,)
    return (
        replace(aggregate, fold=AggregateFunction.SUM),
        replace(aggregate, fold=AggregateFunction.COUNT),
    )


def prune_rows(query: ReadQuery, relation: Relation, last: int, keys: tuple[OrderTerm, ...]) -> Relation:
    """Return the rows of a read without groups that come first by its order; `last` is offset and limit together.

    With `per`, so many of each combination of these values.

    Raises:
        UnsupportedForm: The order depends on more than the values of the rows.
    """
    exprs = [*(key.value for key in keys), *query.per]
    if query.grouping is not None or query.distinct or query.rank is not None or MULTIPLICITY in relation.names:
        raise UnsupportedForm("an order of groups or ranks")
    if any(find_windows(expr) for expr in query.results):
        raise UnsupportedForm("a window function")
    names = relation.names
    if query.having is not None:
        relation = Select(input=relation, predicates=(query.having,))
    items: list[tuple[str, Term]] = [(name, ColumnTerm(name)) for name in names]
    sorts = [f"#sort {number}" for number in range(len(exprs))]
    items += [(sort, ExprTerm(_to_key(expr), is_key=True)) for sort, expr in zip(sorts, exprs, strict=True)]
    projected = Project(input=relation, items=tuple(items))
    order = tuple(SortTerm(sort, key.descending) for sort, key in zip(sorts, keys, strict=False))
    first = OrderRows(input=projected, order=order, limit=last, per=tuple(sorts[len(keys) :]))
    return Project(input=first, items=tuple((name, ColumnTerm(name)) for name in names))
