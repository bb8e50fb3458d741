"""What a load on Spark costs: with all checks, beside Spark writing the same rows to Parquet without any.

Nodes and edges come from graph JSONL and from Parquet; the yardstick reads the same data with Spark's own readers (of
JSONL, one file per type, by a schema) and writes Parquet. Absolute times belong to the machine, and so do ratios of
wall times on a busy one: processor seconds of all processes (driver, JVM, Python workers) stand beside them. Memory is
the peak of each process, of rows and ten times as many; each size has processes of its own, and inputs are made by
another one, whose memory is no load's. The heap of the JVM is fixed (`--heap`), because it grows to whatever it may
have before anybody clears it up: what is compared is what loads need. Merges change one row in a hundred, which the
driver does, and every other row, which executors do: the latter also with a bad record, which is left out.

Without arguments 1M and 10M rows; `--full`: 2.5M and 25M (5M nodes, 20M edges), which takes about 20 minutes and 10 GB
of disk. `--nodes N --edges M --rounds R --heap 1g --alone` as you like. Everything is told as soon as it is known, and
all files go, also when it is interrupted.
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

from loads import SCHEMA, json_text, knows, people
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
SECONDS_BETWEEN = 0.05
ROLES = ("driver", "worker", "JVM")
T = TypeVar("T")


# --- what processes use --------------------------------------------------------------------------------


@dataclass
class Usage:
    """Processor seconds of this process and all below it, and the peak of their memory by role, in bytes."""

    seconds: float = 0.0
    peaks: dict[str, int] = field(default_factory=dict)


class Watch:
    """Looks at this process and all below it until it is stopped; processes that end in between count by last look."""

    def __init__(self) -> None:
        self._stop = threading.Event()
        self._seconds: dict[int, float] = {}
        self._peaks: dict[str, int] = {}
        self._look()
        self._before = dict(self._seconds)
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def stop(self) -> Usage:
        """What was used since the start."""
        self._stop.set()
        self._thread.join()
        self._look()
        used = sum(now - self._before.get(pid, 0.0) for pid, now in self._seconds.items())
        return Usage(used, self._peaks)

    def _run(self) -> None:
        while not self._stop.wait(SECONDS_BETWEEN):
            self._look()

    def _look(self) -> None:
        parents, facts = {}, {}
        for place in Path("/proc").iterdir():
            if place.name.isdigit():
                try:
                    words = (place / "stat").read_text().rpartition(")")[2].split()
                    pages = int((place / "statm").read_text().split()[1])
                except OSError:
                    continue
                parents[int(place.name)] = int(words[1])
                facts[int(place.name)] = ((int(words[11]) + int(words[12])) / _TICKS, pages * _PAGE)
        for pid, (seconds, memory) in facts.items():
            role = self._role(pid, parents)
            if role is not None:
                self._seconds[pid] = seconds
                self._peaks[role] = max(self._peaks.get(role, 0), memory)

    @staticmethod
    def _role(pid: int, parents: dict[int, int]) -> str | None:
        own = os.getpid()
        if pid == own:
            return "driver"
        above = pid
        while above in parents and above != own:
            above = parents[above]
        if above != own:
            return None
        try:  # not by its name: a process that the JVM forks has, for a moment, the name of a thread and all its memory
            program = Path(f"/proc/{pid}/cmdline").read_bytes().partition(b"\0")[0]
        except OSError:
            return None
        return "JVM" if program.endswith(b"java") else "worker"


@dataclass
class Contestant:
    """Something that is measured: `ready` is given a directory, and gives what is done while the clock runs."""

    name: str
    ready: Callable[[Path], Callable[[], object]]
    times: list[float] = field(default_factory=list)
    usages: list[Usage] = field(default_factory=list)

    @property
    def wall(self) -> float:
        """The middle time."""
        return statistics.median(self.times)

    @property
    def processor(self) -> float:
        """The middle of the processor seconds."""
        return statistics.median(usage.seconds for usage in self.usages)

    def peak(self, role: str) -> int:
        """The largest process of a role, in MB."""
        return max((usage.peaks.get(role, 0) for usage in self.usages), default=0) // 2**20


def measured(contestants: list[Contestant], rounds: int, place: Path) -> None:
    """Run them in turns."""
    for number in range(rounds):
        for one in contestants:
            target = place / f"{number}"
            target.mkdir()
            work = one.ready(target)
            gc.collect()
            watch, start = Watch(), time.perf_counter()
            work()
            one.times.append(time.perf_counter() - start)
            one.usages.append(watch.stop())
            shutil.rmtree(target)


# --- data ----------------------------------------------------------------------------------------------


@dataclass
class Data:
    """The same rows as Parquet and as graph JSONL, a file for each type."""

    place: Path
    rows: int

    def of(self, name: str, ending: str) -> Path:
        """The rows of one type."""
        return self.place / f"{name}.{ending}"

    def lines(self) -> LoadInput:
        """All rows as graph JSONL."""
        return LoadInput(graph=tuple(GraphSource(data=self.of(name, "jsonl")) for name in ("Person", "Knows")))

    def tables(self) -> LoadInput:
        """All rows as Parquet."""
        person = TypedSource(type="Person", is_edge=False, data=self.of("Person", "parquet"))
        return LoadInput(typed=(person, TypedSource(type="Knows", is_edge=True, data=self.of("Knows", "parquet"))))


def made(place: Path, nodes: int, edges: int) -> Data:
    """Write the data."""
    place.mkdir(parents=True)
    data = Data(place, nodes + edges)
    for name, tables in (("Person", people(nodes)), ("Knows", knows(nodes, edges))):
        with data.of(name, "jsonl").open("wb") as lines:
            writer: pa_parquet.ParquetWriter | None = None
            for table in tables:
                writer = writer or pa_parquet.ParquetWriter(data.of(name, "parquet"), table.schema)
                writer.write_table(table)
                lines.write(json_text(name, table))
            if writer is not None:
                writer.close()
    return data


def elsewhere(make: Callable[..., T], *given: object, **named: object) -> T:
    """Made by a process that is gone afterwards, with all of its memory."""
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        return pool.submit(make, *given, **named).result()


# --- contestants ---------------------------------------------------------------------------------------


def graph_at(place: Path) -> Session:
    """An empty graph."""
    runtime = Runtime(options=Options(durability=Durability.OS))
    return create(str(place / "graph"), Source(SCHEMA, "bench.pg"), actor="bench", runtime=runtime)


def loading(spark: SparkSession, given: LoadInput) -> Callable[[Path], Callable[[], object]]:
    """A load into a new graph."""

    def ready(place: Path) -> Callable[[], object]:
        graph = graph_at(place)
        call = LoadCall(input=given, mode=LoadMode.APPEND, actor="bench")
        return lambda: load(graph, call, build_reader(spark=spark))

    return ready


_SHAPES = {
    "Person": "type string, data struct<name string, age int, score double, born date, bio string>",
    "Knows": "edge string, `from` string, `to` string, data struct<since date, weight double>",
}
"""What Spark is told of graph JSONL, so that it need not find out."""


def parquet_by_spark(spark: SparkSession, data: Data, ending: str) -> Callable[[Path], Callable[[], object]]:
    """Spark's own readers and its own writer, without any check."""

    def work(place: Path) -> None:
        for name, shape in _SHAPES.items():
            path = str(data.of(name, ending))
            rows = spark.read.parquet(path) if ending == "parquet" else spark.read.schema(shape).json(path)
            if ending == "jsonl":
                rows = rows.select("data.*", *(column for column in ("from", "to") if column in rows.columns))
            rows.write.parquet(str(place / name))

    return lambda place: lambda: work(place)


def compared(spark: SparkSession, data: Data, rounds: int, place: Path) -> list[Contestant]:
    """Loads beside the yardsticks."""
    contestants = [
        Contestant("load of graph JSONL", loading(spark, data.lines())),
        Contestant("Spark: JSONL to Parquet", parquet_by_spark(spark, data, "jsonl")),
        Contestant("load of Parquet", loading(spark, data.tables())),
        Contestant("Spark: Parquet to Parquet", parquet_by_spark(spark, data, "parquet")),
    ]
    measured(contestants, rounds, place)
    return contestants


def changed(source: Path, target: Path, every: int, by: float, *, first: int = 0, is_bad: bool = False) -> None:
    """One row in so many, from `first` on, with another score; and where asked, the last of them once more."""
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


def people_in(path: Path) -> LoadInput:
    """Nodes of a file."""
    return LoadInput(typed=(TypedSource(type="Person", is_edge=False, data=path),))


def scanned(graph: Session) -> int:
    """All ids of the nodes, a batch at a time."""
    table = graph.open_tables(graph.resolve_snapshot()).open_table("node:Person")
    return sum(batch.num_rows for batch in table.iter_batches(["id"]))


def merging(spark: SparkSession, data: Data, place: Path) -> list[Contestant]:
    """A merge that changes one row in a hundred, beside an append of as many to an empty graph, and a scan of all ids.

    The graph is loaded once, and every merge of the first contestant has a copy of that. The last one merges into the
    same graph again and again, each time other rows: what was replaced lies there until somebody optimises.
    """
    rounds = 5
    paths = [place / f"few-{number}.parquet" for number in range(rounds)]
    for number, path in enumerate(paths):
        elsewhere(changed, data.of("Person", "parquet"), path, 100, number + 1.0, first=7 * number)
    given = [people_in(path) for path in paths]
    full = graph_at(place)
    whole = LoadInput(typed=(TypedSource(type="Person", is_edge=False, data=data.of("Person", "parquet")),))
    load(full, LoadCall(input=whole, mode=LoadMode.APPEND, actor="bench"), build_reader(spark=spark))
    fresh = place / "fresh"
    shutil.copytree(place / "graph", fresh)

    def opened(path: Path) -> Session:
        """A session that has looked at the graph, as that of the append has, which made its own."""
        runtime = Runtime(options=Options(durability=Durability.OS))
        graph = open_session(str(path), is_read_only=False, runtime=runtime)
        scanned(graph)
        return graph

    def merged(graph: Session, one: LoadInput) -> Callable[[], object]:
        call = LoadCall(input=one, mode=LoadMode.MERGE, actor="bench")
        return lambda: load(graph, call, build_reader(spark=spark))

    def into_a_copy(target: Path) -> Callable[[], object]:
        return merged(opened(Path(shutil.copytree(fresh, target / "graph"))), given[0])

    others = iter(given)
    contestants = [
        Contestant("merge that changes 1 %", into_a_copy),
        Contestant("append of that 1 %", loading(spark, given[0])),
        Contestant("one scan of the ids", lambda _: partial(scanned, opened(fresh))),
        Contestant("merge behind other merges", lambda _: merged(full, next(others))),
    ]
    measured(contestants, rounds, place)
    shutil.rmtree(fresh)
    return contestants


def merging_many(spark: SparkSession, data: Data, place: Path, *, is_bad: bool = False) -> Contestant:
    """A merge that changes every other row of the graph that `merging` has left, filled and written by executors."""
    path = place / "many.parquet"
    source = data.of("Person", "parquet")
    elsewhere(changed, source, path, 2, 200.0 if is_bad else 100.0, is_bad=is_bad)
    runtime = Runtime(options=Options(durability=Durability.OS))
    full = open_session(str(place / "graph"), is_read_only=False, runtime=runtime)
    aside = place / "aside" if is_bad else None
    call = LoadCall(input=people_in(path), mode=LoadMode.MERGE, actor="bench", on_error=aside)
    how = build_reader(spark=spark, loading=SparkLoadOptions(max_local_merge_rows=0))
    name = "the same, and a bad record" if is_bad else "merge that changes 50 %"
    found = Contestant(name, lambda _: lambda: load(full, call, how))
    measured([found], 1, place)
    if aside is not None:
        shutil.rmtree(aside)
    return found


# --- telling -------------------------------------------------------------------------------------------


def told(contestants: list[Contestant], rows: int) -> None:
    """A line for each."""
    for one in contestants:
        rate = rows / one.wall / 1e6
        print(
            f"  {one.name:28} {one.wall:7.1f} s {one.processor:7.1f} cpu-s {rate:6.2f} M rows/s"
            f"   driver {one.peak('driver')} MB, worker {one.peak('worker')} MB, JVM {one.peak('JVM')} MB",
            flush=True,
        )


@dataclass(frozen=True)
class Peaks:
    """The most memory that the processes of a contestant had, in MB by role."""

    name: str
    of: dict[str, int]


def ratio(one: Contestant, other: Contestant) -> None:
    """How much more."""
    print(
        f"  {one.name} / {other.name}: {one.wall / other.wall:.2f} of the time,"
        f" {one.processor / other.processor:.2f} of the processor",
        flush=True,
    )


def grown(few: list[Peaks], many: list[Peaks]) -> None:
    """What ten times as many rows take more of memory."""
    for one, other in zip(few, many, strict=True):
        more = ", ".join(f"{role} {other.of[role] / max(one.of[role], 1):.2f}" for role in ROLES)
        print(f"  {one.name:28} memory for ten times as many rows: {more}", flush=True)


def one_size(nodes: int, edges: int, rounds: int, master: str, heap: str, place: Path) -> list[Peaks]:
    """Everything at one size, in a process of its own; the peaks of its loads."""
    spark = spark_session(master, **{"spark.driver.memory": heap})
    spark.range(4).mapInArrow(lambda batches: batches, "id long").collect()  # Python workers are there
    data = elsewhere(made, place / f"{nodes}", nodes, edges)
    found = compared(spark, data, rounds, place)
    told(found, data.rows)
    ratio(found[0], found[1])
    ratio(found[2], found[3])
    merged = merging(spark, data, place)
    told(merged, nodes // 100)
    least = merged[1].wall + merged[2].wall, merged[1].processor + merged[2].processor
    for name, one in (("merge", merged[0]), ("merge behind others", merged[3])):
        print(
            f"  {name} / (append + scan): {one.wall / least[0]:.2f} of the time,"
            f" {one.processor / least[1]:.2f} of the processor",
            flush=True,
        )
    for is_bad in (False, True):
        many = merging_many(spark, data, place, is_bad=is_bad)
        told([many], nodes // 2)
        found.append(many)
    shutil.rmtree(data.place)
    shutil.rmtree(place / "graph")
    return [Peaks(one.name, {role: one.peak(role) for role in ROLES}) for one in found]


def main() -> None:
    """Measure."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--nodes", type=int, default=2_000_000)
    parser.add_argument("--edges", type=int, default=8_000_000)
    parser.add_argument("--full", action="store_true", help="5M nodes and 20M edges")
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--master", default="local[2]")
    parser.add_argument("--heap", default="1g", help="of the JVM")
    parser.add_argument("--alone", action="store_true", help="without a tenth of the rows, to compare memory")
    arguments = parser.parse_args()
    nodes, edges = (5_000_000, 20_000_000) if arguments.full else (arguments.nodes, arguments.edges)
    place = Path(tempfile.mkdtemp(prefix="omnigraph-bench-"))
    try:
        before: list[Peaks] | None = None
        for part in (1,) if arguments.alone else (10, 1):
            print(f"{nodes // part:,} nodes and {edges // part:,} edges on {arguments.master}", flush=True)
            size = nodes // part, edges // part, arguments.rounds, arguments.master, arguments.heap
            found = elsewhere(one_size, *size, place)
            if before is not None:
                grown(before, found)
            before = found
    finally:
        shutil.rmtree(place)


if __name__ == "__main__":
    main()
