"""Many rows with bad ones of twelve kinds: all are found in one run, kept aside, mended, and loaded again."""

import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

import omnigraph as og
from load_calls import edge, loaded, node
from mutating import new_graph
from omnigraph.ops.load import GraphSource, LoadError, LoadInput, LoadResult
from omnigraph.spark.load.load_engine import SparkLoadOptions
from omnigraph.spark.load.recheck import FetchedRows, SuspectRows
from spark_loading import exported, file_of, left_over, reasons, spark_loaded, texts
from worlds import runtime

KINDS: dict[str, Callable[[int], dict[str, object] | str]] = {
    "no JSON": lambda number: f'{{"type": "Person", "data": {{"name": "bad{number}"',
    "no such type": lambda number: {"type": "Persom", "data": {"name": f"bad{number}"}},
    "no such property": lambda number: {"type": "Person", "data": {"name": f"bad{number}", "agge": 1}},
    "wrong type": lambda number: {"type": "Person", "data": {"name": f"bad{number}", "age": "old"}},
    "too large": lambda number: {"type": "Person", "data": {"name": f"bad{number}", "age": 3_000_000_000}},
    "missing": lambda number: {"type": "Person", "data": {"age": number % 100}},
    "enum": lambda number: {"type": "Person", "data": {"name": f"bad{number}", "mood": "blue"}},
    "range": lambda number: {"type": "Person", "data": {"name": f"bad{number}", "age": 1_000}},
    "check": lambda number: {"type": "Person", "data": {"name": f"bad{number}", "email": "nowhere"}},
    "date": lambda number: {"type": "Person", "data": {"name": f"bad{number}", "born": "2020-13-01"}},
    "twice": lambda number: {"type": "Person", "data": {"name": f"p{number // 100}"}},
    "no end": lambda number: {"edge": "Knows", "from": "p0", "to": f"nobody{number}"},
}


def lines(good: int, bad: int) -> Iterator[tuple[str, str | None]]:
    """Lines of graph JSONL, each with its kind of badness."""
    every = good // bad
    made = 0
    for number in range(good):
        yield json.dumps({"type": "Person", "data": {"name": f"p{number}", "age": number % 100}}), None
        if number % every == every - 1 and made < bad:
            kind = list(KINDS)[made % len(KINDS)]
            one = KINDS[kind](number)
            made += 1
            yield one if isinstance(one, str) else json.dumps(one), kind


def written(path: Path, good: int, bad: int) -> dict[int, str]:
    """The kind of badness by line."""
    kinds: dict[int, str] = {}
    with path.open("w") as file:
        for number, (line, kind) in enumerate(lines(good, bad), start=1):
            file.write(f"{line}\n")
            if kind is not None:
                kinds[number] = kind
    return kinds


def mended(lines: list[str]) -> str:
    """What a person makes of records that were kept aside."""
    return "".join(
        json.dumps({"type": "Person", "data": {"name": f"mended{number}"}}) + "\n" for number in range(len(lines))
    )


def check(spark: SparkSession, place: Path, good: int, bad: int, loading: SparkLoadOptions) -> og.Graph:
    graph = new_graph(place)
    data = place / "in.jsonl"
    kinds = written(data, good, bad)

    with pytest.raises(LoadError) as refused:
        spark_loaded(spark, graph, "append", data, loading)
    before = graph.snapshot().commit.seq
    result = spark_loaded(spark, graph, "append", data, loading, on_error=place / "bad")
    told = reasons(place / "bad")
    again = place / "again.jsonl"
    rejected = (place / "bad" / "rejected.jsonl").read_text().splitlines()
    again.write_text(mended(rejected))
    reloaded = spark_loaded(spark, graph, "append", again, loading)

    assert refused.value.total == bad
    assert before == 0
    assert {int(one["line"]) for one in told} == set(kinds)
    assert all(one["file"] == str(data) and one["message"] for one in told)
    assert (result.rejected, result.nodes["Person"].inserted) == (bad, good)
    assert Counter(kinds.values()) == Counter(
        {kind: bad // 12 + (place < bad % 12) for place, kind in enumerate(KINDS)}
    )
    assert reloaded.nodes["Person"].inserted == bad
    assert left_over(graph) == []
    return graph


def test_every_bad_row_is_found_in_one_run_and_can_be_mended(spark: SparkSession, tmp_path: Path) -> None:
    graph = check(spark, tmp_path, 6_000, 120, SparkLoadOptions(split_bytes=100_000, max_local_keys=0))

    assert graph.table("Person").count_rows() == 6_120


@pytest.mark.soak
def test_a_thousand_bad_rows_among_a_million_are_found(spark: SparkSession, tmp_path: Path) -> None:
    graph = check(spark, tmp_path, 1_000_000, 1_000, SparkLoadOptions())

    assert graph.table("Person").count_rows() == 1_001_000


TWICE = """
node Person { name: String @key  email: String? @unique }
edge Knows: Person -> Person { @key(src, dst) }
edge Likes: Person -> Person
"""


def written_twice(place: Path, people: int) -> LoadInput:
    """Two files with the same people and edges, the second with an edge to nobody and others that nothing names."""
    records = [node("Person", name=f"p{number}", email=f"e{number}") for number in range(people)]
    records += [edge("Knows", f"p{number}", f"p{number // 2}") for number in range(people)]
    more = [
        edge("Likes", "p1", "nobody"),
        node("Person", name="p1", email="other"),
        node("Person", name="new", email="e2"),
    ]
    place.mkdir()
    for name, others in (("a.jsonl", []), ("b.jsonl", [*more, edge("Likes", "new", "p2")])):
        file_of(place, *records, *others, name=name)
    return LoadInput(graph=(GraphSource(data=place),))


@pytest.mark.parametrize("mode", ["append", "overwrite"])
def test_rows_that_were_loaded_twice_are_found_in_tasks(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mode: str
) -> None:
    data = written_twice(tmp_path / "in", 60)
    seen: list[int] = []
    collect = SuspectRows.from_fetched

    def count(fetched: Mapping[str, Sequence[FetchedRows]], *rest: Any, **options: Any) -> SuspectRows:
        seen.append(sum(len(part.rows.ordinals) for parts in fetched.values() for part in parts))
        return collect(fetched, *rest, **options)

    monkeypatch.setattr(SuspectRows, "from_fetched", count)
    how = SparkLoadOptions(split_bytes=4_000, max_local_keys=0, max_local_reread_bytes=0, max_driver_suspects=10)
    ends: list[list[Any]] = []
    for name in ("local", "spark"):
        graph = og.create_graph(str(tmp_path / name), TWICE, runtime=runtime())
        loaded(graph, "append", node("Person", name="p3"), node("Person", name="old", email="e4"))

        def run(graph: og.Graph = graph, name: str = name, **options: Any) -> LoadResult:
            if name == "local":
                return loaded(graph, mode, inputs=data, **options)
            return spark_loaded(spark, graph, mode, data, how, **options)

        with pytest.raises(LoadError) as refused:
            run()
        result = run(on_error=tmp_path / f"bad-{name}")
        told = [refused.value.total, str(refused.value), {**result.to_json(), "commit_id": "", "quarantine": ""}]
        ends.append([*told, reasons(tmp_path / f"bad-{name}"), texts(tmp_path / f"bad-{name}"), exported(graph)])
        assert left_over(graph) == []

    assert ends[1] == ends[0]
    assert ends[0][0] > 120
    assert max(seen) <= 20  # of 245, most of which repeat others
