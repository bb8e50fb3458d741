"""What executors write is what one process writes: the same rows in the same order, in several files."""

import io
import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pa_parquet
import pytest
from pyspark.sql import SparkSession

import omnigraph as og
from omnigraph.cli.main import main
from omnigraph.spark.read import export as export_module
from spark_worlds import SCHEMA, all_types_graph, put, stored
from worlds import runtime


@pytest.fixture(scope="module")
def graph(tmp_path_factory: pytest.TempPathFactory, spark: SparkSession) -> og.Graph:
    """Types with blobs, without, without rows, and with nothing but nulls; rows in no order."""
    assert spark is not None
    plain = "node Plain { text: String?  vec: Vector(3)?  big: U64? }\nnode Empty { text: String? }\n"
    plain += "node Bare { vec: Vector(384)? }\n"
    graph = all_types_graph(tmp_path_factory.mktemp("exports") / "g", rows=60)
    graph.apply_schema(f"{SCHEMA}\n{plain}")
    put(graph, "Bare", [{"id": "a"}, {"id": "b"}])
    put(graph, "Plain", [{"id": f"{(n * 37) % 101:03}", "text": "é", "big": 2**64 - 1 - n} for n in range(60)])
    put(graph, "Plain", [{"id": f"{(n * 37) % 101:03}", "vec": [1.0, -0.0, n]} for n in range(60, 101)])
    return graph


@pytest.fixture(autouse=True)
def small_files(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(export_module, "ROWS_PER_FILE", 30)
    monkeypatch.setattr(export_module, "BLOB_ROWS_PER_FILE", 25)
    monkeypatch.setattr(export_module, "MIN_ROWS_PER_FILE", 10)


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


def test_a_graph_without_rows_comes_back(graph: og.Graph, tmp_path: Path) -> None:
    exported = graph.export(tmp_path / "out", engine="spark", types=["Empty"])

    again = og.create_graph(str(tmp_path / "again"), "node Empty { text: String? }", runtime=runtime())
    loaded = again.load(tmp_path / "out", mode="append")
    assert exported.rows == {"Empty": 0}
    assert loaded.commit_id is None


def test_the_files_of_parquet_have_the_rows_of_one_process(graph: og.Graph, tmp_path: Path) -> None:
    graph.export(tmp_path / "here", format="parquet")

    graph.export(tmp_path / "there", format="parquet", engine="spark")

    names = sorted(str(path.relative_to(tmp_path / "here")) for path in (tmp_path / "here").rglob("*.parquet"))
    assert [Path(name).stem for name in names] == ["Link", "Bare", "Empty", "Plain", "Thing"]
    for name in names:
        parts = [pa_parquet.read_table(path) for path in sorted((tmp_path / "there" / name).iterdir())]
        assert pa.concat_tables(parts).equals(pa_parquet.read_table(tmp_path / "here" / name), check_metadata=True)


def test_what_was_exported_is_replaced_and_nothing_else(graph: og.Graph, tmp_path: Path) -> None:
    graph.export(tmp_path / "out", engine="spark", types=["Empty", "Bare"])
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "letter.txt").touch()

    graph.export(tmp_path / "out", engine="spark", types=["Bare"])
    with pytest.raises(og.ExportTargetError, match=r"it holds `letter\.txt`, which no export wrote"):
        graph.export(tmp_path / "mine", engine="spark", types=["Bare"])

    assert [path.name for path in (tmp_path / "out").iterdir()] == ["000-Bare-00000.jsonl"]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["mine", "out"]


def test_what_executors_exported_can_be_loaded(graph: og.Graph, tmp_path: Path) -> None:
    graph.export(tmp_path / "out", engine="spark", types=["Thing", "Link"])
    other = og.create_graph(str(tmp_path / "g"), SCHEMA, runtime=runtime())

    other.load(tmp_path / "out", mode="append")

    for name in ("Thing", "Link"):
        assert stored(other, name).equals(stored(graph, name).cast(stored(other, name).schema))


def test_the_command_line_has_executors_write(
    graph: og.Graph, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    target = tmp_path / "out"
    code = main(
        ["export", graph.uri, "--engine", "spark", "--type", "Bare", "--output", str(target), "--quiet", "--json"]
    )

    assert code == 0
    assert json.loads(capsys.readouterr().out)["rows"] == {"Bare": 2}
    assert (target / "000-Bare-00000.jsonl").read_text(encoding="utf-8").count("\n") == 2


@pytest.mark.parametrize(
    "arguments, message",
    [
        (["--engine", "spark"], "name a directory with --output"),
        (["--engine", "local", "--master", "local"], "is for Spark"),
    ],
)
def test_the_command_line_refuses_what_can_not_be_meant(
    graph: og.Graph, arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    code = main(["export", graph.uri, *arguments])

    assert code == 2
    assert message in capsys.readouterr().err
