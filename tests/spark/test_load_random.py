"""Random loads with mistakes of all kinds: Spark refuses what one process refuses, and says the same of it."""

import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

import omnigraph as og
from load_calls import Record, edge, loaded, node
from omnigraph.ops.load import GraphSource, LoadError, LoadInput
from omnigraph.spark.load.load_engine import SparkLoadOptions
from spark_loading import exported, file_of, left_over, spark_loaded
from worlds import runtime

SCHEMA = """
node Person { name: String @key  email: String? @unique  age: I32?  @range(age, 0..99) }
node Team { logo: Blob?  name: String @key  code: I64?  room: String?  @unique(code, room) }
edge Knows: Person -> Person { since: I32?  @key(src, dst) }
edge Leads: Team -> Person @card(1..2)
edge Likes: Person -> Team @card(0..2)
"""
FREE = SCHEMA.replace("@card(1..2)", "@card(0..2)")
"""No edge is required, so a row whose keys no other row has can be checked by itself."""


def records(seed: int, count: int) -> list[Record | str]:
    """Records with few names, so that they clash often."""
    draw = random.Random(seed)
    size = max(count // 3, 4)

    def name(letter: str) -> str:
        return f"{letter}{draw.randrange(size)}"

    def one() -> Record | str:
        match draw.randrange(12):
            case 0 | 1 | 2 | 3:
                more: dict[str, Any] = {"email": name("e")} if draw.random() < 0.3 else {}
                more |= {"age": draw.randrange(-2, 120)} if draw.random() < 0.2 else {}
                return node("Person", name=name("p"), **more)
            case 4 | 5:
                code = draw.choice([None, 1, 2, 3, draw.randrange(size)])
                room, logo = draw.choice([None, "r", "s", name("r")]), draw.choice([None, "base64:AAA="])
                return node("Team", name=name("t"), code=code, room=room, logo=logo)
            case 6 | 7:
                return edge("Knows", name("p"), name("p"))
            case 8 | 9:
                return edge("Leads", name("t"), name("p"))
            case 10:
                return edge("Likes", name("p"), name("t"))
            case _:
                return draw.choice(["{", '{"type": "Nobody"}', '{"type": "Person", "data": {}}', "// fine", ""])

    return [one() for _ in range(count)]


def outcome(graph: og.Graph, engine: Any, kept: Path) -> dict[str, Any]:
    """Everything that can be told of a load, but its commit."""
    try:
        result = engine()
        told: dict[str, Any] = {**result.to_json(), "commit_id": None, "quarantine": None}
    except LoadError as error:
        told = {"total": error.total, "problems": [str(one) for one in error.problems]}
    left_out = [(kept / name).read_text() if kept.exists() else "" for name in ("reasons.jsonl", "rejected.jsonl")]
    return {**told, "left out": left_out, "holds": exported(graph)}


def both(
    spark: SparkSession, place: Path, seed: int, count: int, mode: str, *, leaves_out: bool
) -> list[dict[str, Any]]:
    """What one process makes of a random load, and what Spark makes of it."""
    seeding = [one for one in records(seed + 1_000, count) if not isinstance(one, str)]
    data = file_of(place, *records(seed, count))
    given = LoadInput(graph=(GraphSource(data=data),))
    how = SparkLoadOptions(split_bytes=1 + data.stat().st_size // 4, max_local_read_bytes=0)
    if seed % 2 == 0:  # nothing is done on the driver that executors can do
        how = replace(how, max_local_keys=0, max_local_reread_bytes=0, max_local_merge_rows=0)
    if seed % 4 >= 2:  # rows with keys of their own are checked by the tasks that read them
        how = replace(how, max_driver_suspects=0)
    ends: list[dict[str, Any]] = []
    for name in ("local", "spark"):
        graph = og.create_graph(str(place / name), FREE if seed % 4 >= 2 else SCHEMA, runtime=runtime())
        loaded(graph, "append", *seeding, on_error=place / f"seed-{name}")
        kept = place / f"bad-{name}"
        options: dict[str, Any] = {"on_error": kept} if leaves_out else {}
        if name == "local":
            ends.append(outcome(graph, lambda g=graph, o=options: loaded(g, mode, inputs=given, **o), kept))
        else:
            ends.append(outcome(graph, lambda g=graph, o=options: spark_loaded(spark, g, mode, data, how, **o), kept))
        assert left_over(graph) == []
    return ends


@pytest.mark.parametrize("leaves_out", [False, True])
@pytest.mark.parametrize("mode", ["append", "overwrite", "merge"])
@pytest.mark.parametrize("seed", [1, 2, 3, 6])
def test_a_random_load_ends_as_in_one_process(
    spark: SparkSession, tmp_path: Path, seed: int, mode: str, leaves_out: bool
) -> None:
    local, on_spark = both(spark, tmp_path, seed, 60 + 40 * seed, mode, leaves_out=leaves_out)

    assert on_spark == local


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(100, 160))
def test_many_random_loads_end_as_in_one_process(spark: SparkSession, tmp_path: Path, seed: int) -> None:
    mode = ("append", "overwrite", "merge")[seed % 3]

    local, on_spark = both(spark, tmp_path, seed, 20 + 7 * (seed % 30), mode, leaves_out=seed % 2 == 0)

    assert on_spark == local
