"""What branches cost: making one, merging it, looking at the difference; and what people do without them.

Every operation is measured on graphs of few and many rows, few and many tables. Branching and a fast forward should
cost the same on all of them; a merge and a diff should cost what changed. The plain ways are measured in the same run:
a copy of the directory, a branch of each Lance table, a copy of a DuckDB file, and DuckDB's EXCEPT for the difference.
Absolute times belong to the machine: what counts are ratios within one run.
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
"""Tables and rows of the graphs; the rows are in one table."""
CHANGED = 100
ROUNDS = 5
OPTIONS = Options(durability=Durability.OS)


@dataclass
class Measured:
    """The times of some runs, and what one run asked of the store."""

    times: list[float] = field(default_factory=list)
    requests: int | None = None
    read: int | None = None
    written: int | None = None

    @property
    def ms(self) -> float:
        """The middle time."""
        return statistics.median(self.times) * 1_000

    def line(self) -> str:
        """One line of a table."""
        asked = "" if self.requests is None else f"{self.requests:6} requests"
        moved = "" if self.read is None else f"{format_bytes(self.read):>10} read"
        moved += "" if self.written is None else f"{format_bytes(self.written):>10} written"
        return f"{self.ms:11.2f} ms{asked:>17}{moved}"


def rows(first: int, count: int, value: int = 0) -> pa.Table:
    """People, numbered."""
    numbers = np.arange(first, first + count)
    names = pa.array([f"p{number:08}" for number in numbers])
    return pa.table({"k": names, "n": pa.array(numbers % 9_973 + value), "t": pa.array([f"text {n}" for n in numbers])})


def graph_of(root: Path, tables: int, count: int) -> og.Graph:
    """A graph of so many tables, with all rows in the first one."""
    extra = "\n".join(f"node T{number} {{ k: String @key }}" for number in range(tables - 2))
    schema = f"node P {{ k: String @key  n: I64  t: String }}\nedge E: P -> P\n{extra}"
    graph = og.create_graph(str(root), schema, runtime=Runtime(options=OPTIONS))
    graph.load(nodes={"P": rows(0, count)}, mode="append")
    graph.optimize()
    return graph


def size_of(place: str) -> int:
    """The bytes of all files of a directory."""
    return sum(path.stat().st_size for path in Path(place).rglob("*") if path.is_file())


class Contest:
    """Measures operations on one graph."""

    def __init__(self, graph: og.Graph, count: int) -> None:
        self._graph, self._count = graph, count
        self._number = 0
        self.found: dict[str, Measured] = {}

    def run(self) -> None:
        """All operations, in turns, so that a busy moment hits each of them alike."""
        for _ in range(ROUNDS):
            self._number += 1
            name = f"b{self._number}"
            self._timed("branch create", lambda name=name: self._graph.branches.create(name))  # type: ignore[misc]
            self._change(name, 1)
            self._timed("diff of 100 rows", lambda name=name: self._graph.diff("main", name).counts())  # type: ignore[misc]
            self._timed("fast forward", lambda name=name: self._graph.merge(name))  # type: ignore[misc]
            self._graph.branches.create(f"{name}-m")
            self._change(f"{name}-m", 2)
            self._graph.mutate(f'query q() {{ update P set {{ n: {self._number} }} where k = "p{0:08}" }}')
            self._timed("merge of 100 rows", lambda name=name: self._graph.merge(f"{name}-m"))  # type: ignore[misc]
            self._timed("branch delete", lambda name=name: self._graph.branches.delete(name))  # type: ignore[misc]

    def _change(self, branch: str, value: int) -> None:
        """Change a hundred rows of a branch."""
        changed = rows(self._count // 2, CHANGED, value=self._number * 10 + value)
        self._graph.load(nodes={"P": changed}, mode="merge", branch=branch)

    def _timed(self, what: str, action: Callable[[], object]) -> None:
        measured = self.found.setdefault(what, Measured())
        before, size = read_io_counts(), size_of(self._graph.uri)
        with self._graph._session.runtime.telemetry.count_requests() as requests:  # noqa: SLF001 - only tests and benches count
            start = time.perf_counter()
            action()
            measured.times.append(time.perf_counter() - start)
        measured.requests = requests.count()
        measured.read = read_io_counts().nbytes - before.nbytes
        measured.written = size_of(self._graph.uri) - size


def timed(action: Callable[[], object], times: int = 3) -> Measured:
    """The times of something else."""
    measured = Measured()
    for _ in range(times):
        start = time.perf_counter()
        action()
        measured.times.append(time.perf_counter() - start)
    return measured


def plain_ways(place: Path, graph: og.Graph, tables: int, count: int) -> dict[str, Measured]:
    """What one would do without branches: the same rows, copied or branched table by table."""
    numbers = iter(range(10**6))
    found = {"copy of the directory": timed(lambda: shutil.copytree(graph.uri, place / f"copy-{next(numbers)}"))}
    made = [
        lance.write_dataset(rows(0, count if number == 0 else 1), str(place / f"lance-{number}"))
        for number in range(tables)
    ]

    def branch_each() -> None:
        name = f"b{next(numbers)}"
        for dataset in made:
            dataset.create_branch(name)

    found["Lance branch of each table"] = timed(branch_each)
    if find_spec("duckdb") is not None:
        found |= duckdb_ways(place, count)
    return found


def duckdb_ways(place: Path, count: int) -> dict[str, Measured]:
    """A DuckDB file: copied, and compared row by row with a changed copy."""
    duckdb = import_module("duckdb")
    file = place / "peer.duckdb"
    with duckdb.connect(str(file)) as connection:
        connection.register("rows", rows(0, count))
        connection.execute("create table p as select * from rows")
        connection.execute("create table q as select * from rows")
        low, high = f"p{count // 2:08}", f"p{count // 2 + CHANGED:08}"
        connection.execute(f"update q set n = n + 1 where k >= '{low}' and k < '{high}'")
        compare = "select count(*) from ((from q except from p) union all (from p except from q))"
        diff = timed(lambda: connection.execute(compare).fetchall())
    numbers = iter(range(100))
    return {
        "copy of a DuckDB file": timed(lambda: shutil.copyfile(file, place / f"duck-{next(numbers)}")),
        "DuckDB diff, EXCEPT": diff,
    }


def ratios(found: dict[str, Measured]) -> None:
    """How many times as long the plain ways take."""
    for ours, plain in (
        ("branch create", "copy of the directory"),
        ("branch create", "Lance branch of each table"),
        ("branch create", "copy of a DuckDB file"),
        ("diff of 100 rows", "DuckDB diff, EXCEPT"),
    ):
        if plain in found:
            print(f"  {plain + ' / ' + ours:50}{found[plain].ms / found[ours].ms:10.2f}×")


def main() -> None:
    """Run all sizes; `branches.py ROWS` takes so many instead of a million."""
    most = int(sys.argv[1]) if len(sys.argv) > 1 else max(count for _, count in SIZES)
    grown: dict[tuple[int, int], dict[str, Measured]] = {}
    for tables, count in SIZES:
        size = (tables, min(count, most))
        with tempfile.TemporaryDirectory(prefix="omnigraph-bench-") as place:
            graph = graph_of(Path(place) / "g", *size)
            plain = plain_ways(Path(place), graph, *size)  # before branches make the directory larger
            contest = Contest(graph, size[1])
            contest.run()
        grown[size] = {**contest.found, **plain}
        print(f"\n{size[0]} tables, {size[1]:,} rows")
        for name, measured in grown[size].items():
            print(f"  {name:28}{measured.line()}")
        ratios(grown[size])
    (small, *_), first = list(grown), next(iter(grown.values()))
    print(f"\nin times of {small[0]} tables and {small[1]:,} rows: time, requests")
    for size, found in list(grown.items())[1:]:
        print(f"  {size[0]} tables, {size[1]:,} rows")
        for name in (one for one in found if found[one].requests is not None):
            asked = (found[name].requests or 0) / (first[name].requests or 1)
            print(f"    {name:26}{found[name].ms / first[name].ms:8.2f}×{asked:8.2f}×")


if __name__ == "__main__":
    main()
