"""Open a locked-down DuckDB connection for one request: it reaches our tables, its memory and its own spill directory.

The configuration can't be changed by a statement any more. It is a second fence: `statement_check` already refuses
whatever could try. The connection has no table to write to, and is thrown away after the request.
"""

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import closing, contextmanager
from dataclasses import dataclass
from typing import TypeVar

import duckdb
import pyarrow as pa

from omnigraph.engine.bulk.temp_directory import TempDirectory
from omnigraph.engine.duckdb.process_memory import watch_growth
from omnigraph.engine.duckdb.sql_errors import restore_error
from omnigraph.engine.query_budget import Budget
from omnigraph.errors import OmnigraphError

_T = TypeVar("_T")
SPILL_PREFIX = "omnigraph-sql-"
# How often the deadline and a cancellation are looked at.
# In between, the process grows unseen, and an interrupt has an effect only after a step: so what makes gigabytes in a
# single step is refused before it runs (`allowed_functions`).
_POLL_SECONDS = 0.02
# DuckDB can't plan with less.
_MIN_MEMORY_BYTES = 16 * 2**20
# Python objects by name, extensions and secrets of the user's home: none of them is part of a graph.
_LOCKED = {
    "python_enable_replacements": "false",
    "autoinstall_known_extensions": "false",
    "autoload_known_extensions": "false",
    "allow_community_extensions": "false",
    "allow_persistent_secrets": "false",
}


@contextmanager
def open_connection(
    *, memory_bytes: int | None, spill_bytes: int, threads: int, keeps_plan: bool = False, is_profiled: bool = False
) -> Iterator[duckdb.DuckDBPyConnection]:
    """Open a connection; it and its spill directory are gone after the block.

    With `keeps_plan`, joins are made in the order of the text: DuckDB knows no sizes of our tables, our planner does.
    A directory that a killed process has left is removed by the next one that opens a connection.

    Raises:
        OSError: The spill directory can't be created.
    """
    with closing(TempDirectory(SPILL_PREFIX)) as spill:
        config: dict[str, str | bool | int | float | list[str]] = {
            **_LOCKED,
            "threads": str(threads),
            "temp_directory": str(spill.directory),
            "max_temp_directory_size": f"{spill_bytes}B",
        }
        if memory_bytes is not None:
            config["memory_limit"] = f"{max(memory_bytes, _MIN_MEMORY_BYTES)}B"
        with closing(duckdb.connect(":memory:", config=config)) as connection:
            connection.execute("set TimeZone = 'UTC'")
            # After two seconds it would be drawn on stdout, which belongs to the rows.
            connection.execute("set enable_progress_bar = false")
            if keeps_plan:
                connection.execute("set disabled_optimizers = 'join_order,build_side_probe_side'")
                # The order of rows is made by our sinks; keeping that of the input costs memory.
                connection.execute("set preserve_insertion_order = false")
            if is_profiled:
                connection.execute("set enable_profiling = 'no_output'")
            # Last, because the spill directory can't be set without it; and from then on nothing can be.
            connection.execute("set enable_external_access = false")
            connection.execute("set lock_configuration = true")
            yield connection


@dataclass(slots=True)
class Interruption:
    """Why a statement was stopped, if it was not for the budget."""

    is_out_of_memory: bool = False
    error: BaseException | None = None
    """What the caller's own function for the progress raised."""

    def raise_error(self) -> None:
        """Raise the error of the caller's function, if there is one."""
        if self.error is not None:
            raise self.error


@contextmanager
def interrupt_when_over(
    connection: duckdb.DuckDBPyConnection,
    budget: Budget,
    memory_bytes: int | None,
    report_progress: Callable[[], None] = lambda: None,
) -> Iterator[Interruption]:
    """Stop whatever runs inside the block once the deadline has passed, the caller cancels, or memory runs out.

    DuckDB counts what it stores, not what a function allocates for a value: so the process is watched too, and may grow
    by somewhat more than `memory_bytes`. `report_progress` is called again and again, in another thread.
    """
    done = threading.Event()
    interruption = Interruption()

    def watch() -> None:
        while not done.wait(_POLL_SECONDS):
            if interruption.error is None:
                try:
                    report_progress()
                except BaseException as error:  # noqa: BLE001 - raised again by the thread that waits
                    interruption.error = error
            if interruption.error is not None:
                connection.interrupt()
            try:
                budget.check()
            except OmnigraphError:
                # Again and again: one that comes between two steps has no effect.
                connection.interrupt()
            if growth is not None and growth.is_exceeded():
                interruption.is_out_of_memory = True
                connection.interrupt()

    with watch_growth(memory_bytes) as growth:
        watcher = threading.Thread(target=watch, name="omnigraph-sql-deadline", daemon=True)
        watcher.start()
        try:
            yield interruption
        finally:
            done.set()
            watcher.join()
            interruption.raise_error()


def await_call(connection: duckdb.DuckDBPyConnection, call: Callable[[], _T]) -> _T:
    """Return what a call of DuckDB returns; Ctrl-C ends it.

    It runs in a thread of its own: in the main thread, DuckDB would not see the signal until all rows were computed, or
    report it as an error of its own.
    """
    outcome: Future[_T] = Future()

    def work() -> None:
        try:
            outcome.set_result(call())
        except BaseException as error:  # noqa: BLE001 - raised again by the thread that waits
            outcome.set_exception(error)

    worker = threading.Thread(target=work, name="omnigraph-sql-call", daemon=True)
    worker.start()
    try:
        return outcome.result()
    finally:
        # Alive only if an interrupt came while this thread was waiting.
        while worker.is_alive():
            if not outcome.done():
                connection.interrupt()
            worker.join(_POLL_SECONDS)


def read_batch(connection: duckdb.DuckDBPyConnection, reader: pa.RecordBatchReader) -> pa.RecordBatch | None:
    """Return the next rows of a result, or None after the last ones.

    Most of a statement may run here: its reader passes an error on as an OSError, and this is DuckDB's again.
    """
    try:
        return await_call(connection, lambda: next(reader, None))
    except OSError as error:
        restored = restore_error(error)
        if restored is None:
            raise
        raise restored from error
