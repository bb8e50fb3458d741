"""Measure what branches cost: create, diff, merge and delete, beside the alternatives that need no branches.

Each operation is measured on graphs with few and many rows, and few and many tables. Creating a branch and a fast
forward should cost the same on all of them; the cost of a merge and a diff should depend on the number of changed rows.
The alternatives are measured in the same run: a copy of the directory, a branch of each Lance table, a copy of a DuckDB
file, and DuckDB's EXCEPT for the diff. Absolute times depend on the machine; compare ratios within one run.
"""

import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

import lance
import numpy as np
import pyarrow as pa

import omnigraph as og
from omnigraph.options import Durability, Options
from omnigraph.runtime import Runtime
from omnigraph.storage.lance_table import read_io_counts
from omnigraph.telemetry import format_bytes

SIZES = ((3, 1_000), (3, 1_000_000), (217, 1_000))
"""The number of tables and rows of each graph; all rows are in one table."""
CHANGED_ROWS = 100
ROUNDS = 5
OPTIONS = Options(durability=Durability.OS)


@dataclass
class Measurement:
    """The times of several runs, and the requests and bytes of the last one."""

    times: list[float] = field(default_factory=list)
    requests: int | None = None
    read: int | None = None
    written: int | None = None

    @property
    def ms(self) -> float:
        """The median time in milliseconds."""
        return statistics.median(self.times) * 1_000

    def format_cells(self) -> str:
        """Return the time, requests and bytes as cells of a table."""
        requests = "" if self.requests is None else f"{self.requests:6} requests"
        moved = "" if self.read is None else f"{format_bytes(self.read):>10} read"
        moved += "" if self.written is None else f"{format_bytes(self.written):>10} written"
        return f"{self.ms:11.2f} ms{requests:>17}{moved}"


def build_rows(first: int, count: int, value: int = 0) -> pa.Table:
    """Return rows with consecutive keys from `first` on."""
    numbers = np.arange(first, first + count)
    names = pa.array([f"p{number:08}" for number in numbers])
    return pa.table({"k": names, "n": pa.array(numbers % 9_973 + value), "t": pa.array([f"text {n}" for n in numbers])})


def build_graph(root: Path, tables: int, count: int) -> og.Graph:
    """Create a graph with `tables` tables, and load `count` rows into the first one."""
    extra = "\n".join(f"node T{number} {{ k: String @key }}" for number in range(tables - 2))
    schema = f"node P {{ k: String @key  n: I64  t: String }}\nedge E: P -> P\n{extra}"
    graph = og.create_graph(str(root), schema, runtime=Runtime(options=OPTIONS))
    graph.load(nodes={"P": build_rows(0, count)}, mode="append")
    graph.optimize()
    return graph


def measure_directory(path: str) -> int:
    """Return the total size of all files below a directory, in bytes."""
    return sum(file.stat().st_size for file in Path(path).rglob("*") if file.is_file())


class BranchBenchmark:
    """Measure branch operations on one graph."""

    def __init__(self, graph: og.Graph, count: int) -> None:
        self._graph = graph
        self._count = count
        self._number = 0
        self.results: dict[str, Measurement] = {}

    def run(self) -> None:
        """Run all operations in turns, so that other load on the machine affects each of them alike."""
        for _ in range(ROUNDS):
            self._number += 1
            name = f"b{self._number}"
            self._measure("branch create", lambda name=name: self._graph.branches.create(name))  # type: ignore[misc]
            self._change(name, 1)
            self._measure("diff of 100 rows", lambda name=name: self._graph.diff("main", name).counts())  # type: ignore[misc]
            self._measure("fast forward", lambda name=name: self._graph.merge(name))  # type: ignore[misc]
            self._graph.branches.create(f"{name}-m")
            self._change(f"{name}-m", 2)
            self._graph.mutate(f'query q() {{ update P set {{ n: {self._number} }} where k = "p{0:08}" }}')
            self._measure("merge of 100 rows", lambda name=name: self._graph.merge(f"{name}-m"))  # type: ignore[misc]
            self._measure("branch delete", lambda name=name: self._graph.branches.delete(name))  # type: ignore[misc]

    def _change(self, branch: str, value: int) -> None:
        """Change `CHANGED_ROWS` rows of a branch."""
        changed = build_rows(self._count // 2, CHANGED_ROWS, value=self._number * 10 + value)
        self._graph.load(nodes={"P": changed}, mode="merge", branch=branch)

    def _measure(self, name: str, action: Callable[[], object]) -> None:
        measurement = self.results.setdefault(name, Measurement())
        before = read_io_counts()
        size = measure_directory(self._graph.uri)
        with self._graph._session.runtime.telemetry.count_requests() as requests:  # noqa: SLF001 - only tests and benches count
            start = time.perf_counter()
            action()
            measurement.times.append(time.perf_counter() - start)
        measurement.requests = requests.count()
        measurement.read = read_io_counts().nbytes - before.nbytes
        measurement.written = measure_directory(self._graph.uri) - size


def measure(action: Callable[[], object], times: int = 3) -> Measurement:
    """Return the times of an alternative; its requests and bytes are not counted."""
    measurement = Measurement()
    for _ in range(times):
        start = time.perf_counter()
        action()
        measurement.times.append(time.perf_counter() - start)
    return measurement


def measure_alternatives(directory: Path, graph: og.Graph, tables: int, count: int) -> dict[str, Measurement]:
    """Measure the alternatives on the same rows: a copy, or one Lance branch per table."""
    numbers = iter(range(10**6))
    results = {
        "copy of the directory": measure(lambda: shutil.copytree(graph.uri, directory / f"copy-{next(numbers)}"))
    }
    datasets = [
        lance.write_dataset(build_rows(0, count if number == 0 else 1), str(directory / f"lance-{number}"))
        for number in range(tables)
    ]

    def branch_each() -> None:
        name = f"b{next(numbers)}"
        for dataset in datasets:
            dataset.create_branch(name)

    results["Lance branch of each table"] = measure(branch_each)
    if find_spec("duckdb") is not None:
        results |= measure_duckdb(directory, count)
    return results


def measure_duckdb(directory: Path, count: int) -> dict[str, Measurement]:
    """Measure a copy of a DuckDB file, and a row-by-row diff of two of its tables."""
    duckdb = import_module("duckdb")
    file = directory / "peer.duckdb"
    with duckdb.connect(str(file)) as connection:
        connection.register("rows", build_rows(0, count))
        connection.execute("create table p as select * from rows")
        connection.execute("create table q as select * from rows")
        low, high = f"p{count // 2:08}", f"p{count // 2 + CHANGED_ROWS:08}"
        connection.execute(f"update q set n = n + 1 where k >= '{low}' and k < '{high}'")
        compare = "select count(*) from ((from q except from p) union all (from p except from q))"
        diff = measure(lambda: connection.execute(compare).fetchall())
    numbers = iter(range(100))
    return {
        "copy of a DuckDB file": measure(lambda: shutil.copyfile(file, directory / f"duck-{next(numbers)}")),
        "DuckDB diff, EXCEPT": diff,
    }


def print_ratios(results: dict[str, Measurement]) -> None:
    """Print the time of each alternative divided by that of the graph's operation."""
    for ours, plain in (
        ("branch create", "copy of the directory"),
        ("branch create", "Lance branch of each table"),
        ("branch create", "copy of a DuckDB file"),
        ("diff of 100 rows", "DuckDB diff, EXCEPT"),
    ):
        if plain in results:
            print(f"  {plain + ' / ' + ours:50}{results[plain].ms / results[ours].ms:10.2f}×")


def main() -> None:
    """Measure all sizes; `branches.py ROWS` limits the rows of each graph."""
    max_rows = int(sys.argv[1]) if len(sys.argv) > 1 else max(count for _, count in SIZES)
    by_size: dict[tuple[int, int], dict[str, Measurement]] = {}
    for tables, count in SIZES:
        size = (tables, min(count, max_rows))
        with tempfile.TemporaryDirectory(prefix="omnigraph-bench-") as directory:
            graph = build_graph(Path(directory) / "g", *size)
            plain = measure_alternatives(Path(directory), graph, *size)  # first: branches make the directory larger
            benchmark = BranchBenchmark(graph, size[1])
            benchmark.run()
        by_size[size] = {**benchmark.results, **plain}
        print(f"\n{size[0]} tables, {size[1]:,} rows")
        for name, measured in by_size[size].items():
            print(f"  {name:28}{measured.format_cells()}")
        print_ratios(by_size[size])
    (small, *_), first = list(by_size), next(iter(by_size.values()))
    print(f"\nrelative to {small[0]} tables and {small[1]:,} rows: time, requests")
    for size, results in list(by_size.items())[1:]:
        print(f"  {size[0]} tables, {size[1]:,} rows")
        for name, measured in results.items():
            if measured.requests is None:
                continue
            requests = measured.requests / (first[name].requests or 1)
            print(f"    {name:26}{measured.ms / first[name].ms:8.2f}×{requests:8.2f}×")


if __name__ == "__main__":
    main()
