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


def _build_call(function: DelegatedFunction, errors: FunctionErrors, size: int) -> Callable[..., pa.Array]:
    """Return a function as DuckDB calls it, in any of its threads."""

    def call(*columns: pa.ChunkedArray) -> pa.Array:
        try:
            return function.evaluate(columns, len(columns[0]))
        except OmnigraphError as error:
            errors.first = errors.first or error
            raise

    # DuckDB counts the parameters of a function by its signature.
    parameters = [Parameter(f"column_{index}", Parameter.POSITIONAL_ONLY) for index in range(size)]
    call.__signature__ = Signature(parameters)  # type: ignore[attr-defined]
    return call


def register_functions(
    connection: duckdb.DuckDBPyConnection, functions: Sequence[DelegatedFunction], errors: FunctionErrors
) -> None:
    """Create the functions that a statement calls; what they raise is put into `errors`."""
    for function in functions:
        # One that reads no column is still an error only in a statement that has a row.
        types: Sequence[ValueType] = function.argument_types or (Scalar.BOOL,)
        connection.create_function(
            function.name,
            _build_call(function, errors, len(types)),
            [duckdb.sqltype(DUCKDB.print_type(type_)) for type_ in types],
            duckdb.sqltype(DUCKDB.print_type(function.type)),
            type=PythonUDFType.ARROW,
            null_handling=FunctionNullHandling.SPECIAL,
            side_effects=not function.argument_types,
        )
