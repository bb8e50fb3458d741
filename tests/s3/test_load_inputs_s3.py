"""Loading files that lie on S3: by name, below a prefix, by a pattern; the same rows and words as from a disk."""

import gzip
import io
import json
import re
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.orc as pa_orc
import pyarrow.parquet as pa_parquet
import pytest

import omnigraph as og
from load_calls import person, text_of
from mutating import SCHEMA
from omnigraph.lang.source import Source
from omnigraph.ops.load_inputs import GraphSource, LoadInput, TypedSource, count_bytes, expand_inputs
from omnigraph.schema.bind import load_schema
from omnigraph.storage.s3_object_store import S3ObjectStore
from s3_server import BUCKET, plain_client, s3_server
from worlds import FAST, runtime

PEOPLE = pa.table({"name": [f"p{number}" for number in range(50)], "age": pa.array(range(50), pa.int32())})
CATALOG = load_schema(Source(SCHEMA, "test.pg"))


@pytest.fixture(scope="module")
def storage() -> Iterator[dict[str, str]]:
    with s3_server() as options:
        yield options


@pytest.fixture
def graph(storage: dict[str, str], tmp_path: Path) -> og.Graph:
    """On a disk: its input is elsewhere."""
    return og.create_graph(str(tmp_path / "graph"), SCHEMA, runtime=runtime(replace(FAST, storage=storage)))


def put(storage: dict[str, str], key: str, data: bytes) -> str:
    """Write an object; its address."""
    S3ObjectStore(BUCKET, "", storage).put(key, data)
    return f"s3://{BUCKET}/{key}"


def put_as_it_is(storage: dict[str, str], *keys: str, data: bytes = b"") -> None:
    """Write objects whose keys our own client would tidy up, or refuse."""
    with closing(plain_client(storage)) as client:
        for key in keys:
            client.put_object(Bucket=BUCKET, Key=key, Body=data)


def file_bytes(ending: str) -> bytes:
    """The people in a format."""
    out = io.BytesIO()
    match ending:
        case "parquet":
            pa_parquet.write_table(PEOPLE, out, row_group_size=20)
        case "orc":
            pa_orc.write_table(PEOPLE, out)
        case "csv" | "csv.gz":
            pa_csv.write_csv(PEOPLE, out)
        case _:
            out.write(b"".join(b'{"name":"p%d","age":%d}\n' % (number, number) for number in range(50)))
    return gzip.compress(out.getvalue()) if ending.endswith(".gz") else out.getvalue()


def ages(graph: og.Graph) -> list[tuple[str, int]]:
    """Who is there, and how old."""
    out = io.BytesIO()
    graph.export(out)
    rows = [json.loads(line)["data"] for line in out.getvalue().splitlines()]
    return sorted(((row["name"], row["age"]) for row in rows), key=lambda one: one[1])


def names(storage: dict[str, str], address: str) -> list[str]:
    """The files that an address stands for."""
    given = LoadInput(graph=(GraphSource(data=address),))
    return [one.name.removeprefix(f"s3://{BUCKET}/") for one in expand_inputs(given, CATALOG, storage=storage)]


@pytest.mark.parametrize("ending", ["parquet", "orc", "csv", "csv.gz", "jsonl", "jsonl.gz"])
def test_a_file_of_every_format_is_read_from_s3(graph: og.Graph, storage: dict[str, str], ending: str) -> None:
    address = put(storage, f"formats/people.{ending}", file_bytes(ending))

    graph.load(nodes={"Person": address}, mode="append")

    assert ages(graph) == [(f"p{number}", number) for number in range(50)]


def test_graph_jsonl_is_read_from_s3(graph: og.Graph, storage: dict[str, str]) -> None:
    address = put(storage, "graph/in.jsonl", text_of([person("a", age=1), person("b", age=2)]))

    graph.load(address, mode="append")

    assert ages(graph) == [("a", 1), ("b", 2)]


def test_what_is_wrong_is_told_with_its_address_and_line(graph: og.Graph, storage: dict[str, str]) -> None:
    address = put(storage, "bad/in.jsonl", text_of([person("a"), person("b", age="old")]))

    with pytest.raises(og.OmnigraphError) as refused:
        graph.load(address, mode="append")

    assert f"{address}, line 2: " in str(refused.value)


def test_a_prefix_stands_for_every_file_below_it_that_is_not_hidden(storage: dict[str, str]) -> None:
    for key in ("b.jsonl", "a/c.jsonl", "_SUCCESS", "a/.part.crc", "_tmp/d.jsonl"):
        put(storage, f"below/{key}", b"")
    put(storage, "below-not/e.jsonl", b"")

    found = [names(storage, f"s3://{BUCKET}/below{end}") for end in ("", "/")]

    assert found == [["below/a/c.jsonl", "below/b.jsonl"]] * 2


@pytest.mark.parametrize(
    "pattern, found",
    [
        ("*.jsonl", ["a.jsonl", "b.jsonl"]),
        ("[!a].jsonl", ["b.jsonl"]),
        ("*/*.jsonl", ["deep/c.jsonl"]),
        ("**/*.jsonl", ["a.jsonl", "b.jsonl", "deep/c.jsonl", "deep/down/d.jsonl"]),
        ("de?p", ["deep/c.jsonl", "deep/down/d.jsonl"]),
    ],
)
def test_a_pattern_matches_as_on_a_disk(
    storage: dict[str, str], tmp_path: Path, pattern: str, found: list[str]
) -> None:
    for key in ("a.jsonl", "b.jsonl", "_c.jsonl", ".d.jsonl", "deep/c.jsonl", "deep/down/d.jsonl", ".deep/e.jsonl"):
        put(storage, f"matched/{key}", b"")
        (tmp_path / key).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / key).touch()

    there = names(storage, f"s3://{BUCKET}/matched/{pattern}")
    here = expand_inputs(LoadInput(graph=(GraphSource(data=f"{tmp_path}/{pattern}"),)), CATALOG)

    assert there == [f"matched/{name}" for name in found]
    assert sorted(one.name for one in here) == [f"{tmp_path}/{name}" for name in found]


@pytest.mark.parametrize(
    "address, code",
    [
        ("nowhere/in.jsonl", "file_not_found"),
        ("nowhere/*.jsonl", "no_input"),
        ("parted/", "no_input"),
    ],
)
def test_an_address_of_nothing_to_load_is_refused(storage: dict[str, str], address: str, code: str) -> None:
    put(storage, "parted/day=1/in.jsonl", b"")

    with pytest.raises(og.OmnigraphError) as refused:
        names(storage, f"s3://{BUCKET}/{address}")

    assert refused.value.code == code


# --- folders, as consoles and Hadoop make them -----------------------------------------------------------


@pytest.mark.parametrize("address", ["marked", "marked/", "marked/*", "marked/**", "mark*"])
def test_the_mark_of_a_folder_is_no_file(graph: og.Graph, storage: dict[str, str], address: str) -> None:
    put_as_it_is(storage, "marked/", "marked/sub/", "marked/empty/")
    put(storage, "marked/sub/people.jsonl", file_bytes("jsonl"))

    graph.load(nodes={"Person": f"s3://{BUCKET}/{address}"}, mode="append")

    assert len(ages(graph)) == 50


@pytest.mark.parametrize("address", ["hollow", "hollow/", "hollow/*", "hollow/sub", "hollow/sub/"])
def test_a_folder_without_files_is_refused_as_an_empty_directory_is(
    graph: og.Graph, storage: dict[str, str], address: str
) -> None:
    put_as_it_is(storage, "hollow/", "hollow/sub/")

    with pytest.raises(og.OmnigraphError) as refused:
        graph.load(f"s3://{BUCKET}/{address}", mode="overwrite")

    assert refused.value.code == "no_input"


def test_an_empty_object_with_others_below_it_is_a_folder(storage: dict[str, str]) -> None:
    put(storage, "bare", b"")
    put(storage, "bare/sub", b"")
    put(storage, "bare/sub/in.jsonl", b"")

    found = [names(storage, f"s3://{BUCKET}/{address}") for address in ("bare", "bare/", "bare/sub", "bar[e]")]

    assert found == [["bare/sub/in.jsonl"]] * 4


def test_an_object_with_content_is_a_file_whatever_is_below_it(storage: dict[str, str]) -> None:
    put(storage, "full/in.jsonl", b"\n")
    put_as_it_is(storage, "full/in.jsonl/")
    put(storage, "full/in.jsonl/other.jsonl", b"\n")

    found = [names(storage, f"s3://{BUCKET}/full{end}") for end in ("/in.jsonl", "")]

    assert found == [["full/in.jsonl"], ["full/in.jsonl", "full/in.jsonl/other.jsonl"]]


@pytest.mark.parametrize("data", [b"", b"\n"])
def test_an_object_is_a_file_also_beside_a_mark_of_its_name(storage: dict[str, str], data: bytes) -> None:
    put(storage, "both/in.jsonl", data)
    put_as_it_is(storage, "both/in.jsonl/")

    found = [names(storage, f"s3://{BUCKET}/both{end}") for end in ("", "/in.jsonl")]

    assert found == [["both/in.jsonl"]] * 2


# --- keys that can and can't be reached ------------------------------------------------------------------


@pytest.mark.parametrize("sign", [*"%#?*+&<>[]~\\ |^`ä", "%20"])
def test_a_key_may_have_signs_that_urls_and_patterns_use(storage: dict[str, str], sign: str) -> None:
    key = f"signs/a{sign}b/in.jsonl"
    put_as_it_is(storage, key, data=b"\n")

    by_name, below = names(storage, f"s3://{BUCKET}/{key}"), names(storage, f"s3://{BUCKET}/signs")

    assert by_name == [key]
    assert key in below


@pytest.mark.parametrize(
    "key", ["in//a.jsonl", "x/../a.jsonl", "x/./a.jsonl", "/a.jsonl", "in//", "..", "in//*.jsonl", "../*.jsonl"]
)
def test_an_address_with_a_segment_that_names_nothing_is_refused(
    graph: og.Graph, storage: dict[str, str], key: str
) -> None:
    put(storage, "a.jsonl", text_of([person("a")]))

    with pytest.raises(og.OmnigraphError, match=re.escape(f"`{key}`")) as refused:
        graph.load(f"s3://{BUCKET}/{key}", mode="append")

    assert refused.value.code == "object_key"


@pytest.mark.parametrize("key", ["x//y.jsonl", "./y.jsonl", "x/../y.jsonl", "/y.jsonl"])
@pytest.mark.parametrize("end", ["", "/", "/*.jsonl"])
def test_a_stray_key_that_can_not_be_read_is_named(storage: dict[str, str], key: str, end: str) -> None:
    stray = f"stray-{key.count('.')}-{len(key)}"
    put(storage, f"{stray}/a.jsonl", b"")
    put_as_it_is(storage, f"{stray}/{key}")

    with pytest.raises(og.OmnigraphError, match=re.escape(f"`{stray}/{key}`")) as refused:
        names(storage, f"s3://{BUCKET}/{stray}{end}")

    assert refused.value.code == "object_key"


def test_a_bucket_that_is_not_there_is_told(storage: dict[str, str]) -> None:
    with pytest.raises(og.OmnigraphError, match=r"in\.jsonl"):
        names(storage, "s3://omnigraph-nobodys/in.jsonl")


def test_an_object_that_is_named_twice_is_refused(storage: dict[str, str]) -> None:
    address = put(storage, "twice/in.jsonl", b"")
    given = LoadInput(graph=(GraphSource(data=address), GraphSource(data=f"s3://{BUCKET}/twice")))

    with pytest.raises(og.OmnigraphError) as refused:
        expand_inputs(given, CATALOG, storage=storage)

    assert refused.value.code == "input_twice"


def test_the_bytes_of_an_input_on_s3_are_known_before_it_is_read(storage: dict[str, str]) -> None:
    put(storage, "sized/a.jsonl", b"x" * 10)
    put(storage, "sized/b.jsonl", b"x" * 7)

    found = count_bytes(LoadInput(graph=(GraphSource(data=f"s3://{BUCKET}/sized"),)), storage)

    assert found == 17


@pytest.mark.parametrize("ending", ["jsonl", "parquet"])
def test_an_object_that_is_written_again_after_it_was_found_is_not_mixed_up(
    storage: dict[str, str], ending: str
) -> None:
    address = put(storage, f"changed/people.{ending}", file_bytes(ending))
    (one,) = expand_inputs(
        LoadInput(typed=(TypedSource(type="Person", is_edge=False, data=address),)), CATALOG, storage=storage
    )
    put(storage, f"changed/people.{ending}", file_bytes(ending) + b" ")

    with pytest.raises(og.OmnigraphError, match="overwritten while") as refused:
        list(one.read_rows(runtime().ids))

    assert refused.value.code == "file_unreadable"


def test_secrets_are_not_in_the_words_for_a_file(storage: dict[str, str]) -> None:
    put(storage, "secret/in.jsonl", b"")
    given = LoadInput(graph=(GraphSource(data=f"s3://{BUCKET}/secret/in.jsonl"),))

    (one,) = expand_inputs(given, CATALOG, storage={**storage, "aws_session_token": "do-not-tell"})

    assert "do-not-tell" not in repr(one)
