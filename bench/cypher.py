"""Measure statements of Cypher beside the queries that say the same: median CPU times, alternately, and their ratio.

Where parallel edges can't be or can't be seen, the plan is the same, and a statement costs at most 1.2 times the query.
`python bench/cypher.py [PEOPLE] [ROUNDS]`
"""

import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from random import Random

import pyarrow as pa

import omnigraph as og
from cypher_pairs import PAIRS, SCHEMA


def build(root: Path, people: int) -> og.Graph:
    """Return a graph of people, each of whom knows about ten others and visits companies often."""
    random = Random(7)  # noqa: S311 - the same graph each time
    graph = og.create_graph(str(root / "graph"), SCHEMA)
    names = [f"p{number}" for number in range(people)]
    companies = [f"c{number}" for number in range(max(people // 100, 1))]
    pairs = sorted({(random.choice(names), random.choice(names)) for _ in range(people * 10)})
    visits = [(random.choice(names), random.choice(companies)) for _ in range(people * 2)]
    ages = [random.randrange(90) for _ in names]
    graph.load(
        nodes={
            "Person": pa.table({"name": names, "age": ages, "city": [f"city {age % 50}" for age in ages]}),
            "Company": pa.table({"name": companies}),
        },
        edges={
            "Knows": pa.table({"from": [a for a, _ in pairs], "to": [b for _, b in pairs]}),
            "Visits": pa.table({"from": [a for a, _ in visits], "to": [b for _, b in visits]}),
        },
        mode="append",
    )
    return graph


def ask(run: Callable[[str], og.Result], text: str) -> object:
    """Return all rows of a query."""
    return run(text).to_arrow()


def measure(work: Callable[[], object]) -> float:
    """Return how long all threads of this process work for a call: what others do beside it is no part of it."""
    start = time.process_time()
    work()
    return time.process_time() - start


def main(people: int, rounds: int) -> None:
    """Print a line for each pair."""
    with tempfile.TemporaryDirectory() as folder:
        graph = build(Path(folder), people)
        print(f"{people:,} people, median of {rounds} rounds")
        print(f"{'':32} {'.gq ms':>9} {'Cypher ms':>9} {'ratio':>7}")
        for name, (query, statement) in PAIRS.items():
            text = f"query q() {{ {query} }}"
            expected, found = graph.query(text).to_arrow(), graph.cypher(statement).to_arrow()
            if expected.num_rows != found.num_rows:
                sys.exit(f"{name}: {expected.num_rows} rows and {found.num_rows}")
            times: tuple[list[float], list[float]] = ([], [])
            for _ in range(rounds):
                times[0].append(measure(partial(ask, graph.query, text)))
                times[1].append(measure(partial(ask, graph.cypher, statement)))
            first, second = (statistics.median(each) for each in times)
            print(f"{name:32} {first * 1000:9.2f} {second * 1000:9.2f} {second / first:7.2f}")


if __name__ == "__main__":
    given = [int(each) for each in sys.argv[1:3]]
    main(*(given + [20_000, 41][len(given) :]))
