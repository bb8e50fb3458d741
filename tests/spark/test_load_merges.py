"""Merges that stay on executors end as merges in one process: the same rows, counts, refusals; nothing left behind."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, cast

import msgspec
import pytest
from pyspark.sql import SparkSession

import omnigraph as og
from crash.jobs import leftovers
from load_calls import Record, edge, files_below, loaded, node
from omnigraph.commit.task_journal import TaskJournal
from omnigraph.engine.bulk.load_batch import LoadBatch
from omnigraph.engine.view import View
from omnigraph.ops.load import GraphSource, LoadError, LoadInput, LoadResult, Progress, TypedSource
from omnigraph.spark.load import load_jobs
from omnigraph.spark.load.load_engine import SparkLoadOptions
from omnigraph.spark.load.load_merge import SparkMerge
from spark_loading import exported, file_of, left_over, reasons, spark_loaded, texts
from worlds import runtime

SCHEMA = """
node Person { name: String @key  email: String? @unique  age: I32?  bio: String }
node Team { name: String @key  code: I64?  room: String?  @unique(code, room) }
edge Knows: Person -> Person { since: I32?  @key(src, dst) }
edge Leads: Team -> Person @card(1..2) { since: I32? }
"""
ON_EXECUTORS = SparkLoadOptions(
    split_bytes=1500, max_local_keys=0, max_local_reread_bytes=0, max_local_merge_rows=0, max_local_read_bytes=0
)


def person(number: int, **more: object) -> Record:
    return node("Person", name=f"p{number}", **more)


SEED: list[Record] = [
    *(person(number, email=f"e{number}", age=number, bio="x" * 20) for number in range(40)),
    *(node("Team", name=f"t{number}", code=number, room="r") for number in range(6)),
    *(edge("Knows", f"p{number}", f"p{number * 7 % 40}", since=number) for number in range(40)),
    *(edge("Leads", f"t{number}", f"p{number}", f"l{number}") for number in range(6)),
]


@pytest.fixture
def seen(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """For every merge that executors were asked for, whether it stayed with them; else the driver took all rows."""
    found: list[bool] = []
    asked = SparkMerge._check_on_executors

    def watched(self: SparkMerge, view: View, *, leaves_out: bool) -> LoadBatch | None:
        batch = asked(self, view, leaves_out=leaves_out)
        found.append(batch is not None)
        return batch

    monkeypatch.setattr(SparkMerge, "_check_on_executors", watched)
    return found


def seeded(place: Path) -> og.Graph:
    graph = og.create_graph(str(place), SCHEMA, runtime=runtime())
    loaded(graph, "append", *SEED[:40])
    loaded(graph, "append", *SEED[40:])
    graph.mutate("query q() { delete Knows where since = 3 }")  # holes between rows
    return graph


def ended(graph: og.Graph, call: Callable[[], LoadResult]) -> tuple[object, list[str]]:
    """What is told, and what the graph holds."""
    try:
        told: object = msgspec.structs.replace(call(), commit_id=None, quarantine=None)
    except LoadError as error:
        told = str(error)
    assert left_over(graph) == []
    # A write that was moved onto a newer version leaves its first deletion files to cleanup, wherever it ran.
    orphans = cast("list[str]", leftovers(graph._session, ("nodes", "edges"))["orphans"])
    assert [file for file in orphans if "/_deletions/" not in file] == []
    return told, exported(graph)


def both(spark: SparkSession, place: Path, records: list[Record], *, leaves_out: bool = False) -> tuple[object, object]:
    """How a merge ends in one process, and how it ends on Spark."""
    data = file_of(place, *records)
    given = LoadInput(graph=(GraphSource(data=data),))
    local, remote = seeded(place / "local"), seeded(place / "spark")
    kept = [{"on_error": place / name} if leaves_out else {} for name in ("bad-local", "bad-spark")]
    ends = (
        ended(local, partial(loaded, local, "merge", inputs=given, **kept[0])),
        ended(remote, partial(spark_loaded, spark, remote, "merge", given, ON_EXECUTORS, **kept[1])),
    )
    aside = [(reasons(place / name), texts(place / name)) for name in ("bad-local", "bad-spark")]
    return (ends[0], aside[0]), (ends[1], aside[1])


GOOD: dict[str, list[Record]] = {
    "rows that are new, changed, partial and the same": [
        *(person(number, age=1) for number in range(20)),
        *SEED[20:30],
        *(person(number, bio="new") for number in range(40, 60)),
        *(edge("Knows", f"p{number}", f"p{number * 7 % 40}", since=9) for number in range(10)),
        edge("Knows", "p59", "p58"),
        node("Team", name="t0", room="other"),
    ],
    "unique values that change hands": [person(0, email="e1"), person(1, email="e0"), person(2, email=None)],
    "edges that move to another source": [
        edge("Leads", "t0", "p9", "l1"),
        edge("Leads", "t1", "p9", "l0"),
    ],
    "edges that nothing identifies": [edge("Leads", "t2", "p9"), edge("Leads", "t3", "p9", "l3")],
    "a value is cleared": [person(number, age=None) for number in range(40)],
    "nothing new": SEED[:40],
}
BAD: dict[str, list[Record]] = {
    "an id twice": [*(person(number, age=1) for number in range(30)), person(7, age=2)],
    "a new row that is not complete": [person(number, age=1) for number in range(35, 45)],
    "a unique value of a row that stays": [person(0, email="e9"), person(1, age=5)],
    "a unique value twice in the load": [person(0, email="n"), person(1, email="n")],
    "half of a unique group": [node("Team", name="t0", code=1)],
    "an edge to nobody": [edge("Knows", "p1", "nobody"), person(1, age=5)],
    "too many edges": [edge("Leads", "t0", "p7", "n1"), edge("Leads", "t0", "p8", "n2")],
    "a source that loses its last edge": [edge("Leads", "t0", "p9", "l1")],
    "a new source without an edge": [node("Team", name="t9")],
    "a value that its holder does not give away after all": [
        person(0, email="e1"),  # right only if the next one is
        person(1, email="e9"),
        person(2, email="e0"),  # right only if the first one is
        person(3, age=3),
    ],
    "edges to a node that is refused": [
        person(50, bio="b", email="e9"),
        edge("Knows", "p1", "p50"),
        edge("Leads", "t0", "p50", "l0"),
        edge("Knows", "p1", "p2"),
    ],
    "an edge that can't leave, so that another can't come": [
        edge("Leads", "t0", "nobody", "l1"),
        edge("Leads", "t1", "p8", "n1"),
        edge("Leads", "t1", "p9", "n2"),
    ],
    "an id twice, the second time with what another needs": [
        person(0, email="n0"),
        person(0, email="n1"),
        person(1, email="n1"),
        person(2, email="e0"),
    ],
}


@pytest.mark.parametrize("name", GOOD)
def test_a_merge_on_executors_does_what_one_process_does(
    spark: SparkSession, tmp_path: Path, seen: list[bool], name: str
) -> None:
    local, on_spark = both(spark, tmp_path, GOOD[name])

    assert on_spark == local
    assert seen == [True]


EVERYTHING: list[Record] = [record for records in BAD.values() for record in records]
HARD = ("a value that its holder does not give away after all", "an edge that can't leave, so that another can't come")


@pytest.mark.parametrize(
    "name", [*HARD, *(pytest.param(one, marks=pytest.mark.soak) for one in BAD if one not in HARD)]
)
def test_a_merge_goes_on_without_what_is_wrong_as_in_one_process(
    spark: SparkSession, tmp_path: Path, seen: list[bool], name: str
) -> None:
    local, on_spark = both(spark, tmp_path, BAD[name], leaves_out=True)

    assert on_spark == local
    assert seen == [True]


@pytest.mark.parametrize("leaves_out", [False, True])
def test_a_merge_with_everything_wrong_ends_as_in_one_process(
    spark: SparkSession, tmp_path: Path, seen: list[bool], leaves_out: bool
) -> None:
    local, on_spark = both(spark, tmp_path, [*GOOD["nothing new"], *EVERYTHING], leaves_out=leaves_out)

    assert on_spark == local
    assert seen == [True]


def test_the_rows_of_a_data_frame_are_merged_on_executors(
    spark: SparkSession, tmp_path: Path, seen: list[bool]
) -> None:
    graph = seeded(tmp_path / "g")
    frame = spark.range(0, 60, 1, 3).selectExpr("concat('p', id) as name", "'b' as bio", "cast(id as int) as age")
    given = LoadInput(typed=(TypedSource(type="Person", is_edge=False, data=frame),))

    result = spark_loaded(spark, graph, "merge", given, ON_EXECUTORS)
    again = spark_loaded(spark, graph, "merge", given, ON_EXECUTORS)

    assert (result.nodes["Person"].inserted, result.nodes["Person"].updated) == (20, 40)
    assert (again.commit_id, again.nodes["Person"].unchanged) == (None, 60)
    assert seen == [True, True]
    assert left_over(graph) == []


def test_records_that_can_not_be_read_are_left_out_of_a_merge_on_executors(
    spark: SparkSession, tmp_path: Path, seen: list[bool]
) -> None:
    records: list[Any] = [person(1, age=5), "{", person(2, age="old"), person(3, age=6)]

    local, on_spark = both(spark, tmp_path, records, leaves_out=True)

    assert on_spark == local
    assert seen == [True]


def test_blobs_that_records_leave_out_stay_in_a_merge_on_executors(
    spark: SparkSession, tmp_path: Path, seen: list[bool]
) -> None:
    graph = og.create_graph(
        str(tmp_path / "g"), "node Doc { name: String @key  note: String?  body: Blob? }", runtime=runtime()
    )
    loaded(graph, "append", *(node("Doc", name=f"d{number}", body=f"base64:{'YWJj' * 9}") for number in range(9)))

    spark_loaded(spark, graph, "merge", file_of(tmp_path, node("Doc", name="d1", note="n")), ON_EXECUTORS)

    blob = graph.blob("Doc", "d1", "body")
    assert blob is not None
    assert blob.read() == b"abc" * 9
    assert seen == [True]


class Meanwhile:
    """Faults that do something else, once, when a load has staged its rows."""

    def __init__(self, first: Callable[[], object]) -> None:
        self._waiting = [first]

    def reach(self, point: str) -> None:
        """Called on the driver."""
        if point == "publish.staged" and self._waiting:
            self._waiting.pop()()


RACES = {
    "other rows": ('update Person set { age: 77 } where name = "p30"', [True]),
    "a row of the merge": ('update Person set { age: 77 } where name = "p3"', [True, True]),
    "a row that the merge leaves as it is": ('update Person set { bio: "z" } where name = "p0"', [True, True]),
    "an id that the merge makes": ('insert Person { name: "p50", bio: "z" }', [True, True]),
    "a unique value of the merge": ('update Person set { email: "n5" } where name = "p30"', [True, True]),
    "the node at an end": ('delete Person where name = "p20"', [True, True]),
    "the last place of a source": ('insert Leads { from: "t5", to: "p1" }', [True, True]),
}


@pytest.mark.parametrize("name", RACES)
def test_a_merge_on_executors_beside_another_writer_ends_as_in_one_process(
    spark: SparkSession, tmp_path: Path, seen: list[bool], name: str
) -> None:
    other, expected = RACES[name]
    records = [
        SEED[0],
        *(person(number, age=5) for number in range(1, 9)),
        person(5, email="n5"),
        person(50, bio="b"),
        edge("Knows", "p1", "p20"),
        edge("Leads", "t5", "p2", "n1"),
    ]
    del records[5]  # p5 has a line of its own
    given = LoadInput(graph=(GraphSource(data=file_of(tmp_path, *records)),))
    ends = []
    for engine in ("local", "spark"):
        graph = seeded(tmp_path / engine)
        beside = Meanwhile(partial(graph.mutate, f"query q() {{ {other} }}"))
        opened = og.open_graph(graph.uri, runtime=replace(runtime(), faults=beside))
        call = (
            partial(loaded, opened, "merge", inputs=given)
            if engine == "local"
            else partial(spark_loaded, spark, opened, "merge", given, ON_EXECUTORS)
        )
        ends.append(ended(graph, call))

    assert ends[1] == ends[0]
    assert seen == expected


def test_an_interrupted_merge_on_executors_leaves_nothing(spark: SparkSession, tmp_path: Path) -> None:
    graph = seeded(tmp_path / "g")
    before = files_below(graph)
    data = file_of(tmp_path, *(person(number, age=1, bio="b") for number in range(50)))

    def interrupt(progress: Progress) -> None:
        if progress.phase == "check":
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        spark_loaded(spark, graph, "merge", data, ON_EXECUTORS, progress=interrupt)

    assert files_below(graph) == before


def test_a_small_merge_is_read_by_the_driver_and_starts_no_job(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here, there = seeded(tmp_path / "here"), seeded(tmp_path / "there")
    changes = [person(3, age=99), person(100, bio="new"), edge("Knows", "p1", "nobody"), person(4, age="old")]
    data = file_of(tmp_path, *changes)
    own = partial(loaded, here, "merge", inputs=LoadInput(graph=(GraphSource(data=data),)), on_error=tmp_path / "a")
    expected = ended(here, own)

    monkeypatch.delattr(load_jobs, "run_job")
    merged = partial(spark_loaded, spark, there, "merge", data, SparkLoadOptions(), on_error=tmp_path / "b")

    assert ended(there, merged) == expected
    assert reasons(tmp_path / "b") == reasons(tmp_path / "a")
    assert texts(tmp_path / "b") == texts(tmp_path / "a")


@pytest.mark.parametrize("most_held, is_kept", [(64 << 20, False), (0, True)])
def test_what_the_driver_reads_by_itself_is_held_in_memory_while_it_is_little(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, most_held: int, is_kept: bool
) -> None:
    monkeypatch.setattr("omnigraph.spark.load.driver_buffer.MAX_BUFFERED_BYTES", most_held)
    kept: list[str] = []
    keep = TaskJournal.keep

    def noted(self: TaskJournal, name: str, data: bytes) -> str:
        kept.append(name)
        return keep(self, name, data)

    monkeypatch.setattr(TaskJournal, "keep", noted)
    records = [*GOOD["rows that are new, changed, partial and the same"], person(1, age="old"), person(2, bio=7)]
    data = file_of(tmp_path, *records)
    local, remote = seeded(tmp_path / "local"), seeded(tmp_path / "spark")
    here = LoadInput(graph=(GraphSource(data=data),))

    ends = (
        ended(local, partial(loaded, local, "merge", inputs=here, on_error=tmp_path / "a")),
        ended(remote, partial(spark_loaded, spark, remote, "merge", here, SparkLoadOptions(), on_error=tmp_path / "b")),
    )

    assert ends[0] == ends[1]
    assert len(reasons(tmp_path / "b")) == 2
    assert (reasons(tmp_path / "a"), texts(tmp_path / "a")) == (reasons(tmp_path / "b"), texts(tmp_path / "b"))
    assert bool(kept) == is_kept
