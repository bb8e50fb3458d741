"""Measure what a commit costs: its latency by length of history, its requests, the cost of a flush, and two peers.

Absolute times depend on the machine; compare ratios within one run. All contestants insert the same rows individually,
in turns, so that other load on the machine affects each of them alike. The peers do less: a Lance append writes one
table without a history of commits, and SQLite writes one file. Requests are counted on the S3 server of the tests, on
loopback, so run it with `PYTHONPATH=tests`; `make bench` does.
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
"""More than 2,000 commits, with the same number in the head as the shallow graph has: only the history differs."""
SCHEMA = "node A { v: I64 }\nnode B { v: I64 }\nnode Grown { v: I64 }\n"
COLUMNS = pa.schema([pa.field("id", pa.string(), nullable=False), pa.field("v", pa.int64(), nullable=False)])


@dataclass
class Contestant:
    """An engine that inserts a row durably, and the seconds that each insert took."""

    name: str
    insert: Callable[[int], object]
    times: list[float] = field(default_factory=list)

    @property
    def median(self) -> float:
        """The median time in seconds."""
        return statistics.median(self.times)


def build_row(number: int) -> pa.Table:
    """Return the row of one insert."""
    return pa.table({"id": [f"row-{number:09}"], "v": [number]}, schema=COLUMNS)


def create_graph(root: Path, commits: int, durability: Durability) -> Session:
    """Create a graph with a number of commits; all but the first rewrite a table that is not measured."""
    runtime = Runtime(options=Options(durability=Durability.OS))
    graph = Graph.create(str(root), Source(SCHEMA, "bench.pg"), actor="bench", runtime=runtime)
    session = open_session(graph.uri, is_read_only=False, runtime=runtime)
    while session.head().snapshot.commit.seq + 1 < commits:
        write_tables(
            session, [TableWrite(table_key="node:Grown", overwrite=build_row(1))], operation="grow", actor="bench"
        )
    return open_session(graph.uri, is_read_only=False, runtime=Runtime(options=Options(durability=durability)))


def insert(session: Session, number: int, *tables: str) -> None:
    """Add a row to each table in one commit."""
    writes = [TableWrite(table_key=f"node:{name}", append=build_row(number)) for name in tables]
    write_tables(session, writes, operation="insert", actor="bench")


def build_lance_insert(root: Path) -> Callable[[int], object]:
    """Return a function that appends to one Lance table: no flush, no history of commits."""
    lance.write_dataset(COLUMNS.empty_table(), str(root), enable_stable_row_ids=True)
    return lambda number: lance.write_dataset(build_row(number), str(root), mode="append")


def build_sqlite_insert(path: Path) -> Callable[[int], object]:
    """Return a function that commits an insert into SQLite, flushed before it returns."""
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("pragma synchronous = full")
    connection.execute("create table a (id text primary key, v integer not null)")
    return lambda number: connection.execute("insert into a values (?, ?)", (f"row-{number:09}", number))


def measure_in_turns(contestants: list[Contestant], rounds: int) -> None:
    """Measure the inserts of all contestants, in turns."""
    for number in range(-2, rounds):
        for contestant in contestants:
            gc.collect(0)
            start = time.perf_counter()
            contestant.insert(number + 10)
            if number >= 0:  # the first two rounds warm caches up
                contestant.times.append(time.perf_counter() - start)


def print_latencies(root: Path, rounds: int, depth: int) -> None:
    """Measure all contestants, and print their medians and ratios."""
    shallow = create_graph(root / "shallow", SHALLOW, Durability.OS)
    deep = create_graph(root / "deep", depth, Durability.OS)
    flushed = create_graph(root / "flushed", SHALLOW, Durability.FSYNC)
    ours = Contestant(f"after {SHALLOW} commits, os", lambda n: insert(shallow, n, "A"))
    ours_deep = Contestant(f"after {depth:,} commits, os", lambda n: insert(deep, n, "A"))
    ours_flushed = Contestant(f"after {SHALLOW} commits, fsync", lambda n: insert(flushed, n, "A"))
    plain = Contestant("plain Lance append", build_lance_insert(root / "plain.lance"))
    sqlite = Contestant("SQLite, synchronous=full", build_sqlite_insert(root / "peer.sqlite"))
    contestants = [ours, ours_deep, ours_flushed, plain, sqlite]
    measure_in_turns(contestants, rounds)

    print(f"\none insert of one row, {rounds} rounds")
    print(f"{'':28}{'median':>12}{'slowest tenth':>16}")
    for contestant in contestants:
        median = contestant.median
        slow = statistics.quantiles(contestant.times, n=10)[-1] if rounds > 1 else median
        print(f"{contestant.name:28}{median * 1e3:9.2f} ms{slow * 1e3:13.2f} ms")
    print("\nratios of the medians")
    for name, over, under in [
        (f"history: {depth:,} commits to {SHALLOW}", ours_deep, ours),
        ("durability: fsync to os", ours_flushed, ours),
        ("os to a plain Lance append", ours, plain),
        ("fsync to SQLite, synchronous=full", ours_flushed, sqlite),
    ]:
        print(f"{name:40}{over.median / under.median:8.2f}")


def print_requests() -> None:
    """Print the requests of each operation to the store, by target and kind."""
    with s3_server() as options:
        runtime = Runtime(options=Options(storage=options))
        graph = Graph.create(fresh_uri(), Source(SCHEMA, "bench.pg"), actor="bench", runtime=runtime)
        session = open_session(graph.uri, is_read_only=False, runtime=runtime)
        insert(session, 1, "A", "B")
        for name, operation in build_operations(session).items():
            operation()  # caches are warm from the second run on
            with runtime.telemetry.count_requests() as requests:
                operation()
            print(f"\nrequests of: {name} ({requests.count()})")
            print(requests.format_table())


def build_operations(session: Session) -> dict[str, Callable[[], object]]:
    """Return the operations whose requests are counted, by name."""
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
        print_latencies(Path(directory), repetitions, history)
    print_requests()
