"""Functions that an engine calls for what its dialect can't say exactly: our own evaluator, over batches of columns."""

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa

from omnigraph.bug_error import BugError
from omnigraph.engine.predicate_eval import Column, VariableValue, evaluate_over
from omnigraph.engine.query_inputs import QueryInputs
from omnigraph.engine.scalar_eval import OverflowLog
from omnigraph.query.expr import Compare, Expr, ExprType, TextMatch, ValueRef
from omnigraph.schema.arrow import to_arrow_type
from omnigraph.schema.types import EnumOf, ListOf, Scalar, ValueType, VectorOf
from omnigraph.storage.columnar_sets import concat_chunks


def name_argument(index: int) -> str:
    """Return the variable that stands for an argument; no user can write such a name."""
    return f"#{index}"


@dataclass(frozen=True, slots=True, kw_only=True)
class DelegatedFunction:
    """An expression over arguments, which are `ValueRef`s of `name_argument`. It pickles, to run anywhere."""

    name: str
    expr: Expr
    argument_types: tuple[ValueType, ...]
    type: ValueType
    inputs: QueryInputs
    reports_overflow: bool = False
    """Whether an integer that overflows is an error; else it is null."""

    def evaluate(self, columns: Sequence[Column], size: int) -> pa.Array:
        """Return the value in each of `size` rows, from the columns of the arguments.

        Raises:
            QueryError: An integer overflows, or a parameter is no regular expression or time zone.
        """
        log = OverflowLog() if self.reports_overflow else None
        result = evaluate_over(self.expr, _Arguments(columns, self.argument_types, size), self.inputs, log)
        if log is not None:
            log.check()
        array = concat_chunks(result)
        type_ = to_arrow_type(self.type)
        return array if array.type == type_ else array.cast(type_)


@dataclass(frozen=True, slots=True)
class _Arguments:
    """The arguments of one call, as a source of values."""

    columns: Sequence[Column]
    types: Sequence[ValueType]
    size: int

    def read_column(self, expr: VariableValue) -> Column:
        assert isinstance(expr, ValueRef)  # noqa: S101 - the printer replaces all others
        index = int(expr.variable[1:])
        type_ = to_arrow_type(self.types[index])
        column = concat_chunks(self.columns[index])
        return column if column.type == type_ else column.cast(type_)

    def compare(self, expr: Compare) -> Column | None:  # noqa: ARG002 - values are all it has
        return None

    def match_text(self, expr: TextMatch) -> Column:
        raise BugError.search_not_here(expr.mode.value)


def is_plain_type(type_: ExprType) -> bool:
    """Return whether values of a type cross the border to an engine: no nodes, edges, records and lists of them."""
    return isinstance(type_, Scalar | EnumOf | ListOf | VectorOf)
