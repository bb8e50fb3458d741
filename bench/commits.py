"""Measure what a commit costs: by length of history and number of small writes, its requests, a flush, and peers.

Absolute times depend on the machine; compare ratios within one run. All contestants insert the same rows individually,
in turns, so that other load on the machine affects each of them alike: the same write took 8 to 25 ms of CPU from one
minute to the next. So a graph of many small writes is compared with a new one in turns, too. The peers do less: a Lance
append writes one table without a history of commits, and SQLite writes one file. Requests are counted on the S3 server
of the tests, on loopback, where new processes write to copies of the graph, too; so run it with `PYTHONPATH=tests`, as
`make bench` does. With `--long` the small writes go on to 10,000, with `--short` to 30, with `--small` only they are
measured, and with `--quick` only they, up to 1,000, in a few minutes.
"""

import gc
import importlib.util
import json
import math
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import lance
import pyarrow as pa

from omnigraph import open_graph
from omnigraph.graph import Graph
from omnigraph.lang.source import Source
from omnigraph.ops.open import open_session
from omnigraph.ops.session import Session
from omnigraph.ops.write_tables import TableWrite, write_tables
from omnigraph.options import Durability, Options
from omnigraph.runtime import Runtime
from s3_server import fresh_uri, s3_server, uploaded

SHALLOW = 10
DEEP = SHALLOW + 16 * Options().head_commits
"""More than 2,000 commits, with the same number in the head as the shallow graph has: only the history differs."""
SCHEMA = "node A { v: I64 }\nnode B { v: I64 }\nnode Grown { v: I64 }\n"
COLUMNS = pa.schema([pa.field("id", pa.string(), nullable=False), pa.field("v", pa.int64(), nullable=False)])


FACTS = """
node P { name: String @key  age: I32?  email: String? @unique }
edge Knows: P -> P @card(0..1000000) { since: I32?  @key(src, dst) }
"""
# Automatic maintenance is off: whether a process does its share of it is a matter of chance.
COLD_WRITE = """
import json, sys, time
import omnigraph as og
from omnigraph.options import Maintenance, Options
from omnigraph.runtime import Runtime
runtime = Runtime(options=Options(maintenance=Maintenance.OFF, storage=json.loads(sys.argv[2])))
start = time.process_time()
with runtime.telemetry.count_requests() as requests:
    graph = og.open_graph(sys.argv[1], runtime=runtime)
    graph.mutate("query q() { %s }" % sys.argv[3])
print(json.dumps([time.process_time() - start, requests.count()]))
"""
COLD_SAMPLES = 3
SHORT_COLD_SAMPLES = 1
# A peer that is never optimised may take an hour for 10,000 rows: LanceDB needed 200 ms for each at 4,000.
MAX_PEER_SECONDS = 120.0
WRITES = ("insert", "update", "insert edge", "delete", "upsert")
MARKS = (10, 100, 1_000)
LONG_MARKS = (*MARKS, 10_000)
SHORT_MARKS = (10, 30)
"""The numbers of commits, one row each, at which small writes are measured. Nothing is optimised in between."""
SAMPLES = 15
SHORT_SAMPLES = 3
# Enough for several compactions of the tail.
UPKEEP_COMMITS = 120
SHORT_UPKEEP_COMMITS = 20


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


def build_lancedb_upsert(root: Path) -> Callable[[int], object]:
    """Return a function that upserts a row into a LanceDB table by its id."""
    import lancedb

    table = lancedb.connect(str(root)).create_table("a", schema=COLUMNS)
    upsert = table.merge_insert("id").when_matched_update_all().when_not_matched_insert_all()
    return lambda number: upsert.execute(build_row(number))


def build_ladybug_insert(root: Path) -> Callable[[int], object]:
    """Return a function that inserts a node into LadybugDB."""
    import ladybug

    connection = ladybug.Connection(ladybug.Database(str(root)))
    connection.execute("CREATE NODE TABLE A(id STRING, v INT64, PRIMARY KEY (id))")
    return lambda number: connection.execute(
        "CREATE (:A {id: $id, v: $v})", parameters={"id": f"row-{number:09}", "v": number}
    )


def build_peers(root: Path) -> dict[str, Callable[[int], object]]:
    """Return the functions with which the peers write one row; those that are not installed are left out."""
    peers = {
        "plain Lance append": build_lance_insert(root / "facts.lance"),
        "SQLite, full": build_sqlite_insert(root / "facts.sqlite"),
    }
    optional = {"lancedb": ("LanceDB upsert", build_lancedb_upsert), "ladybug": ("LadybugDB", build_ladybug_insert)}
    for module, (name, build) in optional.items():
        if importlib.util.find_spec(module) is None:
            print(f"{name} is not installed: it is not measured")
        else:
            peers[name] = build(root / module)
    return peers


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


class SmallWrites:
    """A graph that gets one fact at a time."""

    def __init__(self, root: Path) -> None:
        self.runtime = Runtime(options=Options(durability=Durability.OS))
        self._graph = Graph.create(str(root), Source(FACTS, "facts.pg"), actor="bench", runtime=self.runtime)
        self._number = 0
        # The nodes that are not deleted again.
        self._stable: list[int] = []
        self.commits = 1

    def insert(self) -> None:
        """Insert a node with a new key and a new unique value."""
        self._number += 1
        self._mutate(f'insert P {{ name: "k{self._number}", email: "e{self._number}" }}')

    def upsert(self) -> None:
        """Insert a node whose key exists."""
        self._mutate(f'insert P {{ name: "k{self._stable[len(self._stable) // 2]}", age: {self._number} }}')

    def update(self) -> None:
        """Update a node by its key."""
        self._mutate(f'update P set {{ age: {self._number} }} where name = "k{self._stable[len(self._stable) // 3]}"')

    def insert_edge(self) -> None:
        """Insert an edge from the node that has most of them."""
        self._mutate(f'insert Knows {{ from: "k1", to: "k{self._number}" }}')

    def delete(self) -> None:
        """Delete the newest node by its key, with its edges."""
        self._mutate(f'delete P where name = "k{self._number}"')

    def grow(self, commits: int) -> None:
        """Insert nodes, and an edge after every third, until there are this many commits."""
        while self.commits < commits:
            self.insert()
            self._stable.append(self._number)
            if len(self._stable) % 3 == 0:
                self.insert_edge()

    def wait(self) -> None:
        """Wait until no maintenance is in progress."""
        self._graph._session.tails.wait(60)  # noqa: SLF001 - no public call waits for it

    def measure(self, name: str) -> tuple[float, int]:
        """Write once, with a new node in the graph; return the CPU seconds and the requests of the write alone."""
        self.insert()
        self.wait()
        write = getattr(self, name.replace(" ", "_"))
        with self.runtime.telemetry.count_requests() as counted:
            start = time.process_time()
            write()
            seconds = time.process_time() - start
        return seconds, counted.count()

    def measure_with_upkeep(self, commits: int) -> float:
        """Insert nodes, and wait for the maintenance that they caused; return the CPU seconds of one commit."""
        start = time.process_time()
        for _ in range(commits):
            self.insert()
        self.wait()
        return (time.process_time() - start) / commits

    def measure_cold(self, storage: dict[str, str], count: int) -> dict[str, list[tuple[float, int]]]:
        """Write to a copy on an object store in new processes; return CPU seconds and requests of each, by write.

        Each process writes other rows: those of older processes are in the tail. A node that is deleted has no edges.
        """
        # Measured is a state without work in progress.
        self.wait()
        calm = open_graph(self._graph.uri, maintenance="off")
        for number in range(count):
            calm.mutate(f'query q() {{ insert P {{ name: "c{self.commits}-{number}" }} }}')
        uri = uploaded(Path(self._graph.uri))
        samples: dict[str, list[tuple[float, int]]] = {}
        for number in range(count):
            new = f"n{self.commits}-{number}"
            middle = len(self._stable) // 2
            old, older = (f"k{self._stable[middle + distance]}" for distance in (number, -1 - number))
            writes = {
                "insert": f'insert P {{ name: "{new}", email: "{new}" }}',
                "update": f'update P set {{ age: {number} }} where name = "{older}"',
                "insert edge": f'insert Knows {{ from: "{old}", to: "{older}" }}',
                "delete": f'delete P where name = "c{self.commits}-{number}"',
                "upsert": f'insert P {{ name: "{old}", age: {number} }}',
            }
            for name, statement in writes.items():
                command = [sys.executable, "-c", COLD_WRITE, uri, json.dumps(storage), statement]
                ended = subprocess.run(command, check=True, capture_output=True, text=True)
                seconds, requests = json.loads(ended.stdout)
                samples.setdefault(name, []).append((seconds, requests))
        return samples

    def list_live_files(self) -> tuple[int, int]:
        """Return the number of files that the newest state of the tables has, and their bytes."""
        count, nbytes = 0, 0
        for type_name in ("P", "Knows"):
            for fragment in self._graph.table(type_name).get_fragments():
                metadata = fragment.metadata
                count += len(metadata.files) + (metadata.deletion_file is not None)
                nbytes += sum(file.file_size_bytes or 0 for file in metadata.files)
        return count, nbytes

    def _mutate(self, statement: str) -> None:
        self._graph.mutate(Source(f"query q() {{ {statement} }}", "bench.gq"), actor="bench")
        self.commits += 1


def measure_peer(write_row: Callable[[int], object], written: dict[str, int], name: str, mark: int) -> float:
    """Write rows up to a mark and some more; return the median CPU seconds of these, or NaN if it takes too long."""
    times = []
    deadline = time.process_time() + MAX_PEER_SECONDS
    while written[name] < mark + SAMPLES:
        if time.process_time() > deadline:
            return math.nan
        start = time.process_time()
        write_row(written[name])
        written[name] += 1
        times.append(time.process_time() - start)
    return statistics.median(times[-SAMPLES:])


def print_small_writes(root: Path, marks: tuple[int, ...]) -> None:
    """Print CPU and requests of one small write by the number of those before it, and CPU of the peers."""
    is_short = marks == SHORT_MARKS
    graph = SmallWrites(root / "facts")
    peers = build_peers(root)
    milliseconds: dict[str, list[float]] = {}
    requests: dict[str, list[int]] = {}
    written = dict.fromkeys(peers, 0)
    live_files = []
    most_requests = []
    for mark in marks:
        graph.grow(mark)
        live_files.append(graph.list_live_files())
        with s3_server() as storage:
            cold = graph.measure_cold(storage, SHORT_COLD_SAMPLES if is_short else COLD_SAMPLES)
        print(f"{graph.commits:,} commits", file=sys.stderr)
        most_requests.append(max(count for samples in cold.values() for _, count in samples))
        warm = {name: [graph.measure(name) for _ in range(SHORT_SAMPLES if is_short else SAMPLES)] for name in WRITES}
        for name, samples in [*((f"{name}, cold", samples) for name, samples in cold.items()), *warm.items()]:
            milliseconds.setdefault(name, []).append(1e3 * statistics.median(cpu for cpu, _ in samples))
            requests.setdefault(name, []).append(int(statistics.median(count for _, count in samples)))
        for name, write_row in peers.items():
            milliseconds.setdefault(name, []).append(1e3 * measure_peer(write_row, written, name, mark))

    print("\none small write by the number of commits before it, never optimised: CPU ms (requests)")
    print(f"{'':22}{''.join(f'{mark:>14,}' for mark in marks)}{'last/first':>12}")
    for name, values in milliseconds.items():
        cells = [
            f"{value:.1f}" + (f" ({requests[name][index]})" if name in requests else "")
            for index, value in enumerate(values)
        ]
        print(f"{name:22}{''.join(f'{cell:>14}' for cell in cells)}{values[-1] / values[0]:12.2f}")
    print(f"{'most requests, cold':22}{''.join(f'{count:>14,}' for count in most_requests)}")
    print(f"{'files of the state':22}{''.join(f'{count:>14,}' for count, _ in live_files)}")
    print(f"{'their KiB':22}{''.join(f'{nbytes / 1024:>14,.0f}' for _, nbytes in live_files)}")
    print_turns(graph, root, marks[0], is_short=is_short)


def print_turns(graph: SmallWrites, root: Path, commits: int, *, is_short: bool) -> None:
    """Print what a write of a graph with many commits costs in multiples of one of a new graph, measured in turns."""
    print(f"\nmeasured in turns: CPU ms after {graph.commits:,} commits, after {commits} in new graphs, and the ratio")
    repetitions = SHORT_SAMPLES if is_short else SAMPLES
    for name in WRITES:
        # One of its own for each, as it grows with each write.
        young = SmallWrites(root / f"young {name}")
        young.grow(commits)
        pairs = [(graph.measure(name)[0], young.measure(name)[0]) for _ in range(repetitions)]
        print_pair(name, *(statistics.median(seconds) for seconds in zip(*pairs, strict=True)))
    young = SmallWrites(root / "young")
    young.grow(commits)
    count = SHORT_UPKEEP_COMMITS if is_short else UPKEEP_COMMITS
    pairs = [(graph.measure_with_upkeep(count), young.measure_with_upkeep(count)) for _ in range(3)]
    print_pair("insert and upkeep", *(statistics.mean(seconds) for seconds in zip(*pairs, strict=True)))


def print_pair(name: str, last: float, first: float) -> None:
    """Print seconds of a graph with many commits and of a new one, and their ratio."""
    print(f"{name:22}{1e3 * last:14.1f}{1e3 * first:14.1f}{last / first:12.2f}")


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
    arguments = [argument for argument in sys.argv[1:] if not argument.startswith("--")]
    marks = LONG_MARKS if "--long" in sys.argv else SHORT_MARKS if "--short" in sys.argv else MARKS
    is_small = "--small" in sys.argv or "--quick" in sys.argv
    repetitions = int(arguments[0]) if arguments else 40
    history = int(arguments[1]) if len(arguments) > 1 else DEEP
    print(f"Python {sys.version.split()[0]}, Lance {lance.__version__}, on local disk")
    with tempfile.TemporaryDirectory(prefix="omnigraph-bench-") as directory:
        if not is_small:
            print_latencies(Path(directory), repetitions, history)
        print_small_writes(Path(directory), marks)
    if not is_small:
        print_requests()
