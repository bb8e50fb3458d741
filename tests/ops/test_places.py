"""Everything that is told where to read or write goes there or refuses: no address is taken for the name of a file."""

import os
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

import omnigraph as og
from mutating import new_graph
from omnigraph.cli.main import main
from omnigraph.locations import Location, locate, parse_scheme, resolve_local_path
from omnigraph.spark.read.export import export_on_spark
from worlds import runtime

SCHEMA = "node Person { name: String @key  photo: Blob? }"
ALL = "query q() { match { $p: Person } return { $p.name } }"
UNKNOWN = ("gs://bucket/x", "x://bucket/x", "dbfs:/x", "https://host/x", "s3:/bucket/x", "s3://bucket")
NO_NAMES = ("file:///nowhere/a#b.jsonl", "file:///nowhere/a?b.jsonl", "file:///nowhere/a%00b.jsonl", "a\0b.jsonl")


@pytest.fixture
def graph(tmp_path: Path) -> og.Graph:
    made = new_graph(tmp_path / "home", SCHEMA)
    made.load(nodes={"Person": pa.table({"name": ["ada"]})}, mode="append")
    return made


@pytest.fixture
def empty(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working directory with nothing in it."""
    made = tmp_path / "empty"
    made.mkdir()
    monkeypatch.chdir(made)
    return made


def load_with(graph: og.Graph, place: str) -> object:
    return graph.load(nodes={"Person": pa.table({"name": ["bo", None]})}, mode="append", on_error=place)


def export_with_spark(graph: og.Graph, place: str) -> object:
    state, form = graph._session.resolve_snapshot(), og.ExportFormat.JSONL
    return export_on_spark(graph._session, state, None, None, place, format=form)  # type: ignore[arg-type]  # refused first


OUTPUTS: dict[str, Callable[[og.Graph, str], object]] = {
    "export": lambda graph, place: graph.export(place),
    "export parquet": lambda graph, place: graph.export(place, format="parquet"),
    "export on spark": export_with_spark,
    "bad records": load_with,
    "a result": lambda graph, place: graph.query(ALL).write(place, "csv"),
    "a new graph": lambda _, place: og.create_graph(place, SCHEMA, runtime=runtime()),
    "a clone": lambda graph, place: graph.clone(place),
}
INPUTS: dict[str, Callable[[og.Graph, str], object]] = {
    "records": lambda graph, place: graph.load(place, mode="append"),
    "rows of a type": lambda graph, place: graph.load(nodes={"Person": place}, mode="append"),
    "a graph": lambda _, place: og.open_graph(place, runtime=runtime()),
    "a blob": lambda graph, place: graph.mutate(
        "query q($b: Blob) { insert Person { name: 'b', photo: $b } }".replace("'", '"'), params={"b": place}
    ),
}


@pytest.mark.parametrize("place", UNKNOWN)
@pytest.mark.parametrize("door", [*OUTPUTS, *INPUTS])
def test_a_place_that_is_not_known_is_refused_by_its_name(graph: og.Graph, empty: Path, door: str, place: str) -> None:
    with pytest.raises(og.OmnigraphError) as refused:
        {**OUTPUTS, **INPUTS}[door](graph, place)

    assert place in str(refused.value)
    assert list(empty.iterdir()) == []


@pytest.mark.parametrize("place", NO_NAMES)
@pytest.mark.parametrize("door", [*OUTPUTS, *INPUTS])
def test_an_address_that_names_no_file_is_refused(graph: og.Graph, empty: Path, door: str, place: str) -> None:
    with pytest.raises(og.OmnigraphError, match=r"query or fragment|NUL|Blob"):
        {**OUTPUTS, **INPUTS}[door](graph, place)

    assert list(empty.iterdir()) == []


@pytest.mark.parametrize("door", ["bad records", "a result", "export on spark"])
def test_what_cannot_be_written_to_a_bucket_says_so(graph: og.Graph, empty: Path, door: str) -> None:
    with pytest.raises(og.OmnigraphError, match="s3://bucket/x"):
        OUTPUTS[door](graph, "s3://bucket/x")

    assert list(empty.iterdir()) == []


@pytest.mark.parametrize("door", sorted(OUTPUTS.keys() - {"export on spark"}))
def test_an_address_of_a_file_is_its_path(graph: og.Graph, empty: Path, door: str) -> None:
    target = empty / "with space"

    OUTPUTS[door](graph, f"file://{empty}/with%20space")

    assert target.exists()


@pytest.mark.parametrize("folder", ["s3:", "gs:"])
def test_an_address_is_never_read_from_a_folder_that_is_called_like_its_scheme(
    graph: og.Graph, empty: Path, folder: str
) -> None:
    (empty / folder / "bucket").mkdir(parents=True)
    (empty / folder / "bucket" / "x.jsonl").write_text('{"type": "Person", "data": {"name": "bo"}}\n')
    address = f"{folder}//bucket/x.jsonl"
    without_a_store = runtime(og.Options(storage={"aws_endpoint": "http://127.0.0.1:9", "allow_http": "true",
        "aws_access_key_id": "x", "aws_secret_access_key": "x", "client_max_retries": "0"}))  # fmt: skip

    with pytest.raises(og.OmnigraphError):
        og.open_graph(graph.uri, runtime=without_a_store).load(address, mode="append")


def test_records_are_read_from_the_address_of_a_file(graph: og.Graph, empty: Path) -> None:
    (empty / "some people.jsonl").write_text('{"type": "Person", "data": {"name": "bo"}}\n')

    graph.load(f"file://{empty}/some%20people.jsonl", mode="append")

    assert graph.query(ALL).row_count == 2


@pytest.mark.parametrize("place", ["gs://bucket/x", "s3:/bucket/x"])
@pytest.mark.parametrize("command", ["export", "query", "load", "init", "clone"])
def test_commands_refuse_it_too(
    graph: og.Graph, empty: Path, capsys: pytest.CaptureFixture[str], command: str, place: str
) -> None:
    schema = empty.parent / "schema.pg"
    schema.write_text(SCHEMA)
    words = {
        "export": ["export", graph.uri, "--output", place],
        "query": ["query", graph.uri, "-e", ALL, "--format", "csv", "--output", place],
        "load": ["load", graph.uri, "--mode", "append", "--data", place],
        "init": ["init", place, "--schema", str(schema)],
        "clone": ["clone", graph.uri, place],
    }[command]

    assert main(words) != 0
    assert place in capsys.readouterr().err
    assert list(empty.iterdir()) == []


@pytest.mark.parametrize(
    "text, scheme",
    [
        ("people", None),
        ("./s3:/x", None),
        ("/a/b:/c", None),
        ("c:/x", None),
        ("S3://b/x", "s3"),
        ("a+b.c-d://", "a+b.c-d"),
    ],
)
def test_a_scheme_is_told_from_a_path(text: str, scheme: str | None) -> None:
    assert parse_scheme(text) == scheme


def test_a_path_object_made_of_an_address_is_not_written_to(graph: og.Graph, empty: Path) -> None:
    with pytest.raises(og.OmnigraphError, match="an address as a text"):
        graph.export(Path("s3://bucket/x"))

    assert list(empty.iterdir()) == []


def test_a_place_of_this_machine_stays_as_it_was_given() -> None:
    assert resolve_local_path("a/b") == Path("a/b")
    assert resolve_local_path("file:///a/b%20c") == Path("/a/b c")
    assert locate("S3://bucket/key/") == Location("key", "bucket")
    with pytest.raises(og.BadArgumentError, match="only be written to this machine"):
        resolve_local_path("s3://bucket/key")
    assert os.fspath(resolve_local_path(Path("x"))) == "x"


@pytest.mark.parametrize("scheme", ["s3a", "s3n", "S3A"])
def test_the_names_of_spark_for_s3_are_s3(scheme: str) -> None:
    assert parse_scheme(f"{scheme}://bucket/key") == "s3"
    assert locate(f"{scheme}://bucket/key") == Location("key", "bucket")
