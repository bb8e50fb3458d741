"""Compare eleven questions over a large forum to LadybugDB, DuckDB and lance-csr: same data, same run, in turns.

Parameters differ in each round, and are the same for all engines; results must be equal. Prints medians in
milliseconds, ratios, their geometric mean, the first question in a new process, and whether the goals are reached.
100,000 people by default, 300,000 people and 6.6 million `knows` with `--full`. `--growth` measures a tenth of the
people too, and prints how the times grow.

A peer that is not installed is left out. lance-csr needs Python 3.12 and another version of Lance, but that only for
writing: it takes part where `pip install --no-deps lance-csr` was run. It reads Arrow tables in memory.
"""

import argparse
import gc
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from social import is_equal

if TYPE_CHECKING:  # a new process that measures its first question imports only what its engine needs
    from forum_data import Forum
    from forum_queries import Params, Question

Row = tuple[Any, ...]
Times = dict[str, dict[str, float]]
OURS, LADYBUG, DUCKDB, LANCE_CSR = "omnigraph", "LadybugDB", "DuckDB", "lance-csr"
GOALS = {LADYBUG: 5.0, DUCKDB: 3.0}
"""How many times as long as ours a peer's time should be, as the geometric mean of all questions."""
MAX_GROWTH, MAX_POINT_GROWTH = 12.0, 1.5
"""How many times as long a question may take with ten times the people: any one, and one that starts at one person."""
PEOPLE, FULL_PEOPLE = 100_000, 300_000
COLD = "people to get to know"
"""The question that is asked first in a new process."""


class Ours:
    """This engine."""

    name = OURS

    def __init__(self, root: Path) -> None:
        import omnigraph as og

        self.graph = og.open_graph(str(root / "omni"))

    @staticmethod
    def load(root: Path, data: "Forum") -> None:
        """Load all types in one commit."""
        import omnigraph as og
        from forum_data import SCHEMA

        graph = og.create_graph(str(root / "omni"), SCHEMA)
        graph.load(nodes=data.nodes, edges={name: data.build_keyed_edges(name) for name in data.edges}, mode="append")

    def query(self, question: "Question", params: "Params") -> list[Row]:
        """Return the rows of the result."""
        keyed = {name: f"p{value}" if name == "who" else value for name, value in params.items()}
        return [tuple(row.values()) for row in self.graph.query(question.gq, params=keyed).rows()]

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
    def load(cls, root: Path, data: "Forum") -> None:
        """Create the tables from the Parquet files."""
        from forum_data import ENDS

        engine = cls(root)
        execute = engine.connection.execute
        types = {"string": "STRING", "int64": "INT64", "int32": "INT32"}
        for name, table in data.nodes.items():
            columns = ", ".join(f"{field.name} {types[str(field.type)]}" for field in table.schema)
            execute(f"CREATE NODE TABLE {name}(id INT64, {columns}, PRIMARY KEY (id))")
            execute(f"COPY {name} FROM '{root / name}.parquet'")
        for name, (source, target) in ENDS.items():
            execute(f"CREATE REL TABLE {name}(FROM {source} TO {target})")
            execute(f"COPY {name} FROM '{root / name}.parquet'")
        engine.close()

    def query(self, question: "Question", params: "Params") -> list[Row]:
        """Return the rows of the result."""
        result: Any = self.connection.execute(question.cypher, params)
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
    def load(cls, root: Path, data: "Forum") -> None:
        """Create the tables from the Parquet files."""
        engine = cls(root)
        execute = engine.connection.execute
        for name in (*data.nodes, *data.edges):
            execute(f"CREATE TABLE {name} AS SELECT * FROM '{root / name}.parquet'")
        for name in data.nodes:
            execute(f"ALTER TABLE {name} ADD PRIMARY KEY (id)")
        execute("CHECKPOINT")
        engine.close()

    def query(self, question: "Question", params: "Params") -> list[Row]:
        """Return the rows of the result."""
        return [tuple(row) for row in self.connection.execute(question.sql, params).fetchall()]

    def close(self) -> None:
        """Close the database, so that another process can open it."""
        self.connection.close()


class LanceCsr:
    """lance-csr over Arrow tables in memory, with its adjacency."""

    name = LANCE_CSR

    def __init__(self, root: Path) -> None:
        import lance_csr  # type: ignore[import-not-found]
        import pyarrow.parquet as pq

        from forum_data import ENDS

        config = lance_csr.GraphConfig.builder()
        for name in ("Person", "Post", "Tag"):
            config = config.node_table(name, "id")
        for name, (source, target) in ENDS.items():
            config = config.rel_table(name, source, target, "src", "dst")
        tables = {name: pq.read_table(root / f"{name}.parquet") for name in ("Person", "Post", "Tag", *ENDS)}
        self.engine = lance_csr.CypherEngine(config.build(), tables, use_csr=True)

    @staticmethod
    def load(root: Path, data: "Forum") -> None:
        """Do nothing: the Parquet files are read when it is opened."""

    def query(self, question: "Question", params: "Params") -> list[Row]:
        """Return the rows of the result."""
        return [tuple(row.values()) for row in self.engine.execute(question.cypher, params).to_pylist()]

    def close(self) -> None:
        """Do nothing: it keeps no file open."""


CONTESTANTS: dict[str, Any] = {OURS: Ours, LADYBUG: Ladybug, DUCKDB: Duck, LANCE_CSR: LanceCsr}
MODULES = {OURS: "omnigraph", LADYBUG: "ladybug", DUCKDB: "duckdb", LANCE_CSR: "lance_csr"}


def measure(work: Callable[[], object]) -> float:
    """Return the seconds that some work takes."""
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def measure_question(engines: Sequence[Any], question: "Question", people: int, rounds: int) -> dict[str, float]:
    """Return the median seconds of a question by engine; exit if two engines return different results.

    An engine that can't run the question is left out of its row.
    """
    import numpy as np

    random = np.random.default_rng(len(question.name))
    times: dict[str, list[float]] = {engine.name: [] for engine in engines}
    gc.collect()
    for number in range(rounds + 1):
        params = question.draw(random, people)
        expected: list[Row] | None = None
        for engine in engines:
            if engine.name not in times:
                continue
            start = time.perf_counter()
            try:
                rows = engine.query(question, params)
            except Exception as error:
                if engine.name != LANCE_CSR:
                    raise
                print(f"{question.name}: {engine.name} can't run it ({str(error)[:120]})")
                del times[engine.name]
                continue
            seconds = time.perf_counter() - start
            if expected is None:
                expected = rows
            elif not is_equal(expected, rows):
                raise SystemExit(f"{question.name} {params}: {OURS} {expected[:3]} != {engine.name} {rows[:3]}")
            if number:  # the first round reads what the others find in memory
                times[engine.name].append(seconds)
    return {name: statistics.median(values) for name, values in times.items()}


def print_table(table: Times, names: Sequence[str]) -> None:
    """Print one line per question: milliseconds, and the ratio of each peer to this engine."""
    print(f"\n{'warm: ms, and ratio to omnigraph':34}", end="")
    print("".join(f"{name:>11}" for name in names) + "".join(f"{name + '/':>12}" for name in names[1:]))
    for question, medians in table.items():
        times = "".join(f"{1000 * medians[name]:11.2f}" if name in medians else f"{'-':>11}" for name in names)
        ratios = "".join(
            f"{medians[name] / medians[OURS]:11.2f}×" if name in medians else f"{'-':>12}" for name in names[1:]
        )
        print(f"{question:34}{times}{ratios}")


def print_goals(table: Times, names: Sequence[str]) -> None:
    """Print the geometric means, and which goals are reached."""
    print()
    for name in names[1:]:
        ratios = [medians[name] / medians[OURS] for medians in table.values() if name in medians]
        if not ratios:
            continue
        mean = statistics.geometric_mean(ratios)
        print_goal(
            f"geometric mean of {len(ratios)} questions, {name}/omnigraph", mean, GOALS.get(name), is_at_least=True
        )
    for question, medians in table.items():
        better = min((name for name in GOALS if name in medians), key=lambda name: medians[name], default=None)
        if better is not None and medians[better] < medians[OURS]:
            print_goal(f"{question}, {better}/omnigraph", medians[better] / medians[OURS], 1.0, is_at_least=True)


def print_goal(what: str, value: float, goal: float | None, *, is_at_least: bool) -> None:
    """Print a measured value beside its goal."""
    if goal is None:
        print(f"{what:66} {value:7.2f}×")
        return
    is_reached = value >= goal if is_at_least else value <= goal
    sign = "≥" if is_at_least else "≤"
    print(f"{what:66} {value:7.2f}×   goal {sign} {goal:g}   {'reached' if is_reached else 'MISSED'}")


def measure_cold(root: Path, names: Sequence[str], rounds: int = 3) -> dict[str, float]:
    """Return the median seconds of the first question in a new process, after its imports and opening the database."""
    times: dict[str, list[float]] = {name: [] for name in names}
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"}
    environment["PYTHONPYCACHEPREFIX"] = str(root / "compiled")
    for _ in range(rounds):
        for name in names:
            command = [sys.executable, __file__, "--ask", name, str(root)]
            output = subprocess.run(command, check=True, env=environment, capture_output=True, text=True).stdout
            times[name].append(float(output.split()[-1]))
    return {name: statistics.median(values) for name, values in times.items()}


def ask_first(name: str, root: Path) -> None:
    """Open a database, and print the seconds of a first question."""
    from forum_queries import QUESTIONS

    engine = CONTESTANTS[name](root)
    question = next(each for each in QUESTIONS if each.name == COLD)
    print(measure(lambda: engine.query(question, {"who": 42})))


def bench(people: int, rounds: int, names: Sequence[str]) -> Times:
    """Load a graph into every engine, measure all questions, and return the medians."""
    from forum_data import build_forum
    from forum_queries import QUESTIONS

    with tempfile.TemporaryDirectory(prefix="forum-") as directory:
        root = Path(directory)
        data = build_forum(people)
        data.write(root)
        counts = ", ".join(f"{len(ends[0]):,} {name}" for name, ends in data.edges.items())
        print(f"\n{people:,} people, {counts}, {len(os.sched_getaffinity(0))} cores", flush=True)
        for name in names:
            print(f"load {name:12} {measure(partial(CONTESTANTS[name].load, root, data)):9.2f} s", flush=True)
        for name, seconds in measure_cold(root, names).items():
            print(f"first question in a new process, {name:12} {1000 * seconds:9.1f} ms", flush=True)
        del data
        engines = [CONTESTANTS[name](root) for name in names]
        table = {question.name: measure_question(engines, question, people, rounds) for question in QUESTIONS}
        for engine in engines:
            engine.close()
    print_table(table, names)
    print_goals(table, names)
    return table


def print_growth(smaller: Times, larger: Times) -> None:
    """Print how the times of this engine grow with ten times the people."""
    from forum_queries import QUESTIONS

    print()
    for question in QUESTIONS:
        growth = larger[question.name][OURS] / smaller[question.name][OURS]
        goal = MAX_POINT_GROWTH if question.is_point else MAX_GROWTH
        print_goal(f"{question.name}, ten times the people", growth, goal, is_at_least=False)


def main() -> None:
    """Run from the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--people", type=int, default=PEOPLE)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--full", action="store_true", help=f"{FULL_PEOPLE:,} people")
    parser.add_argument("--growth", action="store_true", help="measure a tenth of the people too")
    parser.add_argument("--ask", nargs=2, metavar=("ENGINE", "ROOT"), help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.ask:
        ask_first(arguments.ask[0], Path(arguments.ask[1]))
        return
    names = [name for name in CONTESTANTS if find_spec(MODULES[name])]
    if len(names) < len(CONTESTANTS):
        print(f"not installed: {', '.join(name for name in CONTESTANTS if name not in names)}")
    people = FULL_PEOPLE if arguments.full else arguments.people
    larger = bench(people, arguments.rounds, names)
    if arguments.growth:
        print_growth(bench(people // 10, arguments.rounds, names), larger)


if __name__ == "__main__":
    main()
