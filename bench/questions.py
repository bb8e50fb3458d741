"""Measure what questions of the language cost: expressions, blocks, a shortest path, a batch of records.

Each one is compared with the plainest alternative in the same run, in turns: an expression with numpy, optional and
count blocks with DuckDB, the shortest path between two nodes with LadybugDB, a batch with a load of the same records. A
peer that is not installed is left out. Absolute times depend on the machine; compare ratios within one run. `--rows N`,
`--people N` and `--rounds N` make the run shorter.
"""

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

import omnigraph as og
from social import Ladybug
from social_data import SCHEMA as SOCIAL_SCHEMA
from social_data import Social, build_social

BATCH = 100_000
PATHS = 10
"""The number of pairs of people between whom a path is searched."""
KNOWN = 10
"""The number of edges for each node, on average."""
SCHEMA = "node P { k: String @key  a: I64  b: I64 }\nedge Knows: P -> P"
UPSERT = """
query upsert($rows: [{k: String, a: I64, b: I64}]) {
    match { each $r in $rows }
    insert P { k: $r.k, a: $r.a, b: $r.b }
}
"""
WAY = """
query way($a: String, $b: String) {
    match { $a1: Person { key: $a }  $b1: Person { key: $b }  shortest $w = $a1 follows{1,*} $b1 }
    return { length($w) as hops }
}
"""
Work = Callable[[], Any]


def measure_in_turns(rounds: int, **works: Work) -> dict[str, float]:
    """Return the median milliseconds of each piece of work; a first round is not counted."""
    times: dict[str, list[float]] = {name: [] for name in works}
    for number in range(rounds + 1):
        for name, work in works.items():
            start = time.perf_counter()
            work()
            if number:
                times[name].append(time.perf_counter() - start)
    return {name: statistics.median(seconds) * 1_000 for name, seconds in times.items()}


def print_ratio(title: str, ours: float, peer: str, theirs: float | None) -> None:
    """Print one line: our time, that of the peer, and the ratio."""
    beside = f"{peer} is not installed" if theirs is None else f"{peer} {theirs:10.2f} ms   {ours / theirs:6.2f}x"
    print(f"{title:58} {ours:10.2f} ms   {beside}", flush=True)


def build_people(random: np.random.Generator, count: int) -> pa.Table:
    """Return rows with a key and two numbers."""
    numbers = {name: random.integers(0, 100, count) for name in ("a", "b")}
    return pa.table({"k": [f"p{number:07}" for number in range(count)], **numbers})


# --- expressions against numpy ---------------------------------------------------------------------


def bench_expressions(root: Path, rows: int, rounds: int) -> None:
    """Calculate a column and a condition over all rows of a type."""
    table = build_people(np.random.default_rng(1), rows)
    graph = og.create_graph(str(root / "rows"), SCHEMA)
    graph.load(nodes={"P": table}, mode="append")
    a, b = (table[name].to_numpy() for name in ("a", "b"))

    def ask(match: str, column: str) -> pa.Table:
        return graph.query(f"query q() {{ match {{ $p: P {match} }} return {{ {column} as v }} }}").to_arrow()

    times = measure_in_turns(
        rounds,
        plain=lambda: ask("", "$p.a"),
        column=lambda: ask("", "($p.a * 3 + $p.b) % 7"),
        numpy_column=lambda: pa.array((a * 3 + b) % 7),
        count=lambda: ask("", "count(*)"),
        condition=lambda: ask("($p.a * 3 + $p.b) % 7 = 2", "count(*)"),
        numpy_condition=lambda: np.count_nonzero((a * 3 + b) % 7 == 2),
    )
    print_ratio(f"($p.a * 3 + $p.b) % 7 as v, {rows:,} rows", times["column"], "numpy", times["numpy_column"])
    # What the rows cost without the expression is not the expression's.
    more = times["column"] - times["plain"]
    print_ratio("  the same, less the column $p.a", more, "numpy", times["numpy_column"])
    print_ratio("($p.a * 3 + $p.b) % 7 = 2, counted", times["condition"], "numpy", times["numpy_condition"])


# --- blocks against DuckDB -------------------------------------------------------------------------


def bench_blocks(root: Path, people: int, rounds: int) -> None:
    """Ask for optional parts and counts of edges, of many nodes at once."""
    random = np.random.default_rng(2)
    table = build_people(random, people)
    ends = [table["k"].take(pa.array(random.integers(0, people, people * KNOWN))) for _ in range(2)]
    # A match is a set: no pair is there twice, so that a join of SQL counts the same.
    edges = pa.table({"from": ends[0], "to": ends[1]}).group_by(["from", "to"]).aggregate([])
    graph = og.create_graph(str(root / "blocks"), SCHEMA)
    graph.load(nodes={"P": table}, edges={"Knows": edges}, mode="append")
    tables = _build_tables(table, edges)
    for title, ours, sql in _list_blocks():
        works: dict[str, Work] = {"ours": partial(_ask_ours, graph, f"query q() {{ {ours} }}")}
        if tables is not None:
            works["peer"] = partial(_ask_tables, tables, sql)
            if works["ours"]() != works["peer"]():
                raise SystemExit(f"{title}: {works['ours']()} is not {works['peer']()}")
        times = measure_in_turns(rounds, **works)
        print_ratio(f"{title}, {people:,} nodes, {edges.num_rows:,} edges", times["ours"], "DuckDB", times.get("peer"))


def _ask_ours(graph: og.Graph, query: str) -> list[Any]:
    return list(graph.query(query).rows()[0].values())


def _ask_tables(tables: Any, sql: str) -> list[Any]:  # noqa: ANN401 - an optional peer has no types here
    return list(tables.execute(sql).fetchone())


def _list_blocks() -> Iterator[tuple[str, str, str]]:
    joined = 'FROM knows e JOIN p q ON q.k = e."to"'
    yield (
        "optional",
        "match { $p: P optional { $p knows $q  $q.a > 90 } } return { count(*) as n, count($q) as m }",
        f"""SELECT count(*), count(k2) FROM p
        LEFT JOIN (SELECT "from", q.k AS k2 {joined} WHERE q.a > 90) ON "from" = p.k""",
    )
    yield (
        "count block",
        "match { $p: P } with { count { $p knows $q  $q.a > 50 } as n } return { sum($n) as s, max($n) as m }",
        f"""SELECT CAST(sum(n) AS BIGINT), max(n)
        FROM (SELECT (SELECT count(*) {joined} WHERE e."from" = p.k AND q.a > 50) AS n FROM p)""",
    )
    yield (
        "exists",
        "match { $p: P  exists { $p knows $q  $q.a = $p.b } } return { count(*) as n }",
        f'SELECT count(*) FROM p WHERE EXISTS (SELECT 1 {joined} WHERE e."from" = p.k AND q.a = p.b)',
    )


def _build_tables(people: pa.Table, edges: pa.Table) -> Any:  # noqa: ANN401 - an optional peer has no types here
    if find_spec("duckdb") is None:
        return None
    tables = import_module("duckdb").connect()
    for name, table in (("p", people), ("knows", edges)):
        tables.register(f"{name}_rows", table)
        tables.execute(f"CREATE TABLE {name} AS SELECT * FROM {name}_rows")
    return tables


# --- a path against LadybugDB ----------------------------------------------------------------------


def bench_paths(root: Path, people: int, rounds: int) -> None:
    """Search shortest paths between pairs of people of the social graph."""
    data = build_social(people, people * 24)
    follows = data.build_keyed_edges("Follows")
    graph = og.create_graph(str(root / "social"), SOCIAL_SCHEMA)
    graph.load(nodes={"Person": data.nodes["Person"]}, edges={"Follows": follows}, mode="append")
    random = np.random.default_rng(3)
    pairs = [(int(a), int(b)) for a, b in random.integers(0, people, (PATHS, 2)) if a != b]

    def ask() -> list[int]:
        rows = (graph.query(WAY, params={"a": f"p{a}", "b": f"p{b}"}).rows() for a, b in pairs)
        return [row["hops"] for found in rows for row in found]

    works: dict[str, Work] = {"ours": ask}
    if find_spec("ladybug") is not None:
        works["peer"] = _build_peer(root, data, pairs)
        if ask() != works["peer"]():
            raise SystemExit(f"the lengths of paths differ: {ask()}, {works['peer']()}")
    times = {name: ms / len(pairs) for name, ms in measure_in_turns(rounds, **works).items()}
    title = f"shortest path between two of {people:,}, {follows.num_rows:,} edges"
    print_ratio(title, times["ours"], "LadybugDB", times.get("peer"))


def _build_peer(root: Path, data: Social, pairs: list[tuple[int, int]]) -> Callable[[], list[int]]:
    only = Social(
        {"Person": data.nodes["Person"]}, {"Follows": data.edges["Follows"]}, {"Follows": data.ends["Follows"]}
    )
    only.write(root)
    Ladybug.load(root, only)
    connection = Ladybug(root).connection
    way = "MATCH (a:Person {id: $a})-[e:Follows* SHORTEST 1..30]->(b:Person {id: $b}) RETURN length(e)"

    def ask() -> list[int]:
        answers: list[Any] = [connection.execute(way, {"a": a, "b": b}) for a, b in pairs]
        return [row[0] for answer in answers for row in answer.get_all()]

    return ask


# --- a batch against a load ------------------------------------------------------------------------


def bench_batches(root: Path, rounds: int) -> None:
    """Insert many records by one query, and load the same records."""
    rows = build_people(np.random.default_rng(4), BATCH).to_pylist()
    records = [{"type": "P", "data": row} for row in rows]
    numbers = iter(range(1_000))

    def create() -> og.Graph:
        return og.create_graph(str(root / f"batch{next(numbers)}"), SCHEMA)

    if create().mutate(UPSERT, params={"rows": rows}).affected_nodes != BATCH:
        raise SystemExit("the batch left records out")
    # Both include the creation of an empty graph, which takes milliseconds.
    times = measure_in_turns(
        rounds,
        batch=lambda: create().mutate(UPSERT, params={"rows": rows}),
        load=lambda: create().load(records, mode="merge"),
    )
    print_ratio(f"a batch of {BATCH:,} records", times["batch"], "a load", times["load"])


def main() -> None:
    """Run from the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--people", type=int, default=100_000)
    parser.add_argument("--rounds", type=int, default=5)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="omnigraph-questions-") as directory:
        root = Path(directory)
        bench_expressions(root, arguments.rows, arguments.rounds)
        bench_blocks(root, arguments.people, arguments.rounds)
        bench_paths(root, arguments.people, arguments.rounds)
        bench_batches(root, min(arguments.rounds, 3))


if __name__ == "__main__":
    main()
