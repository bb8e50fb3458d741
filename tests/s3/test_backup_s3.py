"""Backups from and to an object store: the same as on a disk."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

import omnigraph as og
from cloning import on, opened, readable
from omnigraph.options import Options
from s3.test_clone_s3 import places, world
from s3_server import s3_server
from worlds import FAST, runtime


@pytest.fixture(scope="module")
def options() -> Iterator[Options]:
    with s3_server() as storage:
        yield replace(FAST, storage=storage)


@pytest.mark.parametrize("kind", ["disk to s3", "s3 to s3", "s3 to disk"])
def test_a_backup_says_the_same_wherever_it_is(kind: str, options: Options, tmp_path: Path) -> None:
    source, target = places(kind, tmp_path)
    graph = world(source, options)
    settings = runtime(options)
    first = og.back_up_graph(source, target, runtime=settings)
    on(graph, "dev", 'insert P { k: "later" }')

    second = og.back_up_graph(source, target, keep=1, runtime=settings)
    again = og.back_up_graph(source, target, keep=1, runtime=settings)
    og.restore_graph(target, tmp_path / "restored", runtime=settings)

    assert readable(opened(tmp_path / "restored", options)) == readable(graph)
    assert second.files < first.files
    assert (second.removed, again.is_new) == ((first.backup.id,), False)
