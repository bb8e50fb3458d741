"""Reads on a social graph, against LadybugDB and DuckDB: same data, same run, in turns, answers compared.

Prints medians in milliseconds and ratios. Warm: after a first round that does not count. Cold: a fresh process that
imports what it needs, opens the database and asks one question; a process before it has compiled the modules, as an
installer does. `--people N` makes a smaller graph, `--rounds N` fewer rounds.
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

if TYPE_CHECKING:  # whoever asks from a fresh process imports nothing for the others
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
        """Everything in one commit."""
        import omnigraph as og
        from social_data import SCHEMA

        graph = og.create_graph(str(root / "omni"), SCHEMA)
        graph.load(nodes=data.nodes, edges={name: data.keyed(name) for name in data.edges}, mode="append")

    def ask(self, question: Question) -> list[Row]:
        """The rows of the answer."""
        return [tuple(row.values()) for row in self.graph.query(question.gq).rows()]

    def close(self) -> None:
        """Nothing is held that stands in anybody's way."""


class Ladybug:
    """LadybugDB, in its own language."""

    name = LADYBUG

    def __init__(self, root: Path) -> None:
        import ladybug

        self.database = ladybug.Database(str(root / "ladybug"))
        self.connection = ladybug.Connection(self.database)

    @classmethod
    def load(cls, root: Path, data: "Social") -> None:
        """Tables from the Parquet files."""
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

    def ask(self, question: Question) -> list[Row]:
        """The rows of the answer."""
        answer: Any = self.connection.execute(question.cypher)
        return [tuple(row) for row in answer.get_all()]

    def close(self) -> None:
        """Let others open it."""
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
        """Tables from the Parquet files."""
        engine = cls(root)
        execute = engine.connection.execute
        for name in (*data.nodes, *data.edges):
            execute(f"CREATE TABLE {name} AS SELECT * FROM '{root / name}.parquet'")
        for name in data.nodes:
            execute(f"ALTER TABLE {name} ADD PRIMARY KEY (id)")
        execute("CHECKPOINT")
        engine.close()

    def ask(self, question: Question) -> list[Row]:
        """The rows of the answer."""
        return [tuple(row) for row in self.connection.execute(question.sql).fetchall()]

    def close(self) -> None:
        """Let others open it."""
        self.connection.close()


CONTESTANTS: dict[str, Any] = {OURS: Ours, LADYBUG: Ladybug, DUCKDB: Duck}


def available() -> list[str]:
    """Who can take part here."""
    return [
        name
        for name, module in ((OURS, "omnigraph"), (LADYBUG, "ladybug"), (DUCKDB, "duckdb"))
        if importlib.util.find_spec(module)
    ]


def seconds(work: Callable[[], object]) -> float:
    """How long it took."""
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def equal(ours: Sequence[Row], theirs: Sequence[Row]) -> bool:
    """Whether two answers are the same, averages to twelve digits."""

    def same(a: object, b: object) -> bool:
        return math.isclose(a, b, rel_tol=1e-12) if isinstance(a, float) and isinstance(b, float) else a == b

    return len(ours) == len(theirs) and all(
        len(a) == len(b) and all(map(same, a, b)) for a, b in zip(ours, theirs, strict=True)
    )


def warm(engines: Sequence[Any], questions: Sequence[Question], rounds: int) -> dict[str, dict[str, float]]:
    """The median seconds of each question and engine; a different answer ends the benchmark."""
    medians: dict[str, dict[str, float]] = {}
    for question in questions:
        answers = {engine.name: engine.ask(question) for engine in engines}
        for name, answer in answers.items():
            if not equal(answers[engines[0].name], answer):
                raise SystemExit(f"{question.name}: {engines[0].name} {answers[engines[0].name]} != {name} {answer}")
        times: dict[str, list[float]] = {engine.name: [] for engine in engines}
        gc.collect()
        for _ in range(rounds):
            for engine in engines:
                times[engine.name].append(seconds(lambda engine=engine, question=question: engine.ask(question)))  # type: ignore[misc]
        medians[question.name] = {name: statistics.median(values) for name, values in times.items()}
    return medians


def cold(root: Path, names: Sequence[str], question: Question, rounds: int) -> dict[str, float]:
    """The median seconds of a fresh process that opens the database and asks one question, its modules compiled."""
    times: dict[str, list[float]] = {name: [] for name in names}
    for number in range(rounds + 1):
        for name in names:
            command = [sys.executable, __file__, "--ask", name, question.name, str(root)]
            took = process_seconds(command, root)
            times[name] += [took] if number else []  # the first round compiles
    return {name: statistics.median(values) for name, values in times.items()}


def process_seconds(command: Sequence[str], root: Path) -> float:
    """How long a process takes that finds its modules compiled, if one before it has used them."""
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"}
    environment["PYTHONPYCACHEPREFIX"] = str(root / "compiled")
    return seconds(lambda: subprocess.run(command, check=True, env=environment))


def show_imports(root: Path) -> None:
    """What of our cold start is other people's modules: no question can be answered before they are there."""
    stages = {
        "Python itself": "pass",
        "numpy and pyarrow": "import numpy, pyarrow",
        "lance, as this engine imports it: without pandas": "import omnigraph.storage, lance",
        "this engine": "import omnigraph; omnigraph.open_graph",
    }
    print("\ncold, what is imported: ms from the start of the process")
    for stage, code in stages.items():
        took = min(process_seconds([sys.executable, "-c", code], root) for _ in range(4))
        print(f"{1000 * took:8.0f}  {stage}")


def show(title: str, table: dict[str, dict[str, float]], names: Sequence[str], asks: dict[str, str]) -> None:
    """One line a question, in milliseconds, and how many times longer the peers take."""
    print(f"\n{title}: ms, and times ours")
    print(f"{'':4}" + "".join(f"{name:>12}" for name in names) + "".join(f"{name + '/':>12}" for name in names[1:]))
    for question, medians in table.items():
        times = "".join(f"{1000 * medians[name]:12.2f}" for name in names)
        ratios = "".join(f"{medians[name] / medians[OURS]:11.1f}×" for name in names[1:])
        print(f"{question:4}{times}{ratios}  {asks[question]}")
    for name in names[1:]:
        ratio = statistics.geometric_mean(medians[name] / medians[OURS] for medians in table.values())
        print(f"geometric mean: {name} takes {ratio:.2f}× as long")


def bench(people: int, rounds: int) -> None:
    """Load everything everywhere, then ask."""
    names = available()
    if len(names) < len(CONTESTANTS):
        print(f"not installed here: {', '.join(sorted(set(CONTESTANTS) - set(names)))}")
    asks = {question.name: question.asks for question in (*STUDY, *SMALL)}
    from social_data import social

    with tempfile.TemporaryDirectory() as place:
        root = Path(place)
        data = social(people, 24 * people)
        data.write(root)
        for name in names:
            took = seconds(lambda name=name: CONTESTANTS[name].load(root, data))  # type: ignore[misc]
            print(f"load {name:12} {took:7.2f} s")
        engines = [CONTESTANTS[name](root) for name in names]
        for engine in engines:
            first = seconds(lambda engine=engine: engine.ask(STUDY[-2]))  # type: ignore[misc]
            print(f"first two-hop count, {engine.name:12} {1000 * first:9.1f} ms")
        show("the nine questions of the study, warm", warm(engines, STUDY, rounds), names, asks)
        show("from one person, warm", warm(engines, SMALL, 20 * rounds), names, asks)
        for engine in engines:
            engine.close()
        chosen = [question for question in (*STUDY, *SMALL) if question.name in ("q3", "q8", "pk", "t2")]
        show("cold, a fresh process", {q.name: cold(root, names, q, 5) for q in chosen}, names, asks)
        show_imports(root)


def main() -> None:
    """Run from the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--people", type=int, default=100_000)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--ask", nargs=3, metavar=("ENGINE", "QUESTION", "ROOT"), help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.ask:
        name, question, root = given.ask
        CONTESTANTS[name](Path(root)).ask(next(q for q in (*STUDY, *SMALL) if q.name == question))
        return
    bench(given.people, given.rounds)


if __name__ == "__main__":
    main()
