"""Measure a load on Spark with all checks, beside Spark writing the same rows to Parquet without any.

Nodes and edges come from graph JSONL and from Parquet. The baseline reads the same data with Spark's own readers (for
JSONL: one file per type, with a schema) and writes Parquet. Absolute times depend on the machine, and on a busy one so
do ratios of wall times: CPU seconds of all processes (driver, JVM, Python workers) are printed beside them.

Memory is the peak of each process, for a number of rows and ten times that number. Each size runs in its own processes,
and another process generates the inputs, so that its memory is not counted. The heap of the JVM is fixed (`--heap`),
because a JVM grows to its limit before it collects garbage: the benchmark compares the memory that loads need. One
merge changes one row in a hundred, which the driver does; another one changes every second row, which executors do,
also with a bad record, which is quarantined.

Without arguments: 1M and 10M rows. `--full`: 2.5M and 25M (5M nodes, 20M edges), which takes about 20 minutes and 10 GB
of disk. `--nodes N --edges M --rounds R --heap 1g --alone` set the sizes. Each result is printed as soon as it is
known, and all files are removed at the end, also after an interruption.
"""

import argparse
import gc
import os
import shutil
import statistics
import tempfile
import threading
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import TypeVar

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pa_parquet
from pyspark.sql import SparkSession

from loads import SCHEMA, format_json_lines, knows, people
from omnigraph.lang.source import Source
from omnigraph.ops.create import create
from omnigraph.ops.load import GraphSource, LoadCall, LoadInput, LoadMode, TypedSource, load
from omnigraph.ops.open import open_session
from omnigraph.ops.session import Session
from omnigraph.options import Durability, Options
from omnigraph.runtime import Runtime
from omnigraph.spark.load.load_engine import SparkLoadOptions, build_reader
from omnigraph.spark.session.spark_session import session as spark_session

_TICKS = os.sysconf("SC_CLK_TCK")
_PAGE = os.sysconf("SC_PAGE_SIZE")
SAMPLE_SECONDS = 0.05
ROLES = ("driver", "worker", "JVM")
T = TypeVar("T")


# --- resource usage ------------------------------------------------------------------------------------


@dataclass
class Usage:
    """CPU seconds of this process and its descendants, and their peak memory by role, in bytes."""

    seconds: float = 0.0
    peaks: dict[str, int] = field(default_factory=dict)


class UsageSampler:
    """Sample this process and its descendants until stopped; an ended process counts with its last sample."""

    def __init__(self) -> None:
        self._stop = threading.Event()
        self._seconds: dict[int, float] = {}
        self._peaks: dict[str, int] = {}
        self._sample()
        self._before = dict(self._seconds)
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def stop(self) -> Usage:
        """Stop sampling, and return the usage since the start."""
        self._stop.set()
        self._thread.join()
        self._sample()
        seconds = sum(now - self._before.get(pid, 0.0) for pid, now in self._seconds.items())
        return Usage(seconds, self._peaks)

    def _run(self) -> None:
        while not self._stop.wait(SAMPLE_SECONDS):
            self._sample()

    def _sample(self) -> None:
        parents = {}
        usages = {}
        for path in Path("/proc").iterdir():
            if path.name.isdigit():
                try:
                    # The name of the program may contain spaces and brackets: count fields after the last bracket.
                    words = (path / "stat").read_text().rpartition(")")[2].split()
                    pages = int((path / "statm").read_text().split()[1])
                except OSError:  # the process has ended
                    continue
                parents[int(path.name)] = int(words[1])
                usages[int(path.name)] = ((int(words[11]) + int(words[12])) / _TICKS, pages * _PAGE)
        for pid, (seconds, memory) in usages.items():
            role = self._find_role(pid, parents)
            if role is not None:
                self._seconds[pid] = seconds
                self._peaks[role] = max(self._peaks.get(role, 0), memory)

    @staticmethod
    def _find_role(pid: int, parents: dict[int, int]) -> str | None:
        own = os.getpid()
        if pid == own:
            return "driver"
        ancestor = pid
        while ancestor in parents and ancestor != own:
            ancestor = parents[ancestor]
        if ancestor != own:
            return None
        # Not by its name: a process that the JVM forks has, for a moment, the name of a thread and all its memory.
        try:
            program = Path(f"/proc/{pid}/cmdline").read_bytes().partition(b"\0")[0]
        except OSError:
            return None
        return "JVM" if program.endswith(b"java") else "worker"


@dataclass
class Contestant:
    """An operation to measure: `prepare` gets an empty directory, and returns the function that is timed."""

    name: str
    prepare: Callable[[Path], Callable[[], object]]
    times: list[float] = field(default_factory=list)
    usages: list[Usage] = field(default_factory=list)

    @property
    def wall(self) -> float:
        """The median wall time in seconds."""
        return statistics.median(self.times)

    @property
    def cpu(self) -> float:
        """The median of the CPU seconds."""
        return statistics.median(usage.seconds for usage in self.usages)

    def find_peak(self, role: str) -> int:
        """Return the peak memory of the largest process of a role, in MB."""
        return max((usage.peaks.get(role, 0) for usage in self.usages), default=0) // 2**20


def measure(contestants: list[Contestant], rounds: int, directory: Path) -> None:
    """Run all contestants in turns, each in an empty directory."""
    for number in range(rounds):
        for contestant in contestants:
            target = directory / f"{number}"
            target.mkdir()
            work = contestant.prepare(target)
            gc.collect()
            sampler = UsageSampler()
            start = time.perf_counter()
            work()
            contestant.times.append(time.perf_counter() - start)
            contestant.usages.append(sampler.stop())
            shutil.rmtree(target)


# --- data ----------------------------------------------------------------------------------------------


@dataclass
class Data:
    """The same rows as Parquet and as graph JSONL, one file per type."""

    directory: Path
    rows: int

    def path_for(self, name: str, ending: str) -> Path:
        """Return the path of the file with the rows of one type."""
        return self.directory / f"{name}.{ending}"

    def build_json_input(self) -> LoadInput:
        """Return an input of all rows as graph JSONL."""
        return LoadInput(graph=tuple(GraphSource(data=self.path_for(name, "jsonl")) for name in ("Person", "Knows")))

    def build_parquet_input(self) -> LoadInput:
        """Return an input of all rows as Parquet."""
        person = TypedSource(type="Person", is_edge=False, data=self.path_for("Person", "parquet"))
        return LoadInput(
            typed=(person, TypedSource(type="Knows", is_edge=True, data=self.path_for("Knows", "parquet")))
        )


def write_data(directory: Path, nodes: int, edges: int) -> Data:
    """Write the nodes and edges in both formats."""
    directory.mkdir(parents=True)
    data = Data(directory, nodes + edges)
    for name, tables in (("Person", people(nodes)), ("Knows", knows(nodes, edges))):
        with data.path_for(name, "jsonl").open("wb") as lines:
            writer: pa_parquet.ParquetWriter | None = None
            for table in tables:
                writer = writer or pa_parquet.ParquetWriter(data.path_for(name, "parquet"), table.schema)
                writer.write_table(table)
                lines.write(format_json_lines(name, table))
            if writer is not None:
                writer.close()
    return data


def run_in_process(work: Callable[..., T], *args: object, **kwargs: object) -> T:
    """Call a function in a new process that ends afterwards, so that its memory is freed, and return its result."""
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        return pool.submit(work, *args, **kwargs).result()


# --- contestants ---------------------------------------------------------------------------------------


def create_graph(directory: Path) -> Session:
    """Create an empty graph."""
    runtime = Runtime(options=Options(durability=Durability.OS))
    return create(str(directory / "graph"), Source(SCHEMA, "bench.pg"), actor="bench", runtime=runtime)


def build_load(spark: SparkSession, source: LoadInput) -> Callable[[Path], Callable[[], object]]:
    """Return a contestant's `prepare` that creates a graph, and whose function loads into it."""

    def prepare(directory: Path) -> Callable[[], object]:
        graph = create_graph(directory)
        call = LoadCall(input=source, mode=LoadMode.APPEND, actor="bench")
        return lambda: load(graph, call, build_reader(spark=spark))

    return prepare


_SHAPES = {
    "Person": "type string, data struct<name string, age int, score double, born date, bio string>",
    "Knows": "edge string, `from` string, `to` string, data struct<since date, weight double>",
}
"""The schema of graph JSONL by type, so that Spark does not infer it."""


def build_spark_copy(spark: SparkSession, data: Data, ending: str) -> Callable[[Path], Callable[[], object]]:
    """Return a contestant's `prepare` for the baseline: Spark's own readers and writer, without any check."""

    def work(directory: Path) -> None:
        for name, shape in _SHAPES.items():
            path = str(data.path_for(name, ending))
            rows = spark.read.parquet(path) if ending == "parquet" else spark.read.schema(shape).json(path)
            if ending == "jsonl":
                rows = rows.select("data.*", *(column for column in ("from", "to") if column in rows.columns))
            rows.write.parquet(str(directory / name))

    return lambda directory: lambda: work(directory)


def compare_loads(spark: SparkSession, data: Data, rounds: int, directory: Path) -> list[Contestant]:
    """Measure loads beside the baselines."""
    contestants = [
        Contestant("load of graph JSONL", build_load(spark, data.build_json_input())),
        Contestant("Spark: JSONL to Parquet", build_spark_copy(spark, data, "jsonl")),
        Contestant("load of Parquet", build_load(spark, data.build_parquet_input())),
        Contestant("Spark: Parquet to Parquet", build_spark_copy(spark, data, "parquet")),
    ]
    measure(contestants, rounds, directory)
    return contestants


def write_changes(source: Path, target: Path, every: int, by: float, *, first: int = 0, is_bad: bool = False) -> None:
    """Write every `every`-th row from `first` on with another score; if `is_bad`, write the last of them twice."""
    writer: pa_parquet.ParquetWriter | None = None
    last = pa.table({})
    start = -first
    for batch in pa_parquet.ParquetFile(source).iter_batches():
        rows = pa.Table.from_batches([batch]).take(pa.array(range(-start % every, batch.num_rows, every)))
        start += batch.num_rows
        rows = rows.set_column(rows.schema.get_field_index("score"), "score", pc.add(rows["score"], by))
        writer = writer or pa_parquet.ParquetWriter(target, rows.schema)
        writer.write_table(rows)
        last = rows.slice(rows.num_rows - 1) if rows.num_rows else last
    if writer is not None:
        if is_bad:
            writer.write_table(last)
        writer.close()


def build_people_input(path: Path) -> LoadInput:
    """Return an input of the nodes in a file."""
    return LoadInput(typed=(TypedSource(type="Person", is_edge=False, data=path),))


def scan_ids(graph: Session) -> int:
    """Read the ids of all nodes batch by batch, and return their number."""
    table = graph.open_tables(graph.resolve_snapshot()).open_table("node:Person")
    return sum(batch.num_rows for batch in table.iter_batches(["id"]))


def compare_merges(spark: SparkSession, data: Data, directory: Path) -> list[Contestant]:
    """Measure a merge that changes 1 % of the rows, beside an append of these rows to an empty graph and a scan of ids.

    The graph is loaded once, and each merge of the first contestant gets a copy of it. The last contestant merges other
    rows into the same graph in each round; replaced rows stay in their files, because the graph is never optimised.
    """
    rounds = 5
    paths = [directory / f"few-{number}.parquet" for number in range(rounds)]
    for number, path in enumerate(paths):
        run_in_process(write_changes, data.path_for("Person", "parquet"), path, 100, number + 1.0, first=7 * number)
    inputs = [build_people_input(path) for path in paths]
    full = create_graph(directory)
    whole = LoadInput(typed=(TypedSource(type="Person", is_edge=False, data=data.path_for("Person", "parquet")),))
    load(full, LoadCall(input=whole, mode=LoadMode.APPEND, actor="bench"), build_reader(spark=spark))
    fresh = directory / "fresh"
    shutil.copytree(directory / "graph", fresh)

    def open_warm(path: Path) -> Session:
        """Open a session and read the graph, so that it is as warm as the session that created the append's graph."""
        runtime = Runtime(options=Options(durability=Durability.OS))
        graph = open_session(str(path), is_read_only=False, runtime=runtime)
        scan_ids(graph)
        return graph

    def build_merge(graph: Session, source: LoadInput) -> Callable[[], object]:
        call = LoadCall(input=source, mode=LoadMode.MERGE, actor="bench")
        return lambda: load(graph, call, build_reader(spark=spark))

    def prepare_copy(target: Path) -> Callable[[], object]:
        return build_merge(open_warm(Path(shutil.copytree(fresh, target / "graph"))), inputs[0])

    remaining = iter(inputs)
    contestants = [
        Contestant("merge that changes 1 %", prepare_copy),
        Contestant("append of that 1 %", build_load(spark, inputs[0])),
        Contestant("one scan of the ids", lambda _: partial(scan_ids, open_warm(fresh))),
        Contestant("merge after other merges", lambda _: build_merge(full, next(remaining))),
    ]
    measure(contestants, rounds, directory)
    shutil.rmtree(fresh)
    return contestants


def measure_large_merge(spark: SparkSession, data: Data, directory: Path, *, is_bad: bool = False) -> Contestant:
    """Measure a merge by executors that changes every second row of the graph left by `compare_merges`."""
    path = directory / "many.parquet"
    source = data.path_for("Person", "parquet")
    run_in_process(write_changes, source, path, 2, 200.0 if is_bad else 100.0, is_bad=is_bad)
    runtime = Runtime(options=Options(durability=Durability.OS))
    full = open_session(str(directory / "graph"), is_read_only=False, runtime=runtime)
    quarantine = directory / "quarantine" if is_bad else None
    call = LoadCall(input=build_people_input(path), mode=LoadMode.MERGE, actor="bench", on_error=quarantine)
    reader = build_reader(spark=spark, loading=SparkLoadOptions(max_local_merge_rows=0))
    name = "the same, and a bad record" if is_bad else "merge that changes 50 %"
    contestant = Contestant(name, lambda _: lambda: load(full, call, reader))
    measure([contestant], 1, directory)
    if quarantine is not None:
        shutil.rmtree(quarantine)
    return contestant


# --- reports -------------------------------------------------------------------------------------------


def report(contestants: list[Contestant], rows: int) -> None:
    """Print the times, the throughput and the peak memory of each contestant."""
    for contestant in contestants:
        rate = rows / contestant.wall / 1e6
        memory = ", ".join(f"{role} {contestant.find_peak(role)} MB" for role in ROLES)
        print(
            f"  {contestant.name:28} {contestant.wall:7.1f} s {contestant.cpu:7.1f} cpu-s {rate:6.2f} M rows/s"
            f"   {memory}",
            flush=True,
        )


@dataclass(frozen=True)
class Peaks:
    """The peak memory of a contestant's processes, in MB by role."""

    name: str
    by_role: dict[str, int]


def report_ratio(one: Contestant, other: Contestant) -> None:
    """Print the ratios of wall time and CPU time of two contestants."""
    print(
        f"  {one.name} / {other.name}: {one.wall / other.wall:.2f} of the time,"
        f" {one.cpu / other.cpu:.2f} of the CPU time",
        flush=True,
    )


def report_growth(few: list[Peaks], many: list[Peaks]) -> None:
    """Print the ratios of the peak memory for ten times as many rows."""
    for one, other in zip(few, many, strict=True):
        more = ", ".join(f"{role} {other.by_role[role] / max(one.by_role[role], 1):.2f}" for role in ROLES)
        print(f"  {one.name:28} memory for ten times as many rows: {more}", flush=True)


def measure_size(nodes: int, edges: int, rounds: int, master: str, heap: str, directory: Path) -> list[Peaks]:
    """Measure everything at one size, and return the peaks of its loads; runs in its own process."""
    spark = spark_session(master, **{"spark.driver.memory": heap})
    spark.range(4).mapInArrow(lambda batches: batches, "id long").collect()  # starts the Python workers
    data = run_in_process(write_data, directory / f"{nodes}", nodes, edges)
    contestants = compare_loads(spark, data, rounds, directory)
    report(contestants, data.rows)
    report_ratio(contestants[0], contestants[1])
    report_ratio(contestants[2], contestants[3])
    first_merge, append, scan, later_merge = merges = compare_merges(spark, data, directory)
    report(merges, nodes // 100)
    for name, merge in (("merge", first_merge), ("merge after others", later_merge)):
        print(
            f"  {name} / (append + scan): {merge.wall / (append.wall + scan.wall):.2f} of the time,"
            f" {merge.cpu / (append.cpu + scan.cpu):.2f} of the CPU time",
            flush=True,
        )
    for is_bad in (False, True):
        many = measure_large_merge(spark, data, directory, is_bad=is_bad)
        report([many], nodes // 2)
        contestants.append(many)
    shutil.rmtree(data.directory)
    shutil.rmtree(directory / "graph")
    return [Peaks(one.name, {role: one.find_peak(role) for role in ROLES}) for one in contestants]


def main() -> None:
    """Measure both sizes, and compare their memory."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--nodes", type=int, default=2_000_000)
    parser.add_argument("--edges", type=int, default=8_000_000)
    parser.add_argument("--full", action="store_true", help="5M nodes and 20M edges")
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--master", default="local[2]")
    parser.add_argument("--heap", default="1g", help="memory of the JVM")
    parser.add_argument(
        "--alone",
        action="store_true",
        help="only this size, without the run of a tenth of the rows that memory is compared with",
    )
    arguments = parser.parse_args()
    nodes, edges = (5_000_000, 20_000_000) if arguments.full else (arguments.nodes, arguments.edges)
    directory = Path(tempfile.mkdtemp(prefix="omnigraph-bench-"))
    try:
        before: list[Peaks] | None = None
        for part in (1,) if arguments.alone else (10, 1):
            print(f"{nodes // part:,} nodes and {edges // part:,} edges on {arguments.master}", flush=True)
            size = nodes // part, edges // part, arguments.rounds, arguments.master, arguments.heap
            peaks = run_in_process(measure_size, *size, directory)
            if before is not None:
                report_growth(before, peaks)
            before = peaks
    finally:
        shutil.rmtree(directory)


if __name__ == "__main__":
    main()
