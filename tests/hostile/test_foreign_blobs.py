"""A row of a stranger's table that names a file of this machine as its blob: the file is not read."""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from io import BytesIO
from pathlib import Path

import lance
import pytest
from lance import blob_array
from lance.fragment import write_fragments

import omnigraph as og
from omnigraph.storage.foreign_blobs import ForeignBlobError
from watching import watch
from worlds import FAST, runtime

SCHEMA = "node D { k: String @key\n b: Blob? }"


@pytest.fixture
def secret(tmp_path: Path) -> Path:
    """Make a file outside of the graph that nothing may read."""
    (tmp_path / "outside").mkdir()
    secret = tmp_path / "outside" / "secret.txt"
    secret.write_text("top secret")
    return secret


@pytest.fixture
def root(tmp_path: Path, secret: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Make a graph in which a row names the file by its URI, as another tool could."""
    graph = og.create_graph(str(tmp_path / "graph"), SCHEMA, runtime=runtime())
    graph.load([{"type": "D", "data": {"k": "own", "b": "base64:aGVsbG8="}}], mode="append")
    monkeypatch.setattr(
        "omnigraph.storage.staging.lance.blob_array",
        lambda values: blob_array([lance.Blob.from_uri(secret.as_uri()) for _ in values]),
    )
    monkeypatch.setattr(
        "omnigraph.storage.staging.write_fragments",
        lambda *given, **named: write_fragments(*given, **named, allow_external_blob_outside_bases=True),
    )
    graph.load([{"type": "D", "data": {"k": "foreign", "b": "base64:aGVsbG8="}}], mode="append")
    monkeypatch.undo()
    return tmp_path / "graph"


READS: dict[str, Callable[[og.Graph], object]] = {
    "the blob itself": lambda graph: graph.blob("D", "foreign", "b"),
    "an export": lambda graph: graph.export(BytesIO()),
    "an export of Parquet": lambda graph: graph.export(Path(graph.uri).parent / "out", format="parquet"),
    "a partial update": lambda graph: graph.load(
        [{"type": "D", "data": {"k": "foreign"}}, {"type": "D", "data": {"k": "own"}}], mode="merge"
    ),
    "a column dropped for good": lambda graph: graph.apply_schema(
        "node D { k: String @key\n b: Blob?\n }".replace("k: String @key", "k: String @key\n n: I32?"),
        allow_data_loss=True,
    ),
    "optimize": lambda graph: graph.optimize(),
}


@pytest.mark.parametrize("read", READS)
def test_what_lies_outside_is_not_read(root: Path, secret: Path, read: str) -> None:
    with watch(secret.parent) as events, og.open_graph(root, runtime=runtime()) as graph, suppress(ForeignBlobError):
        READS[read](graph)

    assert events == []


@pytest.mark.parametrize("read", ["the blob itself", "an export", "an export of Parquet"])
def test_it_is_told_which_row_names_what(root: Path, secret: Path, read: str) -> None:
    with og.open_graph(root, runtime=runtime()) as graph, pytest.raises(ForeignBlobError, match=secret.as_uri()):
        READS[read](graph)


def test_the_blobs_of_the_graph_itself_are_read(root: Path) -> None:
    with og.open_graph(root, runtime=runtime()) as graph:
        blob = graph.blob("D", "own", "b")

        assert blob is not None
        assert blob.read() == b"hello"


def test_the_settings_can_allow_the_place(root: Path, secret: Path) -> None:
    allowing = runtime(replace(FAST, blob_sources=(secret.parent.as_uri(),)))

    with og.open_graph(root, runtime=allowing) as graph:
        blob = graph.blob("D", "foreign", "b")

        assert blob is not None
        assert blob.read() == b"top secret"


def test_a_check_names_it(root: Path, secret: Path) -> None:
    with og.open_graph(root, runtime=runtime()) as graph:
        findings = graph.check().findings

    assert any(secret.as_uri() in finding.message for finding in findings)
