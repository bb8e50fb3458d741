"""Clones whose makers are killed at every point: a whole graph, or none that says so and can be gone on with."""

from dataclasses import replace
from pathlib import Path

import pytest

import omnigraph as og
from cloning import branched, cloned, opened, present, readable, tree
from mutating import run
from omnigraph.commit.manifest_log import UnfinishedCloneError
from omnigraph.commit.place_errors import PlaceTakenError
from raised_codes import has_code
from worlds import FAST, runtime
from zygote import Zygote

UNFINISHED = ["clone.claimed", "clone.copied@1", "clone.copied@20", "clone.flushed", "clone.branch@1", "clone.ready"]
LATER = replace(FAST, lease_seconds=-1)
"""The lease of whoever died has run out."""


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> str:
    return branched(tmp_path_factory.mktemp("source")).uri


def killed_at(point: str, source: str, target: Path, zygote: Zygote) -> None:
    ended = zygote.run("crash.clone_jobs:clone", {"source": source, "target": str(target)}, f"{point}=kill")
    assert ended.was_killed


@pytest.mark.parametrize("point", UNFINISHED)
def test_a_killed_clone_is_no_graph_and_can_be_gone_on_with(
    point: str, source: str, tmp_path: Path, zygote: Zygote
) -> None:
    target, before = tmp_path / "c", tree(source)

    killed_at(point, source, target, zygote)
    with pytest.raises(UnfinishedCloneError):
        opened(target)
    with pytest.raises(PlaceTakenError, check=has_code("clone_busy")):
        cloned(source, target, options=replace(FAST, lease_seconds=60))
    cloned(source, target, options=LATER)

    assert readable(opened(target)) == readable(opened(source))
    assert [path for path in tree(target) if path.startswith("__recovery")] == []
    assert tree(source) == before


def test_a_clone_that_was_killed_at_its_very_end_is_a_graph(source: str, tmp_path: Path, zygote: Zygote) -> None:
    target = tmp_path / "c"

    killed_at("clone.placed", source, target, zygote)
    seen = readable(opened(target))
    made = og.open_graph(str(target), runtime=runtime())
    run(made, 'insert Person { name: "after" }')

    assert seen == readable(opened(source))
    assert b'"after"' in present(made)["main"]
    assert [path for path in tree(target) if path.startswith("__recovery")] == []
