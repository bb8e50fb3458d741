"""The inputs of a query besides its tables."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import assert_never

from omnigraph.query.expr import Const, Now, ParamRef
from omnigraph.query.mutation_plan import StoredValue
from omnigraph.schema.catalog import Value


@dataclass(frozen=True, slots=True)
class QueryInputs:
    """The inputs of a query besides its tables: the values of its parameters, and the instant of `now()`."""

    params: Mapping[str, Value]
    now: datetime

    def resolve(self, expr: StoredValue) -> Value:
        """Return the value of a literal, a parameter or `now()`."""
        match expr:
            case Const():
                return expr.value
            case ParamRef():
                return self.params[expr.name]
            case Now():
                return self.now
            case _:
                assert_never(expr)
