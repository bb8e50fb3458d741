"""What executors write is what one process writes: the same rows in the same order, in several files."""

import io
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pa_parquet
import pytest
from pyspark.sql import SparkSession

import omnigraph as og
from omnigraph.spark import export as export_module
from spark_worlds import SCHEMA, all_types_graph, put


@pytest.fixture(scope="module")
def graph(tmp_path_factory: pytest.TempPathFactory, spark: SparkSession) -> og.Graph:
    """A type with blobs, one without, and one without rows; rows in no order."""
    assert spark is not None
    plain = "node Plain { text: String?  vec: Vector(3)?  big: U64? }\nnode Empty { text: String? }\n"
    graph = all_types_graph(tmp_path_factory.mktemp("exports") / "g", rows=60)
    graph.apply_schema(f"{SCHEMA}\n{plain}")
    put(graph, "Plain", [{"id": f"{(n * 37) % 101:03}", "text": "é", "big": 2**64 - 1 - n} for n in range(60)])
    put(graph, "Plain", [{"id": f"{(n * 37) % 101:03}", "vec": [1.0, -0.0, n]} for n in range(60, 101)])
    return graph


@pytest.fixture(autouse=True)
def small_files(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(export_module, "ROWS_PER_FILE", 30)
    monkeypatch.setattr(export_module, "BLOB_ROWS_PER_FILE", 25)
    monkeypatch.setattr(export_module, "LEAST_ROWS_PER_FILE", 10)


def test_the_files_of_jsonl_are_those_of_one_process_one_behind_the_other(graph: og.Graph, tmp_path: Path) -> None:
    here = io.BytesIO()
    expected = graph.export(here)

    exported = graph.export(tmp_path / "out", engine="spark")

    files = sorted((tmp_path / "out").iterdir())
    assert b"".join(path.read_bytes() for path in files) == here.getvalue()
    assert exported == expected
    assert len([path for path in files if "Plain" in path.name]) > 2
    assert len([path for path in files if "Thing" in path.name]) > 1
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


def test_the_files_of_parquet_have_the_rows_of_one_process(graph: og.Graph, tmp_path: Path) -> None:
    graph.export(tmp_path / "here", format="parquet")

    graph.export(tmp_path / "there", format="parquet", engine="spark")

    names = sorted(str(path.relative_to(tmp_path / "here")) for path in (tmp_path / "here").rglob("*.parquet"))
    assert names == ["edges/Link.parquet", "nodes/Empty.parquet", "nodes/Plain.parquet", "nodes/Thing.parquet"]
    for name in names:
        parts = [pa_parquet.read_table(path) for path in sorted((tmp_path / "there" / name).iterdir())]
        assert pa.concat_tables(parts).equals(pa_parquet.read_table(tmp_path / "here" / name), check_metadata=True)
