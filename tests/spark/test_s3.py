"""A graph on an object store, in the hands of Spark: the same as on a disk."""

import io
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pa_parquet
import pytest
from pyspark.sql import SparkSession

import omnigraph as og
import spark_loading
from load_calls import edge, loaded, person, text_of
from mutating import SCHEMA
from omnigraph.ops.load import GraphSource, LoadInput, TypedSource
from omnigraph.ops.optimize import OptimizeCall, optimize
from omnigraph.ops.optimize_table import UpkeepCall
from omnigraph.runtime import Runtime
from omnigraph.spark.load.load_engine import SparkLoadOptions
from omnigraph.spark.maintenance import SparkMaintenanceWorker
from omnigraph.spark.session.graph_location import GraphLocation
from omnigraph.storage.s3_object_store import S3ObjectStore
from s3_server import BUCKET, fresh_uri, s3_server
from spark_loading import APART, file_of, left_over, spark_loaded
from upkeep_calls import EAGER, by_table, eager, exported
from worlds import FAST, runtime

PEOPLE = [person(f"p{number}", age=number) for number in range(40)]
KNOWS = [edge("Knows", f"p{number}", f"p{number * 7 % 40}") for number in range(40)]


@pytest.fixture(scope="module")
def storage() -> Iterator[dict[str, str]]:
    with s3_server() as options:
        yield options


def reaching(storage: dict[str, str]) -> Runtime:
    """Settings that reach the store."""
    return runtime(eager(replace(FAST, storage=storage)))


@pytest.fixture(scope="module")
def graph(storage: dict[str, str], spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> og.Graph:
    """Loaded on Spark, in several splits."""
    made = og.create_graph(fresh_uri(), SCHEMA, runtime=reaching(storage))
    spark_loaded(spark, made, "append", file_of(tmp_path_factory.mktemp("in"), *KNOWS, *PEOPLE), APART)
    return made


def test_a_load_is_one_commit_on_s3(graph: og.Graph) -> None:
    pins = graph.snapshot()

    assert (pins.pin("node:Person").rows, pins.pin("edge:Knows").rows) == (40, 40)
    assert left_over(graph) == []


def test_executors_read_from_s3(graph: og.Graph) -> None:
    joined = graph.spark.sql("select count(*) n from Knows k join Person p on k.dst = p.id where p.age < 10").first()

    assert joined is not None
    assert joined.n == sum(number * 7 % 40 < 10 for number in range(40))


def test_executors_export_from_s3(graph: og.Graph, tmp_path: Path) -> None:
    here = io.BytesIO()
    graph.export(here)

    graph.spark.export(tmp_path / "out")

    assert b"".join(path.read_bytes() for path in sorted((tmp_path / "out").iterdir())) == here.getvalue()


def test_executors_merge_into_s3(graph: og.Graph, spark: SparkSession, tmp_path: Path) -> None:
    data = file_of(tmp_path, *(person(f"p{number}", age=7) for number in range(30, 50)))
    how = SparkLoadOptions(
        split_bytes=300, max_local_keys=0, max_local_reread_bytes=0, max_local_merge_rows=0, max_local_read_bytes=0
    )

    told = spark_loaded(spark, graph, "merge", data, how).nodes["Person"]

    assert (told.inserted, told.updated) == (10, 10)
    assert left_over(graph) == []


def test_executors_maintain_tables_on_s3(graph: og.Graph, spark: SparkSession) -> None:
    before = exported(graph)
    session = graph._session
    hands = SparkMaintenanceWorker(spark, GraphLocation.from_session(session), EAGER, min_rows=0)
    due = graph.optimize(all_indexes=True, dry_run=True)

    done = optimize(session, OptimizeCall(upkeep=UpkeepCall(actor="test", all_indexes=True)), hands)

    assert not done.has_failed
    assert [(one.fragments_removed, one.fragments_added) for one in done.tables] == [
        (one.fragments_removed, one.fragments_added) for one in due.tables
    ]
    assert exported(graph) == before
    assert "src_btree" in by_table(done)["Knows"].indexes_built


def test_executors_read_their_input_from_s3(spark: SparkSession, storage: dict[str, str], tmp_path: Path) -> None:
    rest = pa.table({"name": [f"p{number}" for number in range(20, 40)], "age": pa.array(range(20, 40), pa.int32())})
    pa_parquet.write_table(rest, people := io.BytesIO(), row_group_size=5)
    knows = "from,to\n" + "".join(f"{one['from']},{one['to']}\n" for one in KNOWS[20:])
    parts = {"in.jsonl": text_of([*KNOWS[:20], *PEOPLE[:20]]), "p.parquet": people.getvalue(), "k.csv": knows.encode()}
    for name, data in parts.items():
        S3ObjectStore(BUCKET, "input", storage).put(name, data)
    place = f"s3://{BUCKET}/input"
    given = LoadInput(
        graph=(GraphSource(data=f"{place}/*.jsonl"),),
        typed=(
            TypedSource(type="Person", is_edge=False, data=f"{place}/p.parquet"),
            TypedSource(type="Knows", is_edge=True, data=f"{place}/k.csv"),
        ),
    )
    how = SparkLoadOptions(split_bytes=300, max_local_keys=0, max_local_reread_bytes=0)
    made = [og.create_graph(str(tmp_path / name), SCHEMA, runtime=reaching(storage)) for name in "ab"]
    loaded(made[0], "append", *PEOPLE, *KNOWS)

    spark_loaded(spark, made[1], "append", given, how)

    assert spark_loading.exported(made[1]) == spark_loading.exported(made[0])


@pytest.mark.parametrize("address", ["gs://bucket/people.jsonl", "https://example.org/people.jsonl"])
def test_an_input_that_is_no_file_is_told_the_way_round(graph: og.Graph, address: str) -> None:
    with pytest.raises(og.OmnigraphError, match=r"graph\.spark\.load") as refused:
        graph.load(address, mode="append")

    assert refused.value.code == "input_elsewhere"
