"""Run one SQL statement over the types of a snapshot, and return its rows."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime

import duckdb
import pyarrow as pa

from omnigraph.engine.duckdb.allowed_functions import bound_functions
from omnigraph.engine.duckdb.connection import (
    Interruption,
    await_call,
    interrupt_when_over,
    open_connection,
    read_batch,
)
from omnigraph.engine.duckdb.sql_errors import SqlError, SqlFailedError, SqlMemoryError, translate_error
from omnigraph.engine.duckdb.statement_check import check_statement
from omnigraph.engine.duckdb.table_streams import MIN_STREAM_ROWS, ReadFailures, ReadState, TableStream, split_table
from omnigraph.engine.output.sql_columns import convert_table, find_duplicate_name
from omnigraph.engine.parallel import count_threads
from omnigraph.engine.query_budget import Budget
from omnigraph.engine.query_progress import ProgressMeter, ReportProgress
from omnigraph.engine.view import View
from omnigraph.query.params import ParameterError, ParameterProblem
from omnigraph.schema.catalog import AnyType, Catalog
from omnigraph.telemetry import log

_BATCH_ROWS = 65_536
_UNNAMED = "a parameter of a statement has a name: write `$name` instead of `?` or `$1`"
_TYPES = "give a text, number, boolean, date, datetime, bytes, or a list of these"
_PARAMETER_TYPES = (str, bool, int, float, date, datetime, bytes)


@dataclass(frozen=True, slots=True, kw_only=True)
class SqlLimits:
    """The resources of a statement beside its budget."""

    spill_bytes: int
    threads: int | None = None
    min_stream_rows: int = MIN_STREAM_ROWS


def run_statement(
    view: View,
    text: str,
    params: Mapping[str, object],
    budget: Budget,
    limits: SqlLimits,
    progress: ReportProgress | None = None,
) -> pa.Table:
    """Run a statement, and return all of its rows; a column type that no property has is converted.

    DuckDB may use half of the memory limit; the other half is for what is read for it, and for the result.

    Raises:
        SqlError: The statement is wrong, or uses something that it may not.
        ParameterError: The parameters are not those of the statement.
        SqlMemoryError, QueryMemoryError, QueryTimeoutError, QueryCancelledError: The budget ran out.
        SqlFailedError: DuckDB failed, or there is no directory to spill to.
    """
    failures, meter = ReadFailures(), ProgressMeter(progress)
    # Opening the connection may fail too, before there is a watch that could tell why it stopped.
    interruption = Interruption()
    limit = None if math.isinf(budget.memory_bytes) else int(budget.memory_bytes)
    half = None if limit is None else max(limit // 2, 1)
    threads = count_threads(limits.threads)
    budget.check()
    try:
        with (
            open_connection(memory_bytes=half, spill_bytes=limits.spill_bytes, threads=threads) as connection,
            interrupt_when_over(connection, budget, limit, meter.report) as interruption,
        ):
            bound_functions(connection)
            usage = check_statement(connection, text, [type_.name for type_ in view.catalog.types])
            values = _check_params(usage.parameters, params)
            for name in sorted(usage.tables):
                type_ = _find_type(view.catalog, name)
                streams = split_table(
                    view.get_table(type_), threads, ReadState(budget, failures, meter), limits.min_stream_rows
                )
                _create_view(connection, type_.name, streams)
            return convert_table(_fetch(connection, text, values, budget, half))
    except duckdb.Error as error:
        # First what made DuckDB stop: an error of our own reader, the deadline, or the caller.
        failures.raise_first()
        interruption.raise_error()
        budget.check()
        if interruption.is_out_of_memory:
            raise SqlMemoryError(limit or 0) from None
        translated = translate_error(error, limit or 0)
        if isinstance(translated, SqlFailedError):
            log.warning("DuckDB could not run a statement: %s", error)
        raise translated from None
    except OSError as error:
        failures.raise_first()
        interruption.raise_error()
        log.warning("DuckDB could not run a statement: %s", error)
        raise SqlFailedError from None


def _find_type(catalog: Catalog, name: str) -> AnyType:
    matches = [type_ for type_ in catalog.types if type_.name.lower() == name]
    if len(matches) > 1:
        both = " and ".join(f"`{type_.name}`" for type_ in matches)
        raise SqlError(f"{both} differ in case only, and names in SQL have none; rename one of the types")
    return matches[0]


def _create_view(connection: duckdb.DuckDBPyConnection, name: str, streams: Sequence[TableStream]) -> None:
    if len(streams) == 1:
        connection.register(name, streams[0])
        return
    parts = [f"{name} {number}" for number in range(len(streams))]
    for part, stream in zip(parts, streams, strict=True):
        connection.register(part, stream)
    # A part's name has a space, and a statement can't name it: `check_statement` knows the types alone.
    united = " union all ".join(f'select * from "{part}"' for part in parts)  # noqa: S608 - names of types
    connection.execute(f'create temp view "{name}" as {united}')


def _check_params(names: frozenset[str], params: Mapping[str, object]) -> dict[str, object]:
    """Return the values of the parameters of a statement.

    Raises:
        ParameterError: One is missing, unknown, without a name, or has no counterpart in SQL.
    """
    problems = [
        ParameterProblem(name, f"the parameter `${name}` is missing" if not name.isdigit() else _UNNAMED)
        for name in sorted(names - params.keys())
    ]
    problems += [
        ParameterProblem(name, f"the statement has no parameter `${name}`") for name in sorted(params.keys() - names)
    ]
    problems += [
        ParameterProblem(name, f"the parameter `${name}` has a value of the type {type(value).__name__}: {_TYPES}")
        for name, value in params.items()
        if not _is_value(value)
    ]
    if problems:
        raise ParameterError(problems)
    # Texts of the command line are plain texts here; SQL converts them where a number or date is compared.
    return {name: str(value) if isinstance(value, str) else value for name, value in params.items()}


def _is_value(value: object) -> bool:
    if isinstance(value, list | tuple):
        return all(_is_value(item) for item in value)
    return value is None or isinstance(value, _PARAMETER_TYPES)


def _fetch(
    connection: duckdb.DuckDBPyConnection, text: str, values: dict[str, object], budget: Budget, allowed: int | None
) -> pa.Table:
    """Return the result as it comes, within half of the memory limit."""
    # With parameters, it is computed here already.
    relation = await_call(connection, lambda: connection.sql(text, params=values or None))
    duplicate = find_duplicate_name(relation.columns)
    if duplicate is not None:
        raise SqlError(f"two columns of the result are called `{duplicate}`; give each its own name with `as`")
    reader = await_call(connection, lambda: relation.to_arrow_reader(_BATCH_ROWS))
    batches, nbytes = [], 0
    while (batch := read_batch(connection, reader)) is not None:
        budget.check()
        nbytes += batch.nbytes
        if allowed is not None:
            budget.check_size(allowed + nbytes, "the result of the SQL statement")
        batches.append(batch)
    return pa.Table.from_batches(batches, reader.schema)
