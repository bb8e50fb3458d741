"""Files come compressed, without an extension, from standard input, and as frames: they are read all the same."""

import bz2
import gzip
import json
import lzma
import subprocess
import sys
from collections.abc import Callable
from io import BytesIO
from pathlib import Path
from typing import Any

import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pa_parquet
import pytest

import omnigraph as og
from omnigraph.cli.main import main

SCHEMA = "node Person { name: String @key  age: I64? }\nedge Knows: Person -> Person { @key(src, dst) }\n"
CSV = b"name,age\nada,36\nbob,\n"


@pytest.fixture
def graph(tmp_path: Path) -> og.Graph:
    return og.create_graph(str(tmp_path / "people.omni"), SCHEMA)


def ages(graph: og.Graph) -> dict[str, Any]:
    rows = graph.query("match { $p: Person } return { $p.name as n, $p.age as a }").rows()
    return {row["n"]: row["a"] for row in rows}


def compress_zstd(data: bytes) -> bytes:
    out = pa.BufferOutputStream()
    with pa.CompressedOutputStream(out, "zstd") as stream:
        stream.write(data)
    return bytes(out.getvalue())


PACKERS: dict[str, Callable[[bytes], bytes]] = {
    ".gz": gzip.compress,
    ".bz2": bz2.compress,
    ".xz": lzma.compress,
    ".zst": compress_zstd,
}


@pytest.mark.parametrize("option", [[], ["--null", ""]])
@pytest.mark.parametrize("ending", PACKERS)
def test_text_may_be_compressed(ending: str, option: list[str], graph: og.Graph, tmp_path: Path) -> None:
    path = tmp_path / f"Person.csv{ending}"
    path.write_bytes(PACKERS[ending](CSV))

    assert main(["load", graph.uri, "--node", f"Person={path}", "--mode", "append", *option, "--quiet"]) == 0

    assert ages(graph) == {"ada": 36, "bob": None}


@pytest.mark.parametrize("ending", PACKERS)
def test_a_truncated_compressed_file_is_refused(
    ending: str, graph: og.Graph, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / f"Person.csv{ending}"
    text = "name\n" + "".join(f"{number * 7919 % 100_003}\n" for number in range(20_000))
    packed = PACKERS[ending](text.encode())
    path.write_bytes(packed[: len(packed) // 2])

    assert main(["load", graph.uri, str(path), "--mode", "append", "--quiet"]) == 1

    assert "can't be read in its format" in capsys.readouterr().err
    assert ages(graph) == {}


def test_a_schema_is_inferred_from_a_compressed_file_by_its_inner_name(tmp_path: Path) -> None:
    path = tmp_path / "people.csv.xz"
    path.write_bytes(lzma.compress(CSV))

    assert "node People {" in og.infer_schema([path]).source


def write_parquet() -> bytes:
    out = pa.BufferOutputStream()
    pa_parquet.write_table(pa.table({"name": ["ada", "bob"], "age": [36, None]}), out)
    return bytes(out.getvalue())


STDIN = {
    "csv": CSV,
    "tsv": CSV.replace(b",", b"\t"),
    "json": json.dumps([{"name": "ada", "age": 36}, {"name": "bob"}]).encode(),
    "jsonl": b'{"name": "ada", "age": 36}\n{"name": "bob"}\n',
    "parquet": write_parquet(),
}


@pytest.mark.parametrize("format_", STDIN)
def test_stdin_is_read_in_any_format(format_: str, graph: og.Graph) -> None:
    program = "import sys; from omnigraph.cli.main import main; sys.exit(main(sys.argv[1:]))"
    arguments = ["load", graph.uri, "--node", "Person=-", "--input-format", format_, "--mode", "append", "--quiet"]

    done = subprocess.run(
        [sys.executable, "-c", program, *arguments], input=STDIN[format_], capture_output=True, check=False
    )

    assert done.returncode == 0, done.stderr
    assert ages(graph) == {"ada": 36, "bob": None}


@pytest.mark.parametrize(
    "arguments, message",
    [
        (["--node", "Person=-"], "`-` needs --input-format"),
        (["-", "--node", "Person=-", "--input-format", "csv"], "stdin can be read only once"),
        (["--data", "-", "--node", "Person=-", "--input-format", "csv"], "stdin can be read only once"),
        (["Person", "--input-format", "xlsx"], "Invalid value for '--input-format'"),
    ],
)
def test_stdin_without_a_format_is_refused(
    arguments: list[str], message: str, graph: og.Graph, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["load", graph.uri, *arguments, "--mode", "append", "--quiet"]) == 2

    assert message in capsys.readouterr().err


def test_a_file_without_an_ending_is_read_in_the_format_that_is_named(graph: og.Graph, tmp_path: Path) -> None:
    path = tmp_path / "Person"
    path.write_bytes(CSV)

    streams = og.read_files([path], SCHEMA, options=og.FileOptions(input_format="csv"))
    graph.load(streams, mode="append")  # type: ignore[arg-type]

    assert ages(graph) == {"ada": 36, "bob": None}
    with pytest.raises(og.OmnigraphError, match="must be one of csv, tsv"):
        og.FileOptions(input_format="xlsx")


FRAMES: dict[str, Any] = {
    "polars": pl.DataFrame,
    "pandas": pd.DataFrame,
    "arrow": pa.table,
}


@pytest.mark.parametrize("library", FRAMES)
def test_a_schema_is_inferred_from_frames_and_they_load_with_it(library: str, tmp_path: Path) -> None:
    frame = FRAMES[library]
    people = frame({"name": ["ada", "bob"], "First Year": [1815, 1906], "from": ["x", "y"]})
    knows = frame({"source": ["ada"], "target": ["bob"], "since": [1900]})

    inferred = og.infer_schema([], nodes={"Person": people}, edges={"Knows": knows})
    graph = og.create_graph(str(tmp_path / "g.omni"), inferred.source)
    streams = og.read_files(
        [], inferred.source, mapping=inferred.mapping, nodes={"Person": people}, edges={"Knows": knows}
    )
    graph.load(streams, mode="append")  # type: ignore[arg-type]

    out = BytesIO()
    graph.export(out)
    records = [json.loads(line) for line in out.getvalue().splitlines()]
    assert [(record.get("from"), record["data"]) for record in records] == [
        (None, {"name": "ada", "first_year": 1815, "person_from": "x"}),
        (None, {"name": "bob", "first_year": 1906, "person_from": "y"}),
        ("ada", {"since": 1900}),
    ]
    assert "edge Knows: Person -> Person" in inferred.source


@pytest.mark.parametrize(
    "name, data, place",
    [
        ("Person.json", b'[{"name": "ada"}, {"name": "bob", "age": "x"}]', "element 2"),
        ("Person.jsonl", b'{"name": "ada"}\n\n{"name": "bob", "age": "x"}\n', "line 3"),
        ("Person.csv", b"name,age\n\nada,1\nbob,x\n", "line 4"),
    ],
)
def test_a_problem_names_the_place_by_what_the_file_has(
    name: str, data: bytes, place: str, graph: og.Graph, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / name
    path.write_bytes(data)

    assert main(["load", graph.uri, str(path), "--mode", "append", "--quiet"]) == 1

    assert f"{path}, {place}: `Person.age`" in capsys.readouterr().err


@pytest.mark.parametrize("option", [[], ["--null", ""]])
def test_both_readers_of_csv_count_lines_as_editors_do(
    option: list[str], graph: og.Graph, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "Person.csv"
    path.write_bytes(b'name,age\r\n"two\r\nlines",1\r\n\r\nbob,x\r\nof,3,cells\r\nada,y')

    arguments = ["load", graph.uri, "--node", f"Person={path}", "--mode", "append", "--quiet", *option]
    assert main(arguments) == 1

    told = capsys.readouterr().err
    expected = ["line 5", "line 6", "line 7"] if not option else ["line 6"]
    assert all(f"{place}: " in told or f"{place} has" in told for place in expected)
