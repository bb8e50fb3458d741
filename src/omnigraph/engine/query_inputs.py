"""The inputs of a query besides its tables."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import assert_never

from omnigraph.engine.query_budget import Budget
from omnigraph.query.expr import Const, Now, ParamRef, RecordsParam
from omnigraph.query.mutation_plan import StoredValue
from omnigraph.query.params import ParamValue
from omnigraph.query.record_params import RecordRows
from omnigraph.schema.catalog import Value


@dataclass(frozen=True, slots=True)
class QueryInputs:
    """The inputs of a query besides its tables: the values of its parameters, and the instant of `now()`.

    `budget` limits what its calculations may build; None for no limit.
    """

    params: Mapping[str, ParamValue]
    now: datetime
    budget: Budget | None = field(default=None, repr=False, compare=False)

    def resolve(self, expr: StoredValue) -> Value:
        """Return the value of a literal, a parameter or `now()`."""
        match expr:
            case Const():
                return expr.value
            case ParamRef():
                value = self.params[expr.name]
                # The binder lets a list of records be unnested only.
                assert not isinstance(value, RecordRows)  # noqa: S101
                return value
            case Now():
                return self.now
            case _:
                assert_never(expr)

    def get_records(self, param: RecordsParam) -> RecordRows | None:
        """Return the value of a parameter that is a list of records; None for null."""
        value = self.params[param.name]
        assert value is None or isinstance(value, RecordRows)  # noqa: S101 - by its declaration
        return value
