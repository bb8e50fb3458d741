"""What SQL can ask too has the answer that DuckDB gives: random small graphs, random questions in both languages."""

from collections import Counter
from datetime import UTC, datetime
from pathlib import Path
from random import Random, SystemRandom
from typing import Any

import duckdb
import pytest

import omnigraph as og
from sql_pairs import SCHEMA, TABLES, Pair, SqlWorld, random_world
from sql_questions import Questions

WORLDS = 8
ROUNDS = 3
SHARDS = 4


@pytest.mark.parametrize("number", range(WORLDS))
def test_questions_are_answered_like_duckdb(number: int, tmp_path: Path) -> None:
    assert ask_world(Random(number), tmp_path, ROUNDS) >= 50


@pytest.mark.soak
@pytest.mark.parametrize("shard", range(SHARDS))
def test_questions_are_answered_like_duckdb_for_long(shard: int, tmp_path: Path) -> None:
    first = SystemRandom().randrange(2**32)

    for number in range(first + shard, first + 100, SHARDS):
        ask_world(Random(number), tmp_path / str(number), 25, f"world {number}")


def ask_world(random: Random, place: Path, rounds: int, about: str = "") -> int:
    """Compare all forms of questions of one random graph; return how many were asked."""
    world = random_world(random)
    graph, tables = load_graph(place, world), load_tables(world)
    asked = [form() for _ in range(rounds) for form in Questions(random).all_forms()]
    for pair in asked:
        compare(graph, tables, pair, about)
    return len(asked)


def compare(graph: og.Graph, tables: duckdb.DuckDBPyConnection, pair: Pair, about: str) -> None:
    """Fail with both texts and both answers if these differ."""
    expected = [to_plain(row) for row in tables.execute(pair.sql).fetchall()]
    answered = [to_plain(tuple(row.values())) for row in graph.query(pair.ours).to_arrow().to_pylist()]

    is_same = answered == expected if pair.is_ordered else Counter(answered) == Counter(expected)

    told = f"DuckDB    {sorted(expected, key=repr)}\nomnigraph {sorted(answered, key=repr)}"
    assert is_same, f"{about}\n{pair.ours}\n{pair.sql}\n{told}"


def to_plain(value: Any) -> Any:
    """Hashable; fractions to nine digits, since the order of a sum may differ; times in UTC, without a zone."""
    if isinstance(value, list | tuple):
        return tuple(map(to_plain, value))
    if isinstance(value, float):
        # What is left of a difference of equal values is no value.
        return int(value) if value.is_integer() else float(f"{0.0 if abs(value) < 1e-12 else value:.9g}")
    return value.astimezone(UTC).replace(tzinfo=None) if isinstance(value, datetime) and value.tzinfo else value


def load_graph(place: Path, world: SqlWorld) -> og.Graph:
    graph = og.create_graph(str(place / "graph"), SCHEMA)
    people = [{**person, "m": person["m"] and person["m"].replace(tzinfo=UTC)} for person in world.people]
    records: list[dict[str, Any]] = [
        *({"type": "P", "data": to_json(person)} for person in people),
        *({"type": "C", "data": to_json(company)} for company in world.companies),
        *({"edge": "Knows", "from": src, "to": dst, "data": {"w": w}} for src, dst, w in world.knows),
        *({"edge": "At", "from": src, "to": dst} for src, dst in world.at),
    ]
    graph.load(records, mode="append")
    return graph


def to_json(data: dict[str, Any]) -> dict[str, Any]:
    return {name: value.isoformat() if name in ("d", "m") and value else value for name, value in data.items()}


def load_tables(world: SqlWorld) -> duckdb.DuckDBPyConnection:
    tables = duckdb.connect(config={"threads": 1})
    tables.execute(TABLES)
    rows = {
        "p": [tuple(person.values()) for person in world.people],
        "c": [tuple(company.values()) for company in world.companies],
        "knows": world.knows,
        "at_": world.at,
    }
    for name, values in rows.items():
        for value in values:
            tables.execute(f"INSERT INTO {name} VALUES ({', '.join('?' * len(value))})", value)  # noqa: S608 - our names
    return tables


def test_a_wrong_answer_is_found(tmp_path: Path) -> None:
    world = SqlWorld(
        [{"k": "p0", "a": 1, "b": None, "x": None, "s": None, "d": None, "m": None, "l": None}], [], [], []
    )
    wrong = Pair("query q() { match { $p: P } return { $p.a + 1 as v } }", "SELECT p.a + 2 FROM p")

    with pytest.raises(AssertionError, match="DuckDB"):
        compare(load_graph(tmp_path, world), load_tables(world), wrong, "")
