"""Exports to S3 are there whole, or not at all; a load reads them back."""

import io
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

import omnigraph as og
from mutating import new_graph
from omnigraph.cli.main import main
from omnigraph.ops import export
from omnigraph.runtime import Runtime
from omnigraph.storage import s3_object_store
from s3_server import BUCKET, fresh_uri, plain_client, s3_server
from worlds import FAST

SCHEMA = "node Person { name: String @key  note: String? }\nedge Knows: Person -> Person"
PEOPLE = 300


@pytest.fixture(scope="module")
def storage() -> Iterator[dict[str, str]]:
    with s3_server() as options:
        yield options


@pytest.fixture
def graph(tmp_path: Path, storage: dict[str, str]) -> og.Graph:
    made = new_graph(tmp_path, SCHEMA)
    names = [f"p{number:04}" for number in range(PEOPLE)]
    made.load(
        nodes={"Person": pa.table({"name": names, "note": ["a note"] * PEOPLE})},
        edges={"Knows": pa.table({"from": names, "to": names[::-1]})},
        mode="append",
    )
    return og.open_graph(made.uri, runtime=Runtime(options=replace(FAST, storage=storage)))


def keys(storage: dict[str, str], uri: str) -> list[str]:
    with closing(plain_client(storage)) as client:
        prefix = uri.removeprefix(f"s3://{BUCKET}/")
        found = client.list_objects_v2(Bucket=BUCKET, Prefix=prefix).get("Contents", [])
        return [one["Key"].removeprefix(prefix) for one in found]


def exported(graph: og.Graph) -> bytes:
    out = io.BytesIO()
    graph.export(out)
    return out.getvalue()


@pytest.mark.parametrize("part_bytes", [5 * 1024 * 1024, 10_000_000])
def test_graph_jsonl_is_one_object_with_the_same_bytes(
    graph: og.Graph, storage: dict[str, str], monkeypatch: pytest.MonkeyPatch, part_bytes: int
) -> None:
    monkeypatch.setattr(s3_object_store, "_WRITTEN_PART_BYTES", part_bytes)
    note = "x" * 6_000_000
    graph.mutate('query q($n: String) { insert Person { name: "long", note: $n } }', params={"n": note})
    target = f"{fresh_uri()}/all.jsonl"

    done = graph.export(target)

    key = target.removeprefix(f"s3://{BUCKET}/")
    with closing(plain_client(storage)) as client:
        assert client.get_object(Bucket=BUCKET, Key=key)["Body"].read() == exported(graph)
    assert done.rows == {"Person": PEOPLE + 1, "Knows": PEOPLE}


@pytest.mark.parametrize("format_, form", [("jsonl", "data"), ("parquet", "typed")])
def test_a_load_reads_what_an_export_wrote(
    graph: og.Graph, storage: dict[str, str], tmp_path: Path, format_: str, form: str
) -> None:
    target = f"{fresh_uri()}{'/all.jsonl' if format_ == 'jsonl' else ''}"
    other = og.create_graph(str(tmp_path / "other"), SCHEMA, runtime=Runtime(options=replace(FAST, storage=storage)))

    graph.export(target, format=format_)
    if form == "data":
        other.load(target, mode="append")
    else:
        assert keys(storage, target) == ["/edges/Knows.parquet", "/nodes/Person.parquet"]
        nodes = {"Person": f"{target}/nodes/Person.parquet"}
        other.load(nodes=nodes, edges={"Knows": f"{target}/edges/Knows.parquet"}, mode="append")

    assert exported(other) == exported(graph)


def test_an_export_of_nothing_is_an_empty_object(storage: dict[str, str], tmp_path: Path) -> None:
    empty = og.create_graph(str(tmp_path / "e"), SCHEMA, runtime=Runtime(options=replace(FAST, storage=storage)))
    target = f"{fresh_uri()}/none.jsonl"

    empty.export(target)

    assert keys(storage, target) == [""]


@pytest.mark.parametrize("format_", ["jsonl", "parquet"])
def test_what_fails_on_the_way_leaves_what_was_there(
    graph: og.Graph, storage: dict[str, str], monkeypatch: pytest.MonkeyPatch, format_: str
) -> None:
    target = f"{fresh_uri()}{'/all.jsonl' if format_ == 'jsonl' else ''}"
    ordered_rows = export.iter_ordered_rows

    def failing(*args: object) -> Iterator[pa.Table]:
        yield from ordered_rows(*args)  # type: ignore[arg-type]  # as they came
        raise OSError("the disk is gone")

    monkeypatch.setattr(export, "iter_ordered_rows", failing)

    with pytest.raises(OSError, match="the disk is gone"):
        graph.export(target, format=format_)

    assert keys(storage, target) == []


def test_a_bucket_that_is_not_there_is_an_error_that_says_so(graph: og.Graph) -> None:
    with pytest.raises(og.StoreUnavailableError, match="write `x`: there is no such bucket"):
        graph.export("s3://no-such-bucket/x")


def test_the_command_writes_there(
    graph: og.Graph, storage: dict[str, str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("AWS_ENDPOINT_URL", storage["aws_endpoint"])
    monkeypatch.setenv("AWS_ALLOW_HTTP", "true")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "test")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "test")
    monkeypatch.setenv("AWS_REGION", "us-east-1")
    target = f"{fresh_uri()}/all.jsonl"

    assert main(["export", graph.uri, "--output", target]) == 0

    assert keys(storage, target) == [""]
    assert not (tmp_path / "s3:").exists()
