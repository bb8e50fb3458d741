"""What maintenance is worth: questions and writes after many small commits, with and without `optimize`; and its speed.

Two graphs get the same commits. One is optimised every so often, as a timer would do. Ratios within one run count;
absolute times belong to the machine. Then one table of many fragments is compacted and indexed, in this process and by
Spark on two cores, where Spark is installed.
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
"""How often `optimize` runs meanwhile."""
START_ROWS = 100_000
MERGED_ROWS, FRAGMENTS = 2_000_000, 100
SCHEMA = "node P { k: String @key  n: I64 @index }\nedge E: P -> P\n"
OPTIONS = Options(durability=Durability.OS, derived_cache=False)
QUESTIONS = {
    "by key": 'query q() { match { $p: P { k: "p00000077" } } return { $p.n } }',
    "by value": "query q() { match { $p: P { n: 77 } } return { count(*) as n } }",
    "sum": "query q() { match { $p: P } return { sum($p.n) as n } }",
}


def rows(first: int, count: int) -> pa.Table:
    """People, numbered."""
    numbers = range(first, first + count)
    return pa.table({"k": [f"p{number:08}" for number in numbers], "n": [number % 9_973 for number in numbers]})


def seeded(root: Path) -> og.Graph:
    """A graph of many people."""
    graph = og.create_graph(str(root), SCHEMA, runtime=Runtime(options=OPTIONS))
    graph.load(nodes={"P": rows(0, START_ROWS)}, mode="append")
    return graph


def median_ms(action: Callable[[], object], times: int = 7) -> float:
    """The middle time of some runs."""
    found = []
    for _ in range(times):
        start = time.perf_counter()
        action()
        found.append(time.perf_counter() - start)
    return statistics.median(found) * 1_000


def commit(graph: og.Graph, number: int) -> None:
    """One of the small commits: a new row, a change, and now and then a delete."""
    match number % 4:
        case 0 | 1:
            body = f'insert P {{ k: "q{number:08}", n: {number} }}'
        case 2:
            body = f'update P set {{ n: {number} }} where k = "p{number * 7 % START_ROWS:08}"'
        case _:
            body = f'delete P where k = "q{number - 3:08}"'
    graph.mutate(f"query q() {{ {body} }}")


def measured(graph: og.Graph, number: int) -> dict[str, float]:
    """How long a cold question and a warm write take now."""

    def ask(text: str) -> object:
        return og.open_graph(graph.uri, read_only=True, runtime=Runtime(options=OPTIONS)).query(text)

    found = {name: median_ms(lambda text=text: ask(text)) for name, text in QUESTIONS.items()}  # type: ignore[misc]
    numbers = iter(range(number, number + 40, 4))
    return {**found, "write": median_ms(lambda: commit(graph, next(numbers)))}


def compare_histories(place: Path, commits: int) -> None:
    """Questions and writes at the start, and after the commits, with and without maintenance."""
    left, kept = seeded(place / "left"), seeded(place / "kept")
    start = measured(left, 10**7)
    spent, every = 0.0, max(commits // ROUNDS, 1)
    for number in range(commits):
        commit(left, number)
        commit(kept, number)
        if number % every == every - 1:
            begun = time.perf_counter()
            kept.optimize()
            spent += time.perf_counter() - begun
    after = {"left alone": measured(left, 2 * 10**7), "optimised": measured(kept, 2 * 10**7)}
    print(f"\nafter {commits:,} commits of a row, on {START_ROWS:,} rows (ms; in brackets: times the start)")
    print(f"{'':12}{'start':>10}" + "".join(f"{name:>22}" for name in after))
    for name, before in start.items():
        cells = [f"{found[name]:.1f} ({found[name] / before:.1f}×)" for found in after.values()]
        print(f"{name:12}{before:10.1f}" + "".join(f"{cell:>22}" for cell in cells))
    fragments = [len(graph.table("P").get_fragments()) for graph in (left, kept)]
    print(f"fragments: {fragments[0]:,} left alone, {fragments[1]:,} optimised; {spent:.1f} s of maintenance in all")


def compare_engines(place: Path, total: int) -> None:
    """Compaction and indexes of one table of many fragments, by this process and by Spark."""
    engines = ["local", *(["spark"] if find_spec("pyspark") is not None else [])]
    print(f"\n{total:,} rows in {FRAGMENTS} fragments, compacted and indexed")
    for engine in engines:
        graph = og.create_graph(str(place / engine), SCHEMA, runtime=Runtime(options=OPTIONS))
        for part in range(FRAGMENTS):
            graph.load(nodes={"P": rows(part * total // FRAGMENTS, total // FRAGMENTS)}, mode="append")
        master = "local[2]" if engine == "spark" else None
        if engine == "spark":
            graph.optimize(types=["E"], engine=engine, master=master)  # starts Spark
        start = time.perf_counter()
        graph.optimize(engine=engine, master=master)
        seconds = time.perf_counter() - start
        print(f"{engine:8}{seconds:8.1f} s {total / seconds:12,.0f} rows/s")


def main() -> None:
    """Run both; sizes can be given: commits, rows."""
    sizes = [int(text) for text in sys.argv[1:]]
    commits = sizes[0] if sizes else COMMITS
    total = sizes[1] if len(sizes) > 1 else MERGED_ROWS
    with tempfile.TemporaryDirectory(prefix="omnigraph-bench-") as place:
        compare_histories(Path(place), commits)
        compare_engines(Path(place), total)


if __name__ == "__main__":
    main()
