"""Aggregates of a query in Spark SQL: its own where they are exact, and ours over what it collects where not."""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from itertools import count

from omnigraph.engine.output.lists import resolve_fraction, resolve_limit
from omnigraph.engine.query_inputs import QueryInputs
from omnigraph.engine.relational.dialect import UnsupportedForm
from omnigraph.engine.relational.fold_functions import CollectFunction, FoldFunction, ListFold, TotalFunction
from omnigraph.engine.relational.sql_syntax import SPARK
from omnigraph.query.expr import Aggregate, AggregateFunction, Case, Const, Expr, ExprType, ShapedType
from omnigraph.query.format_expr import format_expr
from omnigraph.schema.types import EnumOf, Scalar, ValueType

_F = AggregateFunction
_EXTREMES = {_F.MIN: "min", _F.ANY: "max", _F.MAX: "max", _F.ALL: "min"}
# Wide enough for the sum of 2^60 integers of 64 bits.
_WIDE = "DECIMAL(38,0)"


def fold_condition(aggregate: Aggregate) -> Aggregate:
    """Return an aggregate without its condition: its argument is null in other rows, and nulls don't count.

    So an overflow in a row that does not count is none.
    """
    if aggregate.where is None:
        return aggregate
    argument: Expr = aggregate.argument or Const(value=True, type=Scalar.BOOL, origin=aggregate.origin)
    type_ = argument.type
    if isinstance(type_, ShapedType):
        raise UnsupportedForm(f"`{aggregate.fold.value}` of a whole node or edge with a condition")
    null = Const(value=None, type=type_, origin=aggregate.origin)
    case = Case(branches=((aggregate.where, argument),), otherwise=null, origin=aggregate.origin)
    return replace(aggregate, argument=case, where=None)


@dataclass(slots=True)
class AggregatePrinter:
    """Print aggregates over columns that have their arguments, and collect the functions that they need."""

    inputs: QueryInputs
    prefix: str
    functions: list[FoldFunction] = field(default_factory=list)
    _numbers: Iterator[int] = field(default_factory=count)

    def print_aggregate(
        self,
        aggregate: Aggregate,
        text: str,
        column: str | None,
        keys: tuple[str, ...],
        multiplicity: str | None,
        *,
        keeps_zeros: bool = False,
    ) -> str:
        """Return the text of an aggregate whose argument is in `column`, and whose sort keys are in `keys`.

        `text` is the aggregate as messages quote it. A row counts as often as the column `multiplicity` says. With
        `keeps_zeros`, a zero in a list keeps its sign.

        Raises:
            UnsupportedForm: It folds whole nodes or edges.
        """
        if column is None:
            return self._count("1", text, multiplicity)
        argument = aggregate.argument
        assert argument is not None  # noqa: S101 - it has a column
        type_ = argument.type
        if aggregate.fold is _F.COUNT:
            return f"count(DISTINCT {column})" if aggregate.distinct else self._count(column, text, multiplicity)
        if isinstance(type_, ShapedType):
            raise UnsupportedForm(f"`{aggregate.fold.value}` of a whole node or edge")
        is_whole = isinstance(type_, Scalar) and type_.is_integer
        if aggregate.fold in _EXTREMES:
            # 0.0 and -0.0 are equal: which of them is shown must not depend on the order of the rows.
            zero = f" + {print_zero(type_)}" if is_float(type_) else ""
            return f"{_EXTREMES[aggregate.fold]}({column}{zero})"
        if is_whole and aggregate.fold in (_F.SUM, _F.AVG):
            return self._print_total(aggregate.fold, text, column, multiplicity)
        if aggregate.fold is _F.COLLECT:
            function = self._build_collect(aggregate, _to_scalar(type_), multiplicity, keeps_zeros=keeps_zeros)
            return self._call(function, _collect_records((column, *keys), multiplicity, column))
        fraction = 0.5 if aggregate.fraction is None else resolve_fraction(aggregate.fraction, self.inputs)
        fold = ListFold(
            name=self.name_function(), text=text, fold=aggregate.fold, of=_to_scalar(type_), fraction=fraction
        )
        return self._call(fold, _collect_records((column,), multiplicity, column))

    def _count(self, column: str, text: str, multiplicity: str | None) -> str:
        if multiplicity is None:
            return f"count({column})"
        counted = f"CASE WHEN {column} IS NOT NULL THEN CAST({multiplicity} AS {_WIDE}) ELSE CAST(0 AS {_WIDE}) END"
        total = TotalFunction(name=self.name_function(), text=text)
        return self._call(total, f"coalesce(sum({counted}), CAST(0 AS {_WIDE}))")

    def _print_total(self, fold: AggregateFunction, text: str, column: str, multiplicity: str | None) -> str:
        total = print_wide_sum(column, multiplicity)
        if fold is _F.SUM:
            return self._call(TotalFunction(name=self.name_function(), text=text), total)
        function = TotalFunction(name=self.name_function(), text=text, is_average=True)
        return self._call(function, total, self._count(column, text, multiplicity))

    def _build_collect(
        self, aggregate: Aggregate, of: Scalar, multiplicity: str | None, *, keeps_zeros: bool
    ) -> CollectFunction:
        order = (*aggregate.order,)
        values = (*(term.value for term in order), *aggregate.ties)
        types: list[ValueType] = []
        for value in values:
            if isinstance(value.type, ShapedType):
                raise UnsupportedForm("`collect` ordered by a whole node or edge")
            types.append(value.type)
        return CollectFunction(
            name=self.name_function(),
            of=of,
            keys=tuple(types),
            descending=(*(term.descending for term in order), *(False for _ in aggregate.ties)),
            is_distinct=aggregate.distinct,
            limit=None if aggregate.limit is None else resolve_limit(aggregate.limit, self.inputs),
            has_multiplicity=multiplicity is not None,
            keeps_zeros=keeps_zeros,
        )

    def print_checked(self, text: str, value: str, overflow: str) -> str:
        """Return a sum of a value block, as an error where the column `overflow` is true; `text` is the aggregate."""
        total = self.add_total(text, is_calculation=True)
        return f"{total}(CASE WHEN {overflow} THEN CAST('{2**63}' AS {_WIDE}) ELSE CAST({value} AS {_WIDE}) END)"

    def add_total(self, text: str, *, is_calculation: bool = False) -> str:
        """Return the name of a function that turns a wide sum into a value of a result; `text` is the aggregate."""
        name = self.name_function()
        function = TotalFunction(name=name, text=text, is_row_value=True, is_calculation=is_calculation)
        self.functions.append(function)
        return function.name

    def _call(self, function: FoldFunction, *arguments: str) -> str:
        self.functions.append(function)
        return f"{function.name}({', '.join(arguments)})"

    def name_function(self) -> str:
        """Return a name for another function."""
        return f"{self.prefix}fold_{next(self._numbers)}"


def print_wide_sum(column: str, multiplicity: str | None) -> str:
    """Return the sum of a column of integers, which may not fit into one."""
    value = f"CAST({column} AS {_WIDE})"
    return f"sum({value})" if multiplicity is None else f"sum(CAST({value} * {multiplicity} AS {_WIDE}))"


def is_float(type_: ExprType) -> bool:
    """Return whether values of a type are floats."""
    return isinstance(type_, Scalar) and type_.is_float


def print_zero(type_: ExprType) -> str:
    """Return a zero that turns -0.0 into 0.0 when it is added."""
    assert isinstance(type_, Scalar)  # noqa: S101 - only floats have two
    return f"CAST('0.0' AS {SPARK.print_type(type_)})"


def quote_aggregate(aggregate: Aggregate) -> str:
    """Return an aggregate as messages quote it: without its condition, which is applied first."""
    return format_expr(replace(aggregate, where=None))


def _collect_records(columns: tuple[str, ...], multiplicity: str | None, value: str) -> str:
    """Return the rows of a group that have a value, as a list of records."""
    names = (*columns, *(() if multiplicity is None else (multiplicity,)))
    fields = ", ".join(f"'{number}', {name}" for number, name in enumerate(names))
    return f"collect_list(named_struct({fields})) FILTER (WHERE {value} IS NOT NULL)"


def _to_scalar(type_: ValueType) -> Scalar:
    if isinstance(type_, EnumOf):
        return Scalar.STRING
    if not isinstance(type_, Scalar):
        raise UnsupportedForm(f"a list of values of the type {type_}")
    return type_
