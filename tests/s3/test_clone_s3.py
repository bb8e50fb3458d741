"""Clones from and to an object store: the same as on a disk."""

import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

import omnigraph as og
from cloning import Every, cloned, on, opened, readable
from omnigraph.commit.manifest_log import UnfinishedCloneError
from omnigraph.errors import BadArgumentError
from omnigraph.faults import InjectedFaultError
from omnigraph.ops.clone import check_not_nested
from omnigraph.options import Options
from omnigraph.storage.uri import parse_uri
from raised_codes import has_code
from s3_server import fresh_uri, s3_server
from worlds import FAST, runtime

SCHEMA = "node P { k: String @key  z: Blob? }\nedge E: P -> P\n"
LARGE, SMALL = 9_000_000, 100_000
"""More than one part of an upload, and less."""


@pytest.fixture(scope="module")
def options() -> Iterator[Options]:
    with s3_server() as storage:
        yield replace(FAST, storage=storage)


def world(uri: str, options: Options, size: int = SMALL) -> og.Graph:
    """A graph with a branch, a past and a blob."""
    graph = og.create_graph(uri, SCHEMA, runtime=runtime(options))
    blobs = {"a": os.urandom(9), "b": os.urandom(size)}
    graph.load([{"type": "P", "data": {"k": k, "z": data}} for k, data in blobs.items()], mode="append")
    graph.branches.create("dev")
    on(graph, "dev", 'insert E { from: "a", to: "b" }')
    on(graph, "main", 'insert P { k: "c" }')
    return graph


def places(kind: str, root: Path) -> tuple[str, str]:
    source, _, target = kind.partition(" to ")
    return tuple(fresh_uri() if each == "s3" else str(root / name) for each, name in ((source, "g"), (target, "c")))  # type: ignore[return-value]  # two of them


@pytest.mark.parametrize("kind, size", [("disk to s3", LARGE), ("s3 to disk", SMALL), ("s3 to s3", SMALL)])
def test_a_clone_says_the_same_wherever_it_is(kind: str, size: int, options: Options, tmp_path: Path) -> None:
    source, target = places(kind, tmp_path)
    graph = world(source, options, size)

    done = cloned(graph, target, options=options)

    made = opened(target, options)
    assert readable(made) == readable(graph)
    assert done.nbytes > size
    for branch in ("main", "dev"):  # where a graph lies is no part of its digest
        digest = graph.snapshot(branch=branch).commit.digest
        assert made.verify(branch=branch, digest=digest).digest == digest is not None
    large = made.blob("P", "b", "z")
    assert large is not None
    assert len(large.read()) == size


def test_a_clone_that_died_on_s3_is_gone_on_with(options: Options, tmp_path: Path) -> None:
    source, target = places("disk to s3", tmp_path)
    graph = world(source, options)

    def fail() -> None:
        raise InjectedFaultError("clone.ready")

    with pytest.raises(InjectedFaultError):
        cloned(graph, target, options=options, faults=Every("clone.ready", fail))
    with pytest.raises(UnfinishedCloneError):
        opened(target, options)
    done = cloned(graph, target, options=options)

    assert done.nbytes < SMALL
    assert readable(opened(target, options)) == readable(graph)
    with pytest.raises(og.PlaceTakenError):
        cloned(graph, target, options=options)


@pytest.mark.parametrize("target", ["s3://b/x/g", "s3://b/x/g/nodes", "s3://b/x"])
def test_prefixes_inside_of_each_other_are_refused(target: str) -> None:
    with pytest.raises(BadArgumentError, check=has_code("nested_places")):
        check_not_nested(parse_uri("s3://b/x/g"), parse_uri(target))


@pytest.mark.parametrize("target", ["s3://b/g2", "s3://c/g", "s3://b/x/g", "/b/g"])
def test_prefixes_beside_each_other_are_not(target: str) -> None:
    check_not_nested(parse_uri("s3://b/g"), parse_uri(target))
