"""Fragments of a load follow its size, not the number of its files and partitions."""

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

import omnigraph as og
from load_calls import Record, edge, loaded, person, text_of
from mutating import column, new_graph
from omnigraph.engine.decoding.input_files import FileDamagedError
from omnigraph.ops.load import GraphSource, LoadError, LoadInput, TypedSource
from omnigraph.ops.load_inputs import expand_inputs
from omnigraph.spark.load.input_splits import Split, pack_splits, plan_splits
from omnigraph.spark.load.load_spec import FIRST_FRAME_SPLIT, MAX_FRAMES, SPLITS_PER_FRAME, FrameSource
from omnigraph.spark.load.split_planning import plan_in_tasks
from spark_loading import APART, left_over, reasons, spark_loaded, texts

FILES = 24


@pytest.fixture
def graph(tmp_path: Path) -> og.Graph:
    return new_graph(tmp_path)


def many_files(place: Path, *others: Record | str) -> LoadInput:
    """Small files, each with three people; the last with others, too."""
    place.mkdir()
    for number in range(FILES):
        records = [person(f"p{number}-{row}", age=row) for row in range(3)]
        (place / f"{number:03}.jsonl").write_bytes(text_of([*records, *(others if number == FILES - 1 else ())]))
    return LoadInput(graph=tuple(GraphSource(data=path) for path in sorted(place.iterdir())))


def count_fragments(graph: og.Graph, name: str) -> int:
    return len(graph._session.open_tables(graph.snapshot()).open_table(f"node:{name}").list_fragments())


def splits_of(*sizes: int) -> list[Split]:
    return [Split(number=number, input=number, start=0, end=-1, size=size) for number, size in enumerate(sizes)]


@pytest.mark.parametrize(
    "sizes, cores, ends",
    [
        ((), 2, []),
        ((1, 1, 1), 2, [3]),
        ((80, 80, 80), 1, [1, 2, 3]),
        ((50, 50, 50, 50), 1, [2, 4]),
        # Enough packs for all cores, but none smaller than an eighth of the target.
        ((50, 50, 50, 50), 4, [1, 2, 3, 4]),
        ((5, 5, 5, 5, 5), 100, [2, 4, 5]),
    ],
)
def test_neighbouring_splits_are_packed_to_the_target(sizes: tuple[int, ...], cores: int, ends: list[int]) -> None:
    packs = pack_splits(splits_of(*sizes), target_bytes=100, cores=cores)

    assert [pack.stop for pack in packs] == ends
    assert [number for pack in packs for number in pack] == list(range(len(sizes)))


def test_small_files_share_fragments(spark: SparkSession, graph: og.Graph, tmp_path: Path) -> None:
    data = many_files(tmp_path / "in")

    result = spark_loaded(spark, graph, "append", data, APART)

    assert result.nodes["Person"].inserted == 3 * FILES
    names = [f"p{number}-{row}" for number in range(FILES) for row in range(3)]
    assert sorted(column(graph, "Person", "name")) == sorted(names)
    assert count_fragments(graph, "Person") <= 4
    assert left_over(graph) == []


def test_bad_rows_of_small_files_are_told_as_one_process_tells_them(
    spark: SparkSession, graph: og.Graph, tmp_path: Path
) -> None:
    (tmp_path / "other").mkdir()
    other = new_graph(tmp_path / "other")
    data = many_files(tmp_path / "in", person("p1-0"), edge("Knows", "p1-1", "nobody"), edge("Knows", "p1-1", "p2-2"))

    with pytest.raises(LoadError) as refused:
        spark_loaded(spark, graph, "append", data, APART)
    with pytest.raises(LoadError) as expected:
        loaded(other, "append", inputs=data)
    assert [str(problem) for problem in refused.value.problems] == [str(one) for one in expected.value.problems]

    here, there = tmp_path / "here", tmp_path / "there"
    result = spark_loaded(spark, graph, "append", data, APART, on_error=here)
    loaded(other, "append", inputs=data, on_error=there)

    assert (reasons(here), texts(here)) == (reasons(there), texts(there))
    assert (result.nodes["Person"].inserted, result.edges["Knows"].inserted) == (3 * FILES, 1)
    assert sorted(column(graph, "Person", "name")) == sorted(column(other, "Person", "name"))
    assert count_fragments(graph, "Person") <= 4
    assert left_over(graph) == []


def test_small_partitions_of_a_frame_share_fragments(spark: SparkSession, graph: og.Graph) -> None:
    people = spark.range(0, 400, 1, 40).selectExpr("concat('p', id) as name", "cast(id % 90 as int) as age")
    given = LoadInput(typed=(TypedSource(type="Person", is_edge=False, data=people),))

    result = spark_loaded(spark, graph, "append", given)

    assert result.nodes["Person"].inserted == 400
    assert count_fragments(graph, "Person") <= spark.sparkContext.defaultParallelism
    assert left_over(graph) == []


def test_numbers_of_splits_have_room_for_millions_of_files() -> None:
    first = FrameSource(number=0, type="Person", is_edge=False)
    last = FrameSource(number=MAX_FRAMES - 1, type="Person", is_edge=False)

    assert first.first_split == FIRST_FRAME_SPLIT > 4_000_000
    assert last.splits.stop <= 1 << 24
    assert len(first.splits) == SPLITS_PER_FRAME


def test_the_splits_of_many_files_are_planned_in_tasks(spark: SparkSession, graph: og.Graph, tmp_path: Path) -> None:
    place = tmp_path / "in"
    place.mkdir()
    for number in range(5):
        table = pa.table({"name": [f"p{number}-{row}" for row in range(100)]})
        pq.write_table(table, place / f"{number}.parquet", row_group_size=20)
    given = LoadInput(typed=(TypedSource(type="Person", is_edge=False, data=place),))
    inputs = expand_inputs(given, graph._session.load_catalog(graph._session.head().snapshot))

    planned = plan_in_tasks(spark, inputs, target_bytes=300, max_local_files=4)

    assert plan_splits(inputs, target_bytes=300, planned=planned) == plan_splits(inputs, target_bytes=300)
    assert len(planned) == 5 < sum(map(len, planned.values()))
    assert plan_in_tasks(spark, inputs, target_bytes=300, max_local_files=5) == {}
    (place / "3.parquet").write_bytes(b"PAR1 broken" * 100)
    broken = expand_inputs(given, graph._session.load_catalog(graph._session.head().snapshot))
    with pytest.raises(FileDamagedError, match=r"3\.parquet"):
        plan_in_tasks(spark, broken, target_bytes=300, max_local_files=4)
