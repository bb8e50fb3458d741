"""Mutations and loads, killed at every point of the publish: all or nothing, nothing left, nobody blocked."""

import shutil
from pathlib import Path

import pytest

import omnigraph as og
from crash.data_jobs import LOADS, MUTATIONS, SEED, contents
from crash.test_writers import AFTER_SWAP, ARMED_ONLY, POINTS
from mutating import new_graph, run
from worlds import runtime
from zygote import Zygote

KINDS = (*MUTATIONS, *LOADS)
GROUP_POINTS = ("group.led", "group.placed")
MOST_ORPHANS = 4
"""Data and deletion files of two tables."""


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> og.Graph:
    graph = new_graph(tmp_path_factory.mktemp("seeded"))
    run(graph, SEED)
    return graph


def copied(template: og.Graph, place: Path) -> str:
    """A graph of its own for each test: nothing in a graph says where it is."""
    return str(shutil.copytree(template.uri, place / "g"))


CELLS = [
    *((kind, point) for kind in LOADS for point in POINTS),
    # A small mutation has no sidecar, and is published in a group, here of one.
    *((kind, point) for kind in MUTATIONS for point in (*POINTS, *GROUP_POINTS) if point not in ARMED_ONLY),
]


@pytest.mark.parametrize("kind, point", CELLS)
def test_a_killed_call_leaves_all_or_nothing(
    kind: str, point: str, template: og.Graph, tmp_path: Path, zygote: Zygote
) -> None:
    uri, before = copied(template, tmp_path), contents(template)

    killed = zygote.run("crash.data_jobs:write", {"uri": uri, "kind": kind}, f"{point}=kill")
    after = zygote.run("crash.data_jobs:aftermath", {"uri": uri})

    assert killed.was_killed
    assert after.error is None
    seen, settled = after.result["seen"], after.result["settled"]
    assert (seen == before) == (point not in AFTER_SWAP)
    assert len(after.result["next"]) == len(seen) + 2
    assert settled["sidecars"] == 0
    if kind in LOADS:
        assert settled["orphans"] == []
    else:
        assert len(settled["orphans"]) <= MOST_ORPHANS, "a few small files, for a cleanup"


@pytest.mark.parametrize("kind", KINDS)
def test_a_call_that_lives_is_seen_whole(kind: str, template: og.Graph, tmp_path: Path, zygote: Zygote) -> None:
    killed, lived = copied(template, tmp_path / "killed"), copied(template, tmp_path / "lived")

    zygote.run("crash.data_jobs:write", {"uri": killed, "kind": kind}, "publish.swapped=kill")
    zygote.run("crash.data_jobs:write", {"uri": lived, "kind": kind})

    after = [contents(og.open_graph(uri, read_only=True, runtime=runtime())) for uri in (killed, lived)]
    assert after[0] == after[1] != contents(template)
