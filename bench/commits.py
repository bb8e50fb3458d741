"""What a commit costs: how its latency grows with history, its requests, what flushing costs, and how peers do.

Absolute times belong to the machine, so what counts are ratios within one run. All contestants insert the same rows one
at a time, in turns, so that a busy moment hits each of them alike. The peers do less: a Lance append is one table
without a history of commits, and SQLite is one file. Requests are counted on an S3 server on loopback, the one of the
tests, so run it with `PYTHONPATH=tests`; `make bench` does.
"""

import gc
import sqlite3
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import lance
import pyarrow as pa

from omnigraph.graph import Graph
from omnigraph.lang.source import Source
from omnigraph.ops.open import open_session
from omnigraph.ops.session import Session
from omnigraph.ops.write_tables import TableWrite, write_tables
from omnigraph.options import Durability, Options
from omnigraph.runtime import Runtime
from s3_server import fresh_uri, s3_server

SHALLOW = 10
DEEP = SHALLOW + 16 * Options().head_commits
"""More than 2,000 commits, with as many of them in the head as in the shallow graph: what differs is history alone."""
SCHEMA = "node A { v: I64 }\nnode B { v: I64 }\nnode Grown { v: I64 }\n"
COLUMNS = pa.schema([pa.field("id", pa.string(), nullable=False), pa.field("v", pa.int64(), nullable=False)])


@dataclass
class Contestant:
    """Somebody who inserts a row durably, and the seconds that each insert took."""

    name: str
    insert: Callable[[int], object]
    times: list[float] = field(default_factory=list)

    @property
    def median(self) -> float:
        """The middle time."""
        return statistics.median(self.times)


def row(number: int) -> pa.Table:
    """The row of one insert."""
    return pa.table({"id": [f"row-{number:09}"], "v": [number]}, schema=COLUMNS)


def graph_with(root: Path, commits: int, durability: Durability) -> Session:
    """A new graph with so many commits, of which all but the first rewrite a table that is not measured."""
    runtime = Runtime(options=Options(durability=Durability.OS))
    graph = Graph.create(str(root), Source(SCHEMA, "bench.pg"), actor="bench", runtime=runtime)
    session = open_session(graph.uri, is_read_only=False, runtime=runtime)
    while session.head().snapshot.commit.seq + 1 < commits:
        write_tables(session, [TableWrite(table_key="node:Grown", overwrite=row(1))], operation="grow", actor="bench")
    return open_session(graph.uri, is_read_only=False, runtime=Runtime(options=Options(durability=durability)))


def insert(session: Session, number: int, *tables: str) -> None:
    """One commit that adds a row to each table."""
    writes = [TableWrite(table_key=f"node:{name}", append=row(number)) for name in tables]
    write_tables(session, writes, operation="insert", actor="bench")


def lance_peer(root: Path) -> Callable[[int], object]:
    """Plain appends to one Lance table: no flush, no history, one table."""
    lance.write_dataset(COLUMNS.empty_table(), str(root), enable_stable_row_ids=True)
    return lambda number: lance.write_dataset(row(number), str(root), mode="append")


def sqlite_peer(path: Path) -> Callable[[int], object]:
    """A committed insert into SQLite, flushed before it returns."""
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("pragma synchronous = full")
    connection.execute("create table a (id text primary key, v integer not null)")
    return lambda number: connection.execute("insert into a values (?, ?)", (f"row-{number:09}", number))


def race(contestants: list[Contestant], rounds: int) -> None:
    """Let all of them insert, in turns."""
    for number in range(-2, rounds):
        for contestant in contestants:
            gc.collect(0)
            start = time.perf_counter()
            contestant.insert(number + 10)
            if number >= 0:  # the first two warm up
                contestant.times.append(time.perf_counter() - start)


def latency_table(root: Path, rounds: int, depth: int) -> None:
    """The race, and the ratios that matter."""
    shallow = graph_with(root / "shallow", SHALLOW, Durability.OS)
    deep = graph_with(root / "deep", depth, Durability.OS)
    flushed = graph_with(root / "flushed", SHALLOW, Durability.FSYNC)
    ours = Contestant(f"after {SHALLOW} commits, os", lambda n: insert(shallow, n, "A"))
    ours_deep = Contestant(f"after {depth:,} commits, os", lambda n: insert(deep, n, "A"))
    ours_flushed = Contestant(f"after {SHALLOW} commits, fsync", lambda n: insert(flushed, n, "A"))
    plain = Contestant("plain Lance append", lance_peer(root / "plain.lance"))
    sqlite = Contestant("SQLite, synchronous=full", sqlite_peer(root / "peer.sqlite"))
    everyone = [ours, ours_deep, ours_flushed, plain, sqlite]
    race(everyone, rounds)

    print(f"\none insert of one row, {rounds} rounds")
    print(f"{'':28}{'median':>12}{'slowest tenth':>16}")
    for one in everyone:
        slow = statistics.quantiles(one.times, n=10)[-1] if rounds > 1 else one.median
        print(f"{one.name:28}{one.median * 1e3:9.2f} ms{slow * 1e3:13.2f} ms")
    print("\nratios of the medians")
    for what, over, under in [
        (f"history: {depth:,} commits to {SHALLOW}", ours_deep, ours),
        ("durability: fsync to os", ours_flushed, ours),
        ("os to a plain Lance append", ours, plain),
        ("fsync to SQLite, synchronous=full", ours_flushed, sqlite),
    ]:
        print(f"{what:40}{over.median / under.median:8.2f}")


def requests_table() -> None:
    """What each operation asks of the store, by target and kind."""
    with s3_server() as options:
        runtime = Runtime(options=Options(storage=options))
        graph = Graph.create(fresh_uri(), Source(SCHEMA, "bench.pg"), actor="bench", runtime=runtime)
        session = open_session(graph.uri, is_read_only=False, runtime=runtime)
        insert(session, 1, "A", "B")
        for name, operation in operations_on(session).items():
            operation()  # what is warm is so from the second time on
            with runtime.telemetry.count_requests() as requests:
                operation()
            print(f"\nrequests of: {name} ({requests.count()})")
            print(requests.format_table())


def operations_on(session: Session) -> dict[str, Callable[[], object]]:
    """What is counted."""
    numbers = iter(range(1_000, 2_000))
    return {
        "insert into one table": lambda: insert(session, next(numbers), "A"),
        "write of two tables": lambda: insert(session, next(numbers), "A", "B"),
        "cold open": lambda: open_session(session.uri, is_read_only=False, runtime=session.runtime),
        "warm read of one table": lambda: session.open_tables(session.resolve_snapshot()).open_table("node:A").scan(),
    }


if __name__ == "__main__":
    repetitions = int(sys.argv[1]) if len(sys.argv) > 1 else 40
    history = int(sys.argv[2]) if len(sys.argv) > 2 else DEEP
    print(f"Python {sys.version.split()[0]}, Lance {lance.__version__}, on local disk")
    with tempfile.TemporaryDirectory(prefix="omnigraph-bench-") as directory:
        latency_table(Path(directory), repetitions, history)
    requests_table()
