"""Measure maintenance: queries and writes after many small commits, with and without `optimize`; and its throughput.

Two graphs get the same commits. One of them is optimised at regular intervals, as a timer would do. Compare ratios
within one run; absolute times depend on the machine. Then one table of many fragments is compacted and indexed, in this
process and by Spark on two cores, if Spark is installed.
"""

import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path

import pyarrow as pa

import omnigraph as og
from omnigraph.options import Durability, Options
from omnigraph.runtime import Runtime

COMMITS = 5_000
ROUNDS = 20
"""The number of `optimize` calls during the commits."""
START_ROWS = 100_000
MERGED_ROWS, FRAGMENTS = 2_000_000, 100
SCHEMA = "node P { k: String @key  n: I64 @index }\nedge E: P -> P\n"
OPTIONS = Options(durability=Durability.OS, derived_cache=False)
QUERIES = {
    "by key": 'query q() { match { $p: P { k: "p00000077" } } return { $p.n } }',
    "by value": "query q() { match { $p: P { n: 77 } } return { count(*) as n } }",
    "sum": "query q() { match { $p: P } return { sum($p.n) as n } }",
}


def build_rows(first: int, count: int) -> pa.Table:
    """Return rows with consecutive keys from `first` on."""
    numbers = range(first, first + count)
    return pa.table({"k": [f"p{number:08}" for number in numbers], "n": [number % 9_973 for number in numbers]})


def create_graph(root: Path) -> og.Graph:
    """Create a graph with `START_ROWS` rows."""
    graph = og.create_graph(str(root), SCHEMA, runtime=Runtime(options=OPTIONS))
    graph.load(nodes={"P": build_rows(0, START_ROWS)}, mode="append")
    return graph


def measure_ms(action: Callable[[], object], times: int = 7) -> float:
    """Return the median time of several runs, in milliseconds."""
    seconds = []
    for _ in range(times):
        start = time.perf_counter()
        action()
        seconds.append(time.perf_counter() - start)
    return statistics.median(seconds) * 1_000


def commit(graph: og.Graph, number: int) -> None:
    """Make one of the small commits: two of four insert a row, one updates a row and one deletes a row."""
    match number % 4:
        case 0 | 1:
            body = f'insert P {{ k: "q{number:08}", n: {number} }}'
        case 2:
            body = f'update P set {{ n: {number} }} where k = "p{number * 7 % START_ROWS:08}"'
        case _:
            body = f'delete P where k = "q{number - 3:08}"'
    graph.mutate(f"query q() {{ {body} }}")


def measure(graph: og.Graph, number: int) -> dict[str, float]:
    """Return the milliseconds of each query on a newly opened graph, and of a write."""

    def run_query(text: str) -> object:
        return og.open_graph(graph.uri, read_only=True, runtime=Runtime(options=OPTIONS)).query(text)

    times = {name: measure_ms(lambda text=text: run_query(text)) for name, text in QUERIES.items()}  # type: ignore[misc]
    numbers = iter(range(number, number + 40, 4))
    return {**times, "write": measure_ms(lambda: commit(graph, next(numbers)))}


def compare_histories(directory: Path, commits: int) -> None:
    """Measure queries and writes at the start and after the commits, with and without maintenance."""
    plain = create_graph(directory / "plain")
    optimized = create_graph(directory / "optimized")
    start = measure(plain, 10**7)
    seconds = 0.0
    interval = max(commits // ROUNDS, 1)
    for number in range(commits):
        commit(plain, number)
        commit(optimized, number)
        if number % interval == interval - 1:
            started = time.perf_counter()
            optimized.optimize()
            seconds += time.perf_counter() - started
    after = {"not optimised": measure(plain, 2 * 10**7), "optimised": measure(optimized, 2 * 10**7)}
    print(f"\nafter {commits:,} commits of one row, on {START_ROWS:,} rows: ms (ratio to the start)")
    print(f"{'':12}{'start':>10}" + "".join(f"{name:>22}" for name in after))
    for name, before in start.items():
        cells = [f"{times[name]:.1f} ({times[name] / before:.1f}×)" for times in after.values()]
        print(f"{name:12}{before:10.1f}" + "".join(f"{cell:>22}" for cell in cells))
    fragments = [len(graph.table("P").get_fragments()) for graph in (plain, optimized)]
    print(f"fragments: {fragments[0]:,} not optimised, {fragments[1]:,} optimised; {seconds:.1f} s of maintenance")


def compare_engines(directory: Path, total: int) -> None:
    """Measure compaction and indexing of one table of many fragments, in this process and by Spark."""
    engines = ["local", *(["spark"] if find_spec("pyspark") is not None else [])]
    print(f"\n{total:,} rows in {FRAGMENTS} fragments, compacted and indexed")
    for engine in engines:
        graph = og.create_graph(str(directory / engine), SCHEMA, runtime=Runtime(options=OPTIONS))
        for part in range(FRAGMENTS):
            graph.load(nodes={"P": build_rows(part * total // FRAGMENTS, total // FRAGMENTS)}, mode="append")
        master = "local[2]" if engine == "spark" else None
        if engine == "spark":
            graph.optimize(types=["E"], engine=engine, master=master)  # starts Spark outside of the measurement
        start = time.perf_counter()
        graph.optimize(engine=engine, master=master)
        seconds = time.perf_counter() - start
        print(f"{engine:8}{seconds:8.1f} s {total / seconds:12,.0f} rows/s")


def main() -> None:
    """Run both comparisons; `upkeep.py COMMITS ROWS` sets the sizes."""
    sizes = [int(text) for text in sys.argv[1:]]
    commits = sizes[0] if sizes else COMMITS
    total = sizes[1] if len(sizes) > 1 else MERGED_ROWS
    with tempfile.TemporaryDirectory(prefix="omnigraph-bench-") as directory:
        compare_histories(Path(directory), commits)
        compare_engines(Path(directory), total)


if __name__ == "__main__":
    main()
