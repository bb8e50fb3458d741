"""Measure concurrent small writes: commits per second of several threads of one process, and the CPU time of each.

Three kinds: inserts of different keys, updates of different rows, and increments of one counter row. Absolute numbers
depend on the machine; compare the columns of one run. A lone thread is the yardstick: it commits without waiting.
"""

import os
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path

from omnigraph.commit.conflict import ConflictError
from omnigraph.graph import Graph
from omnigraph.lang.source import Source
from omnigraph.options import Options
from omnigraph.runtime import Runtime

THREADS = (1, 8, 64)
# Long enough for several groups of 64 on a slow disk.
SECONDS = 6.0
ROWS = 512
SCHEMA = "node Item { name: String @key  n: I64 }\n"
ADD = Source("query add($name: String) { insert Item { name: $name, n: 0 } }", "add.gq")
SET = Source("query assign($name: String, $n: I64) { update Item set { n: $n } where name = $name }", "set.gq")


def build_insert(graph: Graph, numbers: Iterator[int]) -> Callable[[int], object]:
    """Return a write that inserts a row with a new key."""
    return lambda _: graph.mutate(ADD, params={"name": f"new-{next(numbers)}"}, actor="bench")


def build_update(graph: Graph, numbers: Iterator[int]) -> Callable[[int], object]:
    """Return a write that updates a row of its own thread."""
    return lambda thread: graph.mutate(SET, params={"name": f"row-{thread}", "n": next(numbers)}, actor="bench")


def build_counter(graph: Graph, numbers: Iterator[int]) -> Callable[[int], object]:
    """Return a write that updates the one row that all threads update."""
    return lambda _: graph.mutate(SET, params={"name": "row-0", "n": next(numbers)}, actor="bench")


def run_threads(write: Callable[[int], object], threads: int, seconds: float) -> tuple[int, int]:
    """Run a write in several threads for some seconds; return the numbers of commits and of conflicts."""
    commits = [0] * threads
    conflicts = [0] * threads
    deadline = time.monotonic() + seconds

    def work(thread: int) -> None:
        while time.monotonic() < deadline:
            try:
                write(thread)
            except ConflictError:
                conflicts[thread] += 1
            else:
                commits[thread] += 1

    workers = [threading.Thread(target=work, args=(number,)) for number in range(threads)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    return sum(commits), sum(conflicts)


def measure(name: str, build: Callable[[Graph, Iterator[int]], Callable[[int], object]], threads: int) -> str:
    """Measure one kind of write on a new graph; return the line to print."""
    with tempfile.TemporaryDirectory() as directory:
        # Automatic maintenance would be measured too.
        runtime = Runtime(options=Options())
        graph = Graph.create(str(Path(directory) / "graph"), Source(SCHEMA, "bench.pg"), actor="bench", runtime=runtime)
        records = "\n".join(f'{{"type":"Item","data":{{"name":"row-{n}","n":0}}}}' for n in range(ROWS))
        (Path(directory) / "rows.jsonl").write_text(records)
        graph.load(Path(directory) / "rows.jsonl", mode="append", actor="bench")
        write = build(graph, count())
        write(0)
        cpu, start = time.process_time(), time.monotonic()
        commits, conflicts = run_threads(write, threads, SECONDS)
        cpu, elapsed = time.process_time() - cpu, time.monotonic() - start
    return (
        f"{name:<28}{threads:>8}{commits / elapsed:>12.1f}{1000 * cpu / max(commits, 1):>14.1f}"
        f"{100 * conflicts / max(commits + conflicts, 1):>12.1f}"
    )


def main() -> None:
    """Print a line for each kind of write and number of threads."""
    print(f"{os.cpu_count()} cores")
    print(f"{'':<28}{'threads':>8}{'commits/s':>12}{'CPU ms each':>14}{'conflict %':>12}")
    kinds = {"inserts": build_insert, "updates of different rows": build_update, "updates of one row": build_counter}
    for name, build in kinds.items():
        for threads in [int(text) for text in sys.argv[1:]] or THREADS:
            print(measure(name, build, threads), flush=True)


if __name__ == "__main__":
    main()
