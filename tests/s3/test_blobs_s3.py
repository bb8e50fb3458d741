"""Blobs on S3: read from allowed prefixes of buckets, kept with a graph in one."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

import omnigraph as og
from omnigraph.storage.s3_object_store import S3ObjectStore
from s3_server import BUCKET, fresh_uri, s3_server
from worlds import FAST, runtime

SCHEMA = "node Doc { name: String @key  pages: I32?  body: Blob? }"
PUT = "query put($n: String, $b: Blob?) { insert Doc { name: $n, body: $b } }"


@pytest.fixture(scope="module")
def storage() -> Iterator[dict[str, str]]:
    with s3_server() as options:
        yield options


@pytest.fixture
def graph(storage: dict[str, str], tmp_path: Path) -> og.Graph:
    """A graph that may read below one prefix, with an object there and one beside it."""
    objects = S3ObjectStore(BUCKET, "", storage)
    objects.put("pictures/of/a %41.png", b"png" * 100)
    objects.put("pictures/large", b"x" * 1001)
    objects.put("pictures-too/a", b"secret")
    settings = replace(FAST, storage=storage, blob_sources=(f"s3://{BUCKET}/pictures/",), blob_bytes=1000)
    return og.create_graph(str(tmp_path / "g"), SCHEMA, runtime=runtime(settings))


def test_an_object_below_an_allowed_prefix_is_copied(graph: og.Graph) -> None:
    graph.mutate(PUT, params={"n": "a", "b": f"s3://{BUCKET}/pictures/of/a%20%2541.png"})

    stream = graph.blob("Doc", "a", "body")
    assert stream is not None
    assert stream.read() == b"png" * 100


@pytest.mark.parametrize(
    "uri, reason",
    [
        (f"s3://{BUCKET}/pictures-too/a", "below none of the places"),
        (f"s3://{BUCKET}/pictures/../pictures-too/a", "`..` segment"),
        ("s3://other/pictures/a", "below none of the places"),
        (f"s3://{BUCKET}/pictures/none", "there is no such object"),
        (f"s3://{BUCKET}/pictures/large", "more than 1000 bytes"),
        (f"s3://user@{BUCKET}/pictures/a", "below none of the places"),
    ],
)
def test_nothing_else_is_read(graph: og.Graph, uri: str, reason: str) -> None:
    with pytest.raises(og.BlobSourceError, match=reason):
        graph.mutate(PUT, params={"n": "a", "b": uri})

    assert graph.table("Doc").count_rows() == 0


def test_the_bytes_stay_with_their_rows(storage: dict[str, str]) -> None:
    graph = og.create_graph(fresh_uri(), SCHEMA, runtime=runtime(replace(FAST, storage=storage)))
    values = {"a": b"small", "b": b"middle" * 40_000, "c": b"large" * 1_000_000}
    for name, value in values.items():
        graph.mutate(PUT, params={"n": name, "b": value})

    graph.mutate("query q() { update Doc set { pages: 1 } where pages is null }")

    assert graph.table("Doc").count_rows("pages = 1") == 3
    for name, value in values.items():
        stream = graph.blob("Doc", name, "body")
        assert stream is not None
        assert stream.read() == value
