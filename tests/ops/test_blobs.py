"""Blobs: bytes go in by parameters and URIs, stay with their rows through every change, and come out as streams."""

import base64
import io
import json
import os
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

import omnigraph as og
from mutating import new_graph, rows, run
from omnigraph.commit.manifest_log import Head
from omnigraph.engine.writing import blob_claims as claims_module
from omnigraph.engine.writing import blobs as blobs_module
from omnigraph.engine.writing.blob_claims import encode_claim, redeem_claims
from omnigraph.ops.export import iter_ordered_rows
from omnigraph.ops.session import Session
from omnigraph.storage.blob_sources import BlobSources
from omnigraph.storage.blobs import read_blobs
from omnigraph.storage.lance_table import LanceTable
from worlds import FAST, runtime

SCHEMA = """
node Doc { name: String @key  pages: I32?  body: Blob?  cover: Blob? }
edge Cites: Doc -> Doc { proof: Blob? }
"""
PUT = "query put($n: String, $b: Blob?) { insert Doc { name: $n, body: $b } }"
BYTES = bytes(range(256)) * 5000


@pytest.fixture
def graph(tmp_path: Path) -> og.Graph:
    return new_graph(tmp_path, SCHEMA)


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A directory that the settings allow."""
    place = tmp_path / "allowed"
    place.mkdir()
    return place


@pytest.fixture
def open_to(tmp_path: Path, place: Path) -> og.Graph:
    """A graph that may read from the directory."""
    settings = replace(FAST, blob_sources=(place.as_uri(),), blob_bytes=1000)
    return og.create_graph(str(tmp_path / "g"), SCHEMA, runtime=runtime(settings))


def body(graph: og.Graph, name: str = "a", property: str = "body", type_name: str = "Doc") -> bytes | None:
    stream = graph.blob(type_name, name, property)
    if stream is None:
        return None
    with stream:
        return stream.read()


# --- in and out ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("value", [b"", b"\0", BYTES], ids=["empty", "one", "large"])
def test_bytes_come_back(graph: og.Graph, value: bytes) -> None:
    run(graph, PUT, n="a", b=value)

    assert body(graph) == value


def test_a_parameter_may_be_base64(graph: og.Graph) -> None:
    run(graph, PUT, n="a", b="base64:" + base64.b64encode(b"hello").decode())

    assert body(graph) == b"hello"


def test_a_literal_may_be_base64(graph: og.Graph) -> None:
    run(graph, 'insert Doc { name: "a", body: "base64:aGk=" }')

    assert body(graph) == b"hi"


def test_null_is_no_stream(graph: og.Graph) -> None:
    run(graph, PUT, n="a", b=None)

    assert graph.blob("Doc", "a", "body") is None


def test_an_edge_has_blobs_too(graph: og.Graph) -> None:
    run(graph, PUT, n="a", b=None)
    run(graph, 'query q($b: Blob) { insert Cites { from: "a", to: "a", proof: $b } }', b=b"see page 3")

    (edge,) = rows(graph, "Cites", "id")
    assert body(graph, edge["id"], "proof", "cites") == b"see page 3"


def test_the_stream_is_a_file(graph: og.Graph) -> None:
    run(graph, PUT, n="a", b=BYTES)
    stream = graph.blob("Doc", "a", "body")
    assert stream is not None

    stream.seek(-3, io.SEEK_END)

    assert stream.read(2) == BYTES[-3:-1]
    assert stream.tell() == len(BYTES) - 1


def test_the_stream_is_of_one_snapshot(graph: og.Graph) -> None:
    run(graph, PUT, n="a", b=BYTES)
    before = graph.commits()[0].id
    stream = graph.blob("Doc", "a", "body")
    assert stream is not None

    run(graph, PUT, n="a", b=b"new")

    assert stream.read() == BYTES
    assert body(graph) == b"new"
    assert graph.blob("Doc", "a", "body", snapshot=before).read() == BYTES  # type: ignore[union-attr]


@pytest.mark.parametrize(
    "type_name, row_id, name, message",
    [
        ("Dok", "a", "body", "did you mean `Doc`"),
        ("Doc", "z", "body", "there is no Doc `z`"),
        ("Doc", "a", "pages", "`Doc` has no Blob property `pages`; its Blob properties are `body`, `cover`"),
        ("Doc", "a", "nothing", "`Doc` has no Blob property `nothing`"),
    ],
)
def test_what_is_not_there_is_not_found(graph: og.Graph, type_name: str, row_id: str, name: str, message: str) -> None:
    run(graph, PUT, n="a", b=b"x")

    with pytest.raises(og.OmnigraphError, match=message) as refused:
        graph.blob(type_name, row_id, name)

    assert refused.value.kind is og.Kind.NOT_FOUND


# --- with their rows -----------------------------------------------------------------------------------------------


def test_an_update_of_something_else_keeps_the_bytes(graph: og.Graph) -> None:
    for name in "abc":
        run(graph, PUT, n=name, b=name.encode() * 100_000)
    run(graph, PUT, n="d", b=None)

    run(graph, 'update Doc set { pages: 3 } where name != "b"')

    assert [body(graph, name) for name in "abcd"] == [b"a" * 100_000, b"b" * 100_000, b"c" * 100_000, None]
    assert {row["id"]: row["pages"] for row in rows(graph, "Doc", "id", "pages")} == {"a": 3, "b": None, "c": 3, "d": 3}


def test_one_value_goes_to_many_rows(graph: og.Graph) -> None:
    for name in "abc":
        run(graph, PUT, n=name, b=b"old")

    run(graph, 'query q($b: Blob) { update Doc set { body: $b } where name != "b" }', b=BYTES)

    assert [body(graph, name) for name in "abc"] == [BYTES, b"old", BYTES]


def test_setting_one_blob_keeps_the_other(graph: og.Graph) -> None:
    run(graph, 'query q($b: Blob, $c: Blob) { insert Doc { name: "a", body: $b, cover: $c } }', b=BYTES, c=b"front")

    run(graph, 'update Doc set { cover: "base64:bmV3" } where name = "a"')

    assert (body(graph), body(graph, property="cover")) == (BYTES, b"new")


def test_a_blob_can_be_set_to_null(graph: og.Graph) -> None:
    run(graph, PUT, n="a", b=b"x")

    run(graph, 'update Doc set { body: null } where name = "a"')

    assert graph.blob("Doc", "a", "body") is None


def test_an_insert_of_the_same_key_keeps_a_blob_until_it_is_cleared(graph: og.Graph) -> None:
    run(graph, PUT, n="a", b=b"x")

    run(graph, 'insert Doc { name: "a", pages: 1 }')

    stream = graph.blob("Doc", "a", "body")
    assert stream is not None
    assert stream.read() == b"x"
    run(graph, 'insert Doc { name: "a", body: null }')
    assert graph.blob("Doc", "a", "body") is None


def test_later_statements_see_the_blobs_of_earlier_ones(graph: og.Graph) -> None:
    run(graph, PUT, n="b", b=b"kept")

    run(
        graph,
        """query q($b: Blob) {
          insert Doc { name: "a", body: $b }
          update Doc set { pages: 1 } where body is not null
          update Doc set { pages: 2, body: null } where name = "b" and body is not null
          update Doc set { cover: $b } where body is null
        }""",
        b=BYTES,
    )

    assert [body(graph, name) for name in "ab"] == [BYTES, None]
    assert body(graph, "b", "cover") == BYTES
    assert {row["id"]: row["pages"] for row in rows(graph, "Doc", "id", "pages")} == {"a": 1, "b": 2}


def test_rows_are_chosen_by_whether_they_have_a_blob(graph: og.Graph) -> None:
    run(graph, PUT, n="a", b=b"")
    run(graph, PUT, n="b", b=None)

    done = run(graph, "delete Doc where body is null")

    assert done.affected_nodes == 1
    assert [row["id"] for row in rows(graph, "Doc", "id")] == ["a"]


def test_bytes_are_moved_some_rows_at_a_time(graph: og.Graph, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in "abcdef":
        run(graph, PUT, n=name, b=name.encode() * 1000)
    asked: list[int] = []

    def counting(table: LanceTable, column: str, addresses: Sequence[int]) -> list[bytes | None]:
        asked.append(len(addresses))
        return read_blobs(table, column, addresses)

    monkeypatch.setattr(blobs_module, "BATCH_BYTES", 2500)
    monkeypatch.setattr(blobs_module, "read_blobs", counting)

    run(graph, "update Doc set { pages: 1 } where pages is null")

    assert [count for count in asked if count] == [2, 2, 2]
    assert [body(graph, name) for name in "abcdef"] == [name.encode() * 1000 for name in "abcdef"]


# --- by a URI ------------------------------------------------------------------------------------------------------


def test_a_file_below_an_allowed_place_is_copied(open_to: og.Graph, place: Path) -> None:
    (place / "in").mkdir()
    (place / "in" / "a b.bin").write_bytes(b"from a file")

    run(open_to, PUT, n="a", b=f"{place.as_uri()}/in/a%20b.bin")
    (place / "in" / "a b.bin").unlink()

    assert body(open_to) == b"from a file"


def refused(graph: og.Graph, uri: str) -> str:
    with pytest.raises(og.BlobSourceError) as error:
        run(graph, PUT, n="a", b=uri)
    assert error.value.kind is og.Kind.INVALID
    assert rows(graph, "Doc", "id") == []
    return str(error.value)


def test_nothing_is_allowed_by_default(graph: og.Graph, place: Path) -> None:
    (place / "a").write_bytes(b"x")

    assert "below none of the places" in refused(graph, f"{place.as_uri()}/a")


@pytest.mark.parametrize(
    "uri",
    [
        "file:///etc/passwd",
        "file://{place}/../secret",
        "file://{place}/%2e%2e/secret",
        "file://{place}/in/%2e%2e%2f..%2fsecret",
        "file://{place}/./secret",
        "file://{place}-too/secret",
        "file://{place}",
        "file://{place}/",
        "file:secret",
        "file://elsewhere{place}/a",
        "file://[{place}/a",
        "file://{place}/a?b",
        "file://{place}/a%00",
        "file://{place}/%ff",
        "{place}/a",
        "s3://bucket/key",
        "s3://",
        "http://169.254.169.254/latest/meta-data/",
        "https://localhost/a",
        "ftp://localhost/a",
        "data:text/plain,hi",
        "FILE:///etc/passwd",
    ],
)
def test_a_uri_does_not_lead_out_of_its_place(open_to: og.Graph, place: Path, tmp_path: Path, uri: str) -> None:
    (place / "a").write_bytes(b"x")
    (tmp_path / "secret").write_bytes(b"secret")
    (tmp_path / "allowed-too").mkdir()
    (tmp_path / "allowed-too" / "secret").write_bytes(b"secret")

    with pytest.raises((og.BlobSourceError, og.ParameterError)):
        run(open_to, PUT, n="a", b=uri.format(place=place))

    assert rows(open_to, "Doc", "id") == []


def test_links_are_not_followed(open_to: og.Graph, place: Path, tmp_path: Path) -> None:
    (tmp_path / "secret").write_bytes(b"secret")
    (place / "link").symlink_to(tmp_path / "secret")
    (place / "way").symlink_to(tmp_path)

    assert "symbolic link" in refused(open_to, f"{place.as_uri()}/link")
    assert "symbolic link" in refused(open_to, f"{place.as_uri()}/way/secret")


def test_only_regular_files_are_read(open_to: og.Graph, place: Path) -> None:
    os.mkfifo(place / "pipe")
    (place / "directory").mkdir()

    assert "not a regular file" in refused(open_to, f"{place.as_uri()}/pipe")
    assert "not a regular file" in refused(open_to, f"{place.as_uri()}/directory")


def test_a_file_that_is_not_there_is_named(open_to: og.Graph, place: Path) -> None:
    assert refused(open_to, f"{place.as_uri()}/none").endswith("/none`: there is no such file")


def test_a_size_is_the_most(open_to: og.Graph, place: Path) -> None:
    (place / "fits").write_bytes(b"x" * 1000)
    (place / "large").write_bytes(b"x" * 1001)

    assert "more than 1000 bytes" in refused(open_to, f"{place.as_uri()}/large")
    run(open_to, PUT, n="a", b=f"{place.as_uri()}/fits")
    assert body(open_to) == b"x" * 1000


# --- out again -----------------------------------------------------------------------------------------------------


def test_an_export_holds_some_rows_at_a_time(graph: og.Graph, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in "badc":
        run(graph, PUT, n=name, b=name.encode() * 1000)
    monkeypatch.setattr(blobs_module, "BATCH_BYTES", 2500)
    type_ = graph._session.load_catalog(graph.snapshot()).nodes["Doc"]
    table = graph._session.open_tables(graph.snapshot()).open_table(type_.table_key)

    parts = [part.select(["id", "body"]).to_pylist() for part in iter_ordered_rows(table, type_)]

    assert [[row["id"] for row in part] for part in parts] == [["a", "b"], ["c", "d"]]
    assert parts[1][0]["body"] == b"c" * 1000


def test_an_export_has_the_bytes(graph: og.Graph) -> None:
    for name, value in {"a": BYTES, "b": b"", "c": None}.items():
        run(graph, PUT, n=name, b=value)
    out = io.BytesIO()

    graph.export(out)

    bodies = [json.loads(line)["data"]["body"] for line in out.getvalue().splitlines()]
    assert bodies == ["base64:" + base64.b64encode(BYTES).decode(), "base64:", None]


# --- by loading ----------------------------------------------------------------------------------------------------


def doc(name: str, **data: object) -> dict[str, object]:
    return {"type": "Doc", "data": {"name": name, **data}}


def test_what_was_exported_is_loaded_byte_for_byte(graph: og.Graph, tmp_path: Path) -> None:
    for name, value in {"a": BYTES, "b": b"", "c": None, "d": b"\0\n\xff"}.items():
        run(graph, PUT, n=name, b=value)
    graph.export(tmp_path / "out.jsonl")
    graph.export(tmp_path / "out", format="parquet")

    by_lines = og.create_graph(str(tmp_path / "lines"), SCHEMA, runtime=runtime())
    by_lines.load(tmp_path / "out.jsonl", mode="append")
    by_columns = og.create_graph(str(tmp_path / "columns"), SCHEMA, runtime=runtime())
    by_columns.load(mode="append", nodes={"Doc": tmp_path / "out" / "nodes" / "Doc.parquet"})

    for copy in (by_lines, by_columns):
        assert [body(copy, name) for name in "abcd"] == [BYTES, b"", None, b"\0\n\xff"]


def test_records_hold_bytes(graph: og.Graph) -> None:
    graph.load([doc("a", body=b"x"), doc("b", body="base64:eQ==")], mode="append")

    assert [body(graph, name) for name in "ab"] == [b"x", b"y"]


def test_a_cell_holds_base64(graph: og.Graph, tmp_path: Path) -> None:
    (tmp_path / "docs.csv").write_text("name,body\na,base64:eA==\nb,\n", encoding="utf-8")

    graph.load(mode="append", nodes={"Doc": tmp_path / "docs.csv"})

    assert [body(graph, name) for name in "ab"] == [b"x", None]


def test_a_merge_keeps_the_bytes_that_it_leaves_out(graph: og.Graph) -> None:
    graph.load([doc("a", body=BYTES, cover=b"front"), doc("b", body=BYTES)], mode="append")

    graph.load([doc("a", pages=3), doc("b", pages=4, body=None, cover=b"new"), doc("c", body=b"c")], mode="merge")

    assert [body(graph, name) for name in "abc"] == [BYTES, None, b"c"]
    assert [body(graph, name, "cover") for name in "abc"] == [b"front", b"new", None]
    assert {row["id"]: row["pages"] for row in rows(graph, "Doc", "id", "pages")} == {"a": 3, "b": 4, "c": None}


def test_a_merge_moves_the_bytes_it_keeps_some_rows_at_a_time(graph: og.Graph, monkeypatch: pytest.MonkeyPatch) -> None:
    graph.load([doc(name, body=name.encode() * 1000) for name in "abcdef"], mode="append")
    asked: list[int] = []

    def counting(table: LanceTable, column: str, addresses: Sequence[int]) -> list[bytes | None]:
        asked.append(len(addresses))
        return read_blobs(table, column, addresses)

    monkeypatch.setattr(claims_module, "BATCH_BYTES", 1500)
    monkeypatch.setattr(claims_module, "read_blobs", counting)

    graph.load([doc(name, pages=1) for name in "abcdef"], mode="merge")

    assert [count for count in asked if count] == [2, 2, 2]
    assert [body(graph, name) for name in "abcdef"] == [name.encode() * 1000 for name in "abcdef"]


def test_a_merge_of_the_same_bytes_changes_nothing(graph: og.Graph) -> None:
    records = [doc("a", body=BYTES), doc("b", body=None), doc("c", body=b"")]
    graph.load(records, mode="append")

    again = graph.load(records, mode="merge")
    other = graph.load([doc("a", body=BYTES[::-1]), doc("b", body=b""), doc("c", body=None)], mode="merge")

    assert (again.commit_id, again.nodes["Doc"].unchanged) == (None, 3)
    assert other.nodes["Doc"].updated == 3
    assert [body(graph, name) for name in "abc"] == [BYTES[::-1], b"", None]


def test_a_load_reads_uris(open_to: og.Graph, place: Path) -> None:
    (place / "a.bin").write_bytes(b"a" * 900)
    (place / "b.bin").write_bytes(b"b" * 800)

    open_to.load(
        [
            doc("a", body=f"{place.as_uri()}/a.bin", cover=b"own"),
            doc("b", body=b"own", cover=f"{place.as_uri()}/b.bin"),
        ],
        mode="append",
    )

    assert [body(open_to, name) for name in "ab"] == [b"a" * 900, b"own"]
    assert [body(open_to, name, "cover") for name in "ab"] == [b"own", b"b" * 800]


def test_a_cell_holds_a_uri(open_to: og.Graph, place: Path, tmp_path: Path) -> None:
    (place / "a.bin").write_bytes(b"a")
    (tmp_path / "docs.csv").write_text(f"name,body\na,{place.as_uri()}/a.bin\n", encoding="utf-8")

    open_to.load(mode="append", nodes={"Doc": tmp_path / "docs.csv"})

    assert body(open_to) == b"a"


def test_a_merge_reads_uris(open_to: og.Graph, place: Path) -> None:
    open_to.load([doc("a", body=b"old", cover=b"front")], mode="append")
    (place / "a.bin").write_bytes(b"new")

    open_to.load([doc("a", body=f"{place.as_uri()}/a.bin")], mode="merge")

    assert (body(open_to), body(open_to, property="cover")) == (b"new", b"front")


def test_a_record_whose_uri_is_refused_is_told(open_to: og.Graph, place: Path, tmp_path: Path) -> None:
    (tmp_path / "secret").write_bytes(b"secret")
    records = [doc("a"), doc("b", body=f"{place.as_uri()}/../secret"), doc("c", body="file:///etc/passwd")]

    with pytest.raises(og.LoadError) as error:
        open_to.load(records, mode="append")

    assert [(one.line, one.property) for one in error.value.problems] == [(2, "body"), (3, "body")]
    assert rows(open_to, "Doc", "id") == []


def test_a_rejected_record_keeps_its_uri(open_to: og.Graph, place: Path, tmp_path: Path) -> None:
    (place / "a.bin").write_bytes(b"a")
    uri = f"{place.as_uri()}/a.bin"
    records = [doc("a", body=uri), doc("a", body=uri)]

    done = open_to.load(records, mode="append", on_error=tmp_path / "kept")

    (kept,) = (tmp_path / "kept" / "rejected.jsonl").read_text("utf-8").splitlines()
    assert done.rejected == 1
    assert json.loads(kept)["data"]["body"] == uri


def test_an_object_that_goes_away_while_it_is_loaded_fails_the_load(
    open_to: og.Graph, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (place / "a.bin").write_bytes(b"a")

    def gone(_: BlobSources, uri: str) -> bytes:
        raise og.BlobSourceError(uri, "there is no such file")

    monkeypatch.setattr(BlobSources, "read", gone)

    with pytest.raises(og.BlobSourceError, match="there is no such file"):
        open_to.load([doc("a", body=f"{place.as_uri()}/a.bin")], mode="append")

    assert rows(open_to, "Doc", "id") == []
    assert open_to.operations().pending == ()


def test_large_objects_are_loaded_some_at_a_time(
    open_to: og.Graph, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    type_ = open_to._session.load_catalog(open_to.snapshot()).nodes["Doc"]
    for number in range(5):
        (place / str(number)).write_bytes(bytes([number]) * 400)
    claims = [encode_claim(f"{place.as_uri()}/{number}") for number in range(5)]
    empty = pa.nulls(5, pa.large_binary())
    batch = pa.record_batch({"id": list("abcde"), "body": pa.array(claims, pa.large_binary()), "cover": empty})
    monkeypatch.setattr(claims_module, "BATCH_BYTES", 700)

    table = open_to._session.open_tables(open_to.snapshot()).open_table(type_.table_key)

    parts = list(redeem_claims(type_, [batch], table, open_to._session.blob_sources))

    assert [part.num_rows for part in parts] == [2, 2, 1]
    assert [value[0] for part in parts for value in part.column("body").to_pylist()] == [0, 1, 2, 3, 4]


# --- two writers -----------------------------------------------------------------------------------------------------


def stale_handle(graph: og.Graph, first: Callable[[], object], monkeypatch: pytest.MonkeyPatch) -> og.Graph:
    """Another handle, whose next write reads the state before `first` and publishes after it."""
    other = og.open_graph(graph.uri, runtime=runtime())
    waiting = [other._session.head()]
    first()
    fresh = Session.head

    def head(session: Session) -> Head:
        return waiting.pop() if session.log is other._session.log and waiting else fresh(session)

    monkeypatch.setattr(Session, "head", head)
    monkeypatch.setattr(Session, "cached_head", head)
    return other


def test_bytes_that_somebody_else_has_changed_are_not_put_back(
    graph: og.Graph, monkeypatch: pytest.MonkeyPatch
) -> None:
    run(graph, PUT, n="a", b=b"old")
    other = stale_handle(graph, lambda: run(graph, PUT, n="a", b=b"new"), monkeypatch)

    run(other, 'update Doc set { pages: 1 } where name = "a"')

    assert body(graph) == b"new"


def test_a_merge_keeps_the_bytes_that_somebody_else_has_just_written(
    graph: og.Graph, monkeypatch: pytest.MonkeyPatch
) -> None:
    run(graph, PUT, n="a", b=b"old")
    other = stale_handle(graph, lambda: run(graph, PUT, n="a", b=b"new"), monkeypatch)

    other.load([doc("a", pages=1)], mode="merge")

    assert body(graph) == b"new"
    assert rows(graph, "Doc", "pages") == [{"pages": 1}]


def test_two_writers_of_other_rows_keep_all_bytes(graph: og.Graph, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in "ab":
        run(graph, PUT, n=name, b=name.encode() * 1000)
    first = 'update Doc set { pages: 1 } where name = "a"'
    other = stale_handle(graph, lambda: run(graph, first), monkeypatch)

    run(other, 'update Doc set { pages: 2 } where name = "b"')

    assert [body(graph, name) for name in "ab"] == [b"a" * 1000, b"b" * 1000]
    assert {row["id"]: row["pages"] for row in rows(graph, "Doc", "id", "pages")} == {"a": 1, "b": 2}
