"""Lower the output of a read: groups whose aggregates an engine computes exactly, and the first rows of an order."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from omnigraph.engine.relational.dialect import UnsupportedForm
from omnigraph.engine.relational.lower import LoweredPattern
from omnigraph.engine.relational.lower_state import check_value
from omnigraph.engine.relational.tree import (
    MULTIPLICITY,
    AnyOf,
    ColumnTerm,
    CombinedFold,
    DigitList,
    DigitSum,
    ExprTerm,
    FloatTerm,
    Fold,
    GroupRows,
    Measure,
    OrderRows,
    PartialFold,
    Project,
    Relation,
    Select,
    SortTerm,
    Term,
    name_row,
    name_value,
)
from omnigraph.query.expr import Aggregate, AggregateFunction, Entity, Expr, OrderTerm, ValueRef
from omnigraph.query.expr_tree import find_variables, find_windows, walk
from omnigraph.query.logical_plan import Grouping, ReadQuery, build_identity
from omnigraph.schema.types import EnumOf, Scalar

# The parts of a group are as many as its values have combinations of places: some tens for each argument.
_MAX_PLACES = 2


@dataclass(frozen=True, slots=True)
class LoweredGroups:
    """One row per group: a row or value of each variable that the keys read, and parts of the aggregates."""

    relation: Relation
    variables: tuple[str, ...]
    parts: tuple[tuple[Aggregate, tuple[str, ...]], ...]
    """Of each aggregate, the columns that it consists of: one, or for an average the sum and the count."""


def list_output_reads(query: ReadQuery) -> tuple[Expr, ...]:
    """Return the expressions of the output that an engine may evaluate: keys, aggregates, conditions, sort keys."""
    if query.grouping is not None:
        return (*query.grouping.keys, *query.grouping.aggregates, *query.decided)
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
    variables: dict[str, None] = {value.variable: None for value in query.decided}
    items: list[tuple[str, Term]] = [(name, ColumnTerm(name)) for name in relation.names]
    keys: list[str] = []
    _check_values((*grouping.keys, *grouping.aggregates, *query.decided), lowered)
    for number, key in enumerate(grouping.keys):
        read = find_variables(key)
        # The row that stands for a group has the key's value if the key reads one variable alone.
        if len(read) != 1:
            raise UnsupportedForm("a group key of several variables")
        variables[read[0]] = None
        keys.append(f"#key {number}")
        items.append((keys[-1], ExprTerm(_to_key(key), is_key=True)))
    carried = tuple(name_carried(name, relation.names) for name in variables)
    folds = [(aggregate, _split_aggregate(aggregate)) for aggregate in grouping.aggregates]
    if any(_adds_floats(part) for _, parts in folds for part in parts):
        groups, columns = _add_floats(relation, items, tuple(keys), carried, [part for _, own in folds for part in own])
    else:
        groups, columns = _fold_once(relation, items, tuple(keys), carried, [part for _, own in folds for part in own])
    parts = []
    for aggregate, own in folds:
        parts.append((aggregate, tuple(columns[: len(own)])))
        columns = columns[len(own) :]
    return LoweredGroups(groups, tuple(variables), tuple(parts))


def name_carried(variable: str, names: Sequence[str]) -> str:
    """Return the column that a variable's row or value is handed back in."""
    return name_row(variable) if name_row(variable) in names else name_value(variable)


def _check_values(exprs: Iterable[Expr], lowered: LoweredPattern) -> None:
    """Check that the relation has the values that some expressions read."""
    for variable in {part.variable for expr in exprs for part in walk(expr) if isinstance(part, ValueRef)}:
        check_value(variable, lowered.values)


def _fold_once(
    relation: Relation,
    items: list[tuple[str, Term]],
    keys: tuple[str, ...],
    carried: tuple[str, ...],
    aggregates: list[Aggregate],
) -> tuple[Relation, list[str]]:
    """Return the groups, and the columns of their aggregates."""
    multiplicity = MULTIPLICITY if MULTIPLICITY in relation.names else None
    columns = [f"#fold {number}" for number in range(len(aggregates))]
    measures: list[tuple[str, Measure]] = [(name, AnyOf(column=name)) for name in carried]
    for column, aggregate in zip(columns, aggregates, strict=True):
        measures.append((column, Fold(aggregate=aggregate, multiplicity=multiplicity)))
    projected = Project(input=relation, items=tuple(items))
    return GroupRows(input=projected, keys=keys, measures=tuple(measures)), columns


def _adds_floats(aggregate: Aggregate) -> bool:
    argument = aggregate.argument
    is_float = argument is not None and isinstance(argument.type, Scalar) and argument.type.is_float
    return aggregate.fold is AggregateFunction.SUM and is_float


def _add_floats(
    relation: Relation,
    items: list[tuple[str, Term]],
    keys: tuple[str, ...],
    carried: tuple[str, ...],
    aggregates: list[Aggregate],
) -> tuple[Relation, list[str]]:
    """Return the groups, with exact sums of floats, in two steps: by keys and places of digits, then by keys.

    The engine holds a sum for each place that the values of a group have, and can spill these.
    """
    multiplicity = MULTIPLICITY if MULTIPLICITY in relation.names else None
    columns = [f"#fold {number}" for number in range(len(aggregates))]
    first: list[tuple[str, Measure]] = [(name, AnyOf(column=name)) for name in carried]
    second = list(first)
    # Sums of one argument share its digits: the place is a key, so that each further one would multiply the groups.
    places: dict[tuple[Expr, Expr | None], str] = {}
    for column, aggregate in zip(columns, aggregates, strict=True):
        if not _adds_floats(aggregate):
            first.append((column, PartialFold(aggregate=aggregate, multiplicity=multiplicity)))
            second.append((column, CombinedFold(aggregate=aggregate, column=column)))
            continue
        assert aggregate.argument is not None  # noqa: S101 - of which the floats are
        source = (aggregate.argument, aggregate.where)
        if source not in places:
            places[source] = f"#place {len(places)}"
            digit = f"#digit {len(places)}"
            items.append((places[source], FloatTerm(*source, is_place=True)))
            items.append((digit, FloatTerm(*source, is_place=False)))
            first.append((f"{digit} sum", DigitSum(digit=digit, multiplicity=multiplicity)))
        total = f"#digit {[*places].index(source) + 1} sum"
        second.append((column, DigitList(place=places[source], total=total)))
    if len(places) > _MAX_PLACES:
        raise UnsupportedForm(f"more than {_MAX_PLACES} sums of floats")
    projected = Project(input=relation, items=tuple(items))
    parts = GroupRows(input=projected, keys=(*keys, *places.values()), measures=tuple(first), drops_empty=not keys)
    return GroupRows(input=parts, keys=keys, measures=tuple(second)), columns


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


def prune_rows(query: ReadQuery, lowered: LoweredPattern, last: int, keys: tuple[OrderTerm, ...]) -> Relation:
    """Return the rows of a read without groups that come first by its order; `last` is offset and limit together.

    With `per`, so many of each combination of these values.

    Raises:
        UnsupportedForm: The order depends on more than the values of the rows.
    """
    relation = lowered.relation
    exprs = [*(key.value for key in keys), *query.per]
    if query.grouping is not None or query.distinct or query.rank is not None or MULTIPLICITY in relation.names:
        raise UnsupportedForm("an order of groups or ranks")
    if any(find_windows(expr) for expr in query.results):
        raise UnsupportedForm("a window function")
    names = relation.names
    having = () if query.having is None else (query.having,)
    _check_values((*having, *exprs), lowered)
    if query.having is not None:
        relation = Select(input=relation, predicates=(query.having,))
    items: list[tuple[str, Term]] = [(name, ColumnTerm(name)) for name in names]
    sorts = [f"#sort {number}" for number in range(len(exprs))]
    items += [(sort, ExprTerm(_to_key(expr), is_key=True)) for sort, expr in zip(sorts, exprs, strict=True)]
    projected = Project(input=relation, items=tuple(items))
    order = tuple(SortTerm(sort, key.descending) for sort, key in zip(sorts, keys, strict=False))
    first = OrderRows(input=projected, order=order, limit=last, per=tuple(sorts[len(keys) :]))
    return Project(input=first, items=tuple((name, ColumnTerm(name)) for name in names))
