"""Register delegated functions with a DuckDB connection."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from inspect import Parameter, Signature

import duckdb
import pyarrow as pa
from duckdb.func import FunctionNullHandling, PythonUDFType

from omnigraph.engine.relational.delegates import DelegatedFunction
from omnigraph.engine.relational.sql_syntax import DUCKDB
from omnigraph.errors import OmnigraphError
from omnigraph.schema.types import Scalar, ValueType


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineFunction:
    """A function over columns of DuckDB's own types, such as lists of what it has collected."""

    name: str
    argument_types: tuple[str, ...]
    """As DuckDB writes them."""
    type: str
    evaluate: Callable[[Sequence[pa.Array]], pa.Array]


@dataclass(slots=True)
class FunctionErrors:
    """The errors of delegated functions: DuckDB only passes on their text."""

    first: OmnigraphError | None = None

    def raise_first(self) -> None:
        """Raise the error that stopped the statement, if it was one of ours.

        Raises:
            QueryError: An integer overflows, or a parameter is no regular expression or time zone.
        """
        if self.first is not None:
            raise self.first


def _build_call(
    evaluate: Callable[[Sequence[pa.Array]], pa.Array], errors: FunctionErrors, size: int
) -> Callable[..., pa.Array]:
    """Return a function as DuckDB calls it, in any of its threads."""

    def call(*columns: pa.ChunkedArray) -> pa.Array:
        try:
            return evaluate(columns)
        except OmnigraphError as error:
            # Threads may fail at the same time: any of their errors is one of the statement.
            errors.first = errors.first or error
            raise

    # DuckDB counts the parameters of a function by its signature.
    parameters = [Parameter(f"column_{index}", Parameter.POSITIONAL_ONLY) for index in range(size)]
    call.__signature__ = Signature(parameters)  # type: ignore[attr-defined]
    return call


def register_functions(
    connection: duckdb.DuckDBPyConnection,
    functions: Sequence[DelegatedFunction | EngineFunction],
    errors: FunctionErrors,
) -> None:
    """Create the functions that a statement calls; what they raise is put into `errors`."""
    for function in functions:
        own = function if isinstance(function, EngineFunction) else _describe(function)
        connection.create_function(
            own.name,
            _build_call(own.evaluate, errors, len(own.argument_types)),
            [duckdb.sqltype(type_) for type_ in own.argument_types],
            duckdb.sqltype(own.type),
            type=PythonUDFType.ARROW,
            null_handling=FunctionNullHandling.SPECIAL,
            # Without it DuckDB calls a function of constants while it plans, even if the statement has no row.
            side_effects=isinstance(function, DelegatedFunction) and not function.argument_types,
        )


def _describe(function: DelegatedFunction) -> EngineFunction:
    # One that reads no column is still an error only in a statement that has a row.
    types: Sequence[ValueType] = function.argument_types or (Scalar.BOOL,)
    return EngineFunction(
        name=function.name,
        argument_types=tuple(map(DUCKDB.print_type, types)),
        type=DUCKDB.print_type(function.type),
        evaluate=lambda columns: function.evaluate(columns, len(columns[0])),
    )
