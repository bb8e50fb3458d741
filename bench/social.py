"""Compare reads on a social graph to LadybugDB and DuckDB: same data, same run, in turns, equal results required.

Prints medians in milliseconds and ratios. Warm: after a first round that is not counted. Cold: a new process that
imports what it needs, opens the database and runs one query; an earlier process has compiled the modules, as an
installer does. `--people N` sets the size of the graph, `--rounds N` the number of rounds.
"""

import argparse
import gc
import importlib.util
import math
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from social_queries import SMALL, STUDY, Question

if TYPE_CHECKING:  # a process of the cold measurement must not import numpy and pyarrow for another engine
    from social_data import Social

Row = tuple[Any, ...]
OURS, LADYBUG, DUCKDB = "omnigraph", "LadybugDB", "DuckDB"


class Ours:
    """This engine."""

    name = OURS

    def __init__(self, root: Path) -> None:
        import omnigraph as og

        self.graph = og.open_graph(str(root / "omni"), keep_derived=True)

    @staticmethod
    def load(root: Path, data: "Social") -> None:
        """Load all types in one commit."""
        import omnigraph as og
        from social_data import SCHEMA

        graph = og.create_graph(str(root / "omni"), SCHEMA)
        graph.load(nodes=data.nodes, edges={name: data.build_keyed_edges(name) for name in data.edges}, mode="append")

    def query(self, question: Question) -> list[Row]:
        """Return the rows of the result."""
        return [tuple(row.values()) for row in self.graph.query(question.gq).rows()]

    def close(self) -> None:
        """Do nothing: an open graph does not keep other processes from opening it."""


class Ladybug:
    """LadybugDB, in its own language."""

    name = LADYBUG

    def __init__(self, root: Path) -> None:
        import ladybug

        self.database = ladybug.Database(str(root / "ladybug"))
        self.connection = ladybug.Connection(self.database)

    @classmethod
    def load(cls, root: Path, data: "Social") -> None:
        """Create the tables from the Parquet files."""
        engine = cls(root)
        execute = engine.connection.execute
        types = {"string": "STRING", "int64": "INT64", "int32": "INT32"}
        for name, table in data.nodes.items():
            columns = ", ".join(f"{field.name} {types[str(field.type)]}" for field in table.schema)
            execute(f"CREATE NODE TABLE {name}(id INT64, {columns}, PRIMARY KEY (id))")
            execute(f"COPY {name} FROM '{root / name}.parquet'")
        for name, (source, target) in data.ends.items():
            execute(f"CREATE REL TABLE {name}(FROM {source} TO {target})")
            execute(f"COPY {name} FROM '{root / name}.parquet'")
        engine.close()

    def query(self, question: Question) -> list[Row]:
        """Return the rows of the result."""
        result: Any = self.connection.execute(question.cypher)
        return [tuple(row) for row in result.get_all()]

    def close(self) -> None:
        """Close the database, so that another process can open it."""
        self.connection.close()
        self.database.close()


class Duck:
    """DuckDB, with a primary key on every node table."""

    name = DUCKDB

    def __init__(self, root: Path) -> None:
        import duckdb

        self.connection = duckdb.connect(str(root / "duck.db"))

    @classmethod
    def load(cls, root: Path, data: "Social") -> None:
        """Create the tables from the Parquet files."""
        engine = cls(root)
        execute = engine.connection.execute
        for name in (*data.nodes, *data.edges):
            execute(f"CREATE TABLE {name} AS SELECT * FROM '{root / name}.parquet'")
        for name in data.nodes:
            execute(f"ALTER TABLE {name} ADD PRIMARY KEY (id)")
        execute("CHECKPOINT")
        engine.close()

    def query(self, question: Question) -> list[Row]:
        """Return the rows of the result."""
        return [tuple(row) for row in self.connection.execute(question.sql).fetchall()]

    def close(self) -> None:
        """Close the database, so that another process can open it."""
        self.connection.close()


CONTESTANTS: dict[str, Any] = {OURS: Ours, LADYBUG: Ladybug, DUCKDB: Duck}


def find_installed() -> list[str]:
    """Return the names of the engines that are installed."""
    return [
        name
        for name, module in ((OURS, "omnigraph"), (LADYBUG, "ladybug"), (DUCKDB, "duckdb"))
        if importlib.util.find_spec(module)
    ]


def measure(work: Callable[[], object]) -> float:
    """Return the seconds that some work takes."""
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def is_equal(ours: Sequence[Row], theirs: Sequence[Row]) -> bool:
    """Return whether two results have the same rows; averages are compared to twelve digits."""

    def is_same(a: object, b: object) -> bool:
        return math.isclose(a, b, rel_tol=1e-12) if isinstance(a, float) and isinstance(b, float) else a == b

    return len(ours) == len(theirs) and all(
        len(a) == len(b) and all(map(is_same, a, b)) for a, b in zip(ours, theirs, strict=True)
    )


def measure_warm(engines: Sequence[Any], questions: Sequence[Question], rounds: int) -> dict[str, dict[str, float]]:
    """Return the median seconds by question and engine; exit if two engines return different results."""
    medians: dict[str, dict[str, float]] = {}
    for question in questions:
        results = {engine.name: engine.query(question) for engine in engines}
        first = engines[0].name
        for name, rows in results.items():
            if not is_equal(results[first], rows):
                raise SystemExit(f"{question.name}: {first} {results[first]} != {name} {rows}")
        times: dict[str, list[float]] = {engine.name: [] for engine in engines}
        gc.collect()
        for _ in range(rounds):
            for engine in engines:
                times[engine.name].append(measure(lambda engine=engine, question=question: engine.query(question)))  # type: ignore[misc]
        medians[question.name] = {name: statistics.median(values) for name, values in times.items()}
    return medians


def measure_cold(root: Path, names: Sequence[str], question: Question, rounds: int) -> dict[str, float]:
    """Return the median seconds of a new process that opens the database and runs one query, its modules compiled."""
    times: dict[str, list[float]] = {name: [] for name in names}
    for number in range(rounds + 1):
        for name in names:
            command = [sys.executable, __file__, "--ask", name, question.name, str(root)]
            seconds = measure_process(command, root)
            if number:  # the first round compiles the modules
                times[name].append(seconds)
    return {name: statistics.median(values) for name, values in times.items()}


def measure_process(command: Sequence[str], root: Path) -> float:
    """Return the seconds of a process; it uses the modules that earlier processes have compiled."""
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"}
    environment["PYTHONPYCACHEPREFIX"] = str(root / "compiled")
    return measure(lambda: subprocess.run(command, check=True, env=environment))


def print_imports(root: Path) -> None:
    """Print the share of third-party modules in the cold start of this engine, which imports them before any query."""
    stages = {
        "Python itself": "pass",
        "numpy and pyarrow": "import numpy, pyarrow",
        "lance, as this engine imports it: without pandas": "import omnigraph.storage, lance",
        "this engine": "import omnigraph; omnigraph.open_graph",
    }
    print("\ncold start by imports: ms from the start of the process")
    for stage, code in stages.items():
        seconds = min(measure_process([sys.executable, "-c", code], root) for _ in range(4))
        print(f"{1000 * seconds:8.0f}  {stage}")


def print_table(
    title: str, table: dict[str, dict[str, float]], names: Sequence[str], descriptions: dict[str, str]
) -> None:
    """Print one line per question: milliseconds, and the ratio of each peer to this engine."""
    print(f"\n{title}: ms, and ratio to omnigraph")
    print(f"{'':4}" + "".join(f"{name:>12}" for name in names) + "".join(f"{name + '/':>12}" for name in names[1:]))
    for question, medians in table.items():
        times = "".join(f"{1000 * medians[name]:12.2f}" for name in names)
        ratios = "".join(f"{medians[name] / medians[OURS]:11.1f}×" for name in names[1:])
        print(f"{question:4}{times}{ratios}  {descriptions[question]}")
    for name in names[1:]:
        ratio = statistics.geometric_mean(medians[name] / medians[OURS] for medians in table.values())
        print(f"geometric mean: {name} takes {ratio:.2f}× as long")


def bench(people: int, rounds: int) -> None:
    """Load the graph into every engine, then measure all questions."""
    names = find_installed()
    if len(names) < len(CONTESTANTS):
        print(f"not installed: {', '.join(sorted(set(CONTESTANTS) - set(names)))}")
    descriptions = {question.name: question.description for question in (*STUDY, *SMALL)}
    from social_data import build_social

    with tempfile.TemporaryDirectory() as directory:
        root = Path(directory)
        data = build_social(people, 24 * people)
        data.write(root)
        for name in names:
            seconds = measure(lambda name=name: CONTESTANTS[name].load(root, data))  # type: ignore[misc]
            print(f"load {name:12} {seconds:7.2f} s")
        engines = [CONTESTANTS[name](root) for name in names]
        for engine in engines:
            first = measure(lambda engine=engine: engine.query(STUDY[-2]))  # type: ignore[misc]
            print(f"first two-hop count, {engine.name:12} {1000 * first:9.1f} ms")
        print_table("the nine questions of the study, warm", measure_warm(engines, STUDY, rounds), names, descriptions)
        print_table("from one person, warm", measure_warm(engines, SMALL, 20 * rounds), names, descriptions)
        for engine in engines:
            engine.close()
        chosen = [question for question in (*STUDY, *SMALL) if question.name in ("q3", "q8", "pk", "t2")]
        print_table(
            "cold, a new process", {q.name: measure_cold(root, names, q, 5) for q in chosen}, names, descriptions
        )
        print_imports(root)


def main() -> None:
    """Run from the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--people", type=int, default=100_000)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--ask", nargs=3, metavar=("ENGINE", "QUESTION", "ROOT"), help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.ask:
        name, question, root = arguments.ask
        CONTESTANTS[name](Path(root)).query(next(q for q in (*STUDY, *SMALL) if q.name == question))
        return
    bench(arguments.people, arguments.rounds)


if __name__ == "__main__":
    main()
