"""A data file of an object store that is read whole: damage is noticed as Lance's own read of it would notice it."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest

import omnigraph as og
from load_calls import node
from mutating import run
from omnigraph.options import Options, Verify
from omnigraph.runtime import Runtime
from omnigraph.storage import key_cache, whole_files
from omnigraph.storage.table_cache import PANIC, PinUnreadableError
from s3_server import BUCKET, fresh_uri, plain_client, s3_server
from worlds import CALM

SCHEMA = "node P { name: String @key  age: I32? }"


@pytest.fixture(scope="module")
def s3() -> Iterator[Options]:
    with s3_server() as options:
        yield replace(CALM, storage=options)


@pytest.fixture
def uri(s3: Options) -> str:
    """A graph with one data file, which Lance has written: its name has no checksum."""
    graph = og.create_graph(fresh_uri(), SCHEMA, runtime=Runtime(options=s3))
    graph.load([node("P", name=f"k{number}", age=number) for number in range(500)], mode="append")
    return graph.uri


def change_data_file(options: Options, uri: str, before: bytes, after: bytes) -> None:
    client = plain_client(options.storage)
    prefix = uri.removeprefix(f"s3://{BUCKET}/")
    listed = client.list_objects_v2(Bucket=BUCKET, Prefix=f"{prefix}/nodes/")["Contents"]
    (key,) = [one["Key"] for one in listed if "/data/" in one["Key"]]
    data = client.get_object(Bucket=BUCKET, Key=key)["Body"].read()
    assert before in data
    client.put_object(Bucket=BUCKET, Key=key, Body=data.replace(before, after))


def test_a_graph_that_is_always_verified_finds_a_changed_key(s3: Options, uri: str) -> None:
    og.check_graph(uri, record=True, actor="ann", runtime=Runtime(options=s3))
    change_data_file(s3, uri, b"k249k250k251", b"k249k2x0k251")
    graph = og.open_graph(uri, runtime=Runtime(options=replace(s3, verify=Verify.ALWAYS)))

    session = graph._session.checkout("main")
    table = session.open_tables(session.resolve_snapshot()).open_table("node:P")

    with pytest.raises(PinUnreadableError):
        list(table.iter_written_rows(["id"], [0]))


def test_a_file_on_which_the_decoder_fails_is_read_by_lance(
    s3: Options, uri: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = []

    def fail(*_: Any) -> None:
        calls.append(1)
        raise type(PANIC, (BaseException,), {})("index out of bounds")

    monkeypatch.setattr(whole_files, "decode_file", fail)

    assert run(
        og.open_graph(uri, runtime=Runtime(options=s3)), 'update P set { age: 1 } where name = "k4"'
    ).affected_nodes
    assert calls


def test_a_small_file_of_long_texts_is_not_decoded_at_once(
    s3: Options, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = "x" * 20_000
    graph = og.create_graph(fresh_uri(), "node P { name: String @key  text: String }", runtime=Runtime(options=s3))
    graph.load([node("P", name=f"k{number}", text=text) for number in range(4_000)], mode="append")
    (file,) = graph.table("P").get_fragments()[0].metadata.files
    assert 0 < (file.file_size_bytes or 0) < 1024 * 1024, "80 MB of texts"
    read: list[int] = []
    read_whole = key_cache._read_whole

    def note(*arguments: Any) -> pa.Table | None:
        rows = read_whole(*arguments)
        read.append(-1 if rows is None else rows.nbytes)
        return rows

    monkeypatch.setattr(key_cache, "_read_whole", note)
    cold = og.open_graph(graph.uri, runtime=Runtime(options=s3))

    with caplog.at_level("INFO"):
        assert run(cold, 'update P set { text: "short" } where name = "k4"').affected_nodes == 1

    assert "take more than 67,108,864 bytes of memory" in caplog.text
    assert -1 in read
    assert max(read) < 1_000_000
    found = cold.query('query q() { match { $p: P { name: "k4" } } return { $p.text } }').to_arrow().to_pylist()
    assert found == [{"p.text": "short"}]
