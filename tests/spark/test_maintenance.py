"""Maintenance on executors comes to the same as in this process."""

import shutil
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import msgspec
import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

import omnigraph as og
from load_calls import files_below
from mutating import run
from omnigraph.ops.optimize import OptimizeCall, OptimizeResult, optimize
from omnigraph.ops.optimize_table import UpkeepCall
from omnigraph.options import UpkeepOptions
from omnigraph.spark import maintenance
from omnigraph.spark.maintenance import SparkMaintenanceWorker, create_worker
from omnigraph.spark.maintenance import _build_task as build
from omnigraph.spark.session.graph_location import GraphLocation
from omnigraph.storage.compaction import SegmentBuild
from upkeep_calls import EAGER, by_table, exported, files_of, fragments, indexed_rows, opened, optimized
from vector_worlds import World, make_small
from worlds import runtime

SCHEMA = """
node P { k: String @key  n: I64 @index  s: String? @index  b: Bool? @index  v: Vector(2)? @index  z: Blob? }
edge E: P -> P { w: I32? }
"""
PARTS, ROWS = 4, 30


@pytest.fixture(scope="module")
def seeded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A graph whose tables have several fragments, with holes."""
    root = tmp_path_factory.mktemp("spark-upkeep")
    graph = og.create_graph(str(root / "g"), SCHEMA, runtime=runtime())
    for part in range(PARTS):
        names = [f"p{part}-{number}" for number in range(ROWS)]
        rows = [
            {
                "type": "P",
                "data": {
                    "k": name,
                    "n": part,
                    "s": f"graphs {number}",
                    "b": True,
                    "v": [1.0, number],
                    "z": b"x" * number,
                },
            }
            for number, name in enumerate(names)
        ]
        edges = [{"edge": "E", "from": names[0], "to": name, "data": {"w": part}} for name in names]
        graph.load([*rows, *edges], mode="append")
    run(graph, 'delete P where k = "p1-7"')
    return root / "g"


def copied(seeded: Path, place: Path) -> og.Graph:
    shutil.copytree(seeded, place)
    return og.open_graph(str(place), runtime=runtime())


def on_spark(graph: og.Graph, spark: SparkSession) -> OptimizeResult:
    session = opened(graph.uri)._session
    call = OptimizeCall(upkeep=UpkeepCall(actor="test", all_indexes=True))
    return optimize(
        session, call, SparkMaintenanceWorker(spark, GraphLocation.from_session(session), EAGER, min_rows=0)
    )


def test_executors_do_what_this_process_does(seeded: Path, tmp_path: Path, spark: SparkSession) -> None:
    here, there = copied(seeded, tmp_path / "here"), copied(seeded, tmp_path / "there")
    before = exported(there)

    local, remote = optimized(here), on_spark(there, spark)

    assert not remote.has_failed
    assert [msgspec.structs.replace(one, commit_id=None, manifest_version=None) for one in remote.tables] == [
        msgspec.structs.replace(one, commit_id=None, manifest_version=None) for one in local.tables
    ]
    assert exported(there) == before
    assert indexed_rows(there) == indexed_rows(here)
    assert set(indexed_rows(there).values()) == {1.0}
    assert [fragments(there, name) for name in ("P", "E")] == [fragments(here, name) for name in ("P", "E")]


def test_indexes_that_were_built_in_parts_serve(seeded: Path, tmp_path: Path, spark: SparkSession) -> None:
    graph = copied(seeded, tmp_path / "g")
    wide = SparkMaintenanceWorker(
        spark,
        GraphLocation.from_session(graph._session),
        replace(EAGER, merged_fragments=99, deleted_rows=99),
        min_rows=0,
    )
    session = opened(graph.uri)._session
    session.store.runtime = replace(session.runtime, options=replace(session.runtime.options, upkeep=wide.options))

    optimize(session, OptimizeCall(upkeep=UpkeepCall(actor="test")), wide)

    segments = {one.name: one.segments for one in graph.indexes() if one.type_name == "P" and one.name is not None}
    assert segments["id_btree"] == 2
    table = graph.table("P")
    assert [table.count_rows(f"n = {part}") for part in range(PARTS)] == [30, 29, 30, 30]
    assert "ScalarIndexQuery" in table.scanner(filter="n = 1").explain_plan()


def test_nothing_is_left_beside_the_tables(seeded: Path, tmp_path: Path, spark: SparkSession) -> None:
    graph = copied(seeded, tmp_path / "g")
    before = files_of(graph)

    on_spark(graph, spark)

    assert [file for file in files_below(graph) if file.startswith("__recovery")] == []
    assert len([file for file in files_of(graph) - before if "/_versions/" in file]) == 2


def test_an_error_of_an_executor_is_the_tables_and_leaves_nothing(
    seeded: Path, tmp_path: Path, spark: SparkSession
) -> None:
    graph = copied(seeded, tmp_path / "g")
    before, content = files_of(graph), exported(graph)
    session = opened(graph.uri)._session
    broken = replace(EAGER, fragment_rows=-1)

    done = optimize(
        session,
        OptimizeCall(upkeep=UpkeepCall(actor="test"), types=("P",)),
        SparkMaintenanceWorker(spark, GraphLocation.from_session(session), broken, min_rows=0),
    )

    assert by_table(done)["P"].error is not None
    assert files_of(graph) == before
    assert exported(graph) == content
    assert [file for file in files_below(graph) if file.startswith("__recovery")] == []


def test_what_is_small_stays_in_this_process(seeded: Path, tmp_path: Path, spark: SparkSession) -> None:
    graph = copied(seeded, tmp_path / "g")
    session = opened(graph.uri)._session
    jobs = len(spark.sparkContext.statusTracker().getJobIdsForGroup(None))

    done = optimize(session, OptimizeCall(upkeep=UpkeepCall(actor="test")), create_worker(session, None))

    assert by_table(done)["P"].fragments_removed == PARTS
    assert len(spark.sparkContext.statusTracker().getJobIdsForGroup(None)) == jobs


def test_the_engine_is_chosen_by_name(seeded: Path, tmp_path: Path, spark: SparkSession) -> None:
    del spark
    graph = copied(seeded, tmp_path / "g")

    done = opened(graph.uri).optimize(engine="spark")

    assert not done.has_failed
    with pytest.raises(og.OmnigraphError, match="master"):
        graph.optimize(engine="local", master="local[2]")


@pytest.mark.parametrize("kind", ["ivf_flat", "ivf_pq", "ivf_rq"])
def test_a_vector_index_is_built_in_parts_and_answers_as_one(
    kind: str, tmp_path: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_small(monkeypatch)
    world = World(tmp_path / "g", kind)
    for part in range(PARTS):
        world.add(1_200 * part, 1_200)
    session = world.graph._session
    # Large enough already: each fragment is a part of its own.
    settled = UpkeepOptions(merged_fragments=99, index_rows=1)
    session.store.runtime = replace(session.runtime, options=replace(session.runtime.options, upkeep=settled))
    worker = SparkMaintenanceWorker(spark, GraphLocation.from_session(session), settled, min_rows=2_000)
    built: list[object] = []

    def build_noted(context: object, items: Sequence[maintenance.WorkItem]) -> object:
        built.extend(items)
        return build(context, items)  # type: ignore[arg-type]  # passed on

    monkeypatch.setattr(maintenance, "_build_task", build_noted)

    done = optimize(session, OptimizeCall(upkeep=UpkeepCall(actor="test")), worker)

    assert not done.has_failed
    assert len([item for item in built if isinstance(item, SegmentBuild) and item.column == "vec"]) == 2
    (index,) = [index for index in world.graph.indexes() if index.column == "vec"]
    assert (index.segments, index.state.value) == (1, "complete")
    found, notes = world.find_recall(1.0)
    assert found >= 0.9
    assert any("approximate" in note for note in notes)
    # The parts are gone: the new version names every index that has files.
    described = world.graph.table("Doc").describe_indices()
    named = {segment.uuid for stored in described for segment in stored.segments}
    files = (tmp_path / "g").glob("nodes/*/_indices/*/*")
    assert {file.parent.name for file in files} == {str(uuid) for uuid in named}


def test_vectors_without_a_direction_leave_the_index_pending(tmp_path: Path, spark: SparkSession) -> None:
    schema = 'node Doc { key: String @key  vec: Vector(16)? @index(kind="ivf_flat", recall=0.9) }'
    graph = og.create_graph(str(tmp_path / "g"), schema, runtime=runtime())
    rows = 5_000
    zeros = pa.FixedSizeListArray.from_arrays(pa.array(np.zeros(16 * rows, np.float32)), 16)
    graph.load(nodes={"Doc": pa.table({"key": [f"d{row}" for row in range(rows)], "vec": zeros})}, mode="append")

    done = on_spark(graph, spark)

    assert by_table(done)["Doc"].indexes_pending == ("vec_ivf_flat",)
    assert not done.has_failed
