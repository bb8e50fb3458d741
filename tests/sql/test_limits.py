"""A statement ends at its deadline, when it is cancelled, and at its memory limit; what it spills is removed."""

import os
import signal
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

import pytest

import omnigraph as og
from omnigraph.clock import SystemClock
from omnigraph.engine.duckdb.connection import SPILL_PREFIX, open_connection
from omnigraph.engine.duckdb.sql_errors import SqlError, SqlMemoryError
from omnigraph.engine.query_budget import Budget, QueryCancelledError, QueryMemoryError, QueryTimeoutError

ENDLESS = "select sum(a.range * b.range) s from range(100000000) a, range(100000000) b"
SORT = "select max(k) m from (select i, hash(i)::varchar || hash(i + 1)::varchar k from range({n}) t(i) order by k, i)"

HOLD = """
import sys
from omnigraph.engine.duckdb.connection import open_connection

with open_connection(memory_bytes=2**26, spill_bytes=2**28, threads=1) as connection:
    connection.execute("create temp table t as select i, hash(i)::varchar k from range(3000000) r(i)")
    print("ready", flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


@pytest.mark.usefixtures("temporary")
def test_a_deadline_ends_a_statement(people: og.Graph) -> None:
    with pytest.raises(QueryTimeoutError):
        people.sql(ENDLESS, seconds=0.3)


def test_a_cancelled_statement_ends(people: og.Graph, temporary: Path) -> None:
    budget = Budget(SystemClock())
    threading.Timer(0.3, budget.cancel).start()

    with pytest.raises(QueryCancelledError):
        people.sql(ENDLESS, budget=budget)

    assert list(temporary.iterdir()) == []


@pytest.mark.parametrize(
    "statement",
    [
        "select list(range) x from range(1000000000)",
        "select string_agg(range::varchar, ',') x from range(1000000000)",
        "select histogram(range) x from range(1000000000)",
    ],
)
@pytest.mark.usefixtures("temporary")
def test_a_memory_limit_ends_a_statement(people: og.Graph, statement: str) -> None:
    with pytest.raises(SqlMemoryError, match="its memory limit of 100,000,000 bytes"):
        people.sql(statement, memory_bytes=100_000_000)


@pytest.mark.usefixtures("temporary")
@pytest.mark.parametrize(
    "value, message",
    [
        ("cast(case when range > 900000 then 'x' else '1' end as int)", "Could not convert string 'x'"),
        ("9223372036854775807 - 900000 + range::bigint", "Overflow in addition"),
    ],
)
def test_an_error_in_a_late_row_is_that_of_an_early_one(people: og.Graph, value: str, message: str) -> None:
    with pytest.raises(SqlError, match=message):
        people.sql(f"select {value} as n from range(1000000)")  # noqa: S608 - of this file


@pytest.mark.usefixtures("temporary")
def test_a_deadline_ends_a_statement_that_has_returned_rows(people: og.Graph) -> None:
    endless = "with recursive t as (select 1 as n union all select n + 1 from t) select * from t"

    with pytest.raises(QueryTimeoutError):
        people.sql(endless, seconds=0.5)


@pytest.mark.usefixtures("temporary")
def test_memory_that_runs_out_after_the_first_rows(people: og.Graph) -> None:
    later = "select range as n from range(200000) union all select len(list(range)) from range(1000000000)"

    with pytest.raises(SqlMemoryError, match="its memory limit of 100,000,000 bytes"):
        people.sql(later, memory_bytes=100_000_000)


@pytest.mark.usefixtures("temporary")
def test_a_result_that_is_too_large(people: og.Graph) -> None:
    with pytest.raises(QueryMemoryError, match="the result of the SQL statement"):
        people.sql("select range, range + 1 as n from range(100000000)", memory_bytes=100_000_000)


@pytest.mark.parametrize("function", ["repeat('x', 1000000000)", "lpad('x', 1000000000, 'y')", "range(1000000000)"])
def test_a_huge_value_of_a_small_one_is_refused(people: og.Graph, function: str) -> None:
    with pytest.raises(SqlError, match="is not available here"):
        people.sql(f"select length({function}) as n")


def test_what_does_not_fit_is_spilled_and_removed(people: og.Graph, temporary: Path) -> None:
    found = people.sql(SORT.format(n=2_000_000), memory_bytes=160_000_000)

    assert found.row_count == 1
    assert list(temporary.iterdir()) == []


def test_the_spill_directory_is_bounded(people: og.Graph, temporary: Path) -> None:
    options = og.Options(spill_bytes=1_000_000)
    small = og.open_graph(people.uri, runtime=og.Runtime(options=options))

    with pytest.raises(SqlMemoryError):
        small.sql(SORT.format(n=5_000_000), memory_bytes=80_000_000)

    assert list(temporary.iterdir()) == []


def test_the_next_process_removes_what_a_killed_one_has_left(temporary: Path) -> None:
    environment = {**os.environ, "TMPDIR": str(temporary)}
    arguments = [sys.executable, "-c", HOLD]
    with subprocess.Popen(arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        process.send_signal(signal.SIGKILL)
        process.wait()
    (left,) = temporary.glob(f"{SPILL_PREFIX}*")
    assert any(path.name.startswith("duckdb_temp") for path in left.iterdir())

    with open_connection(memory_bytes=2**26, spill_bytes=2**20, threads=1):
        assert not left.exists()

    assert list(temporary.iterdir()) == []
