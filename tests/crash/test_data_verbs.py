"""Mutations and loads, killed at every point of the publish: all or nothing, nothing left, nobody blocked."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from crash.data_jobs import LOADS, MUTATIONS, SEED, contents
from crash.test_writers import AFTER_SWAP, POINTS
from mutating import new_graph, run
from zygote import Zygote

KINDS = (*MUTATIONS, *LOADS)


@pytest.fixture(scope="module")
def zygote() -> Iterator[Zygote]:
    zygote = Zygote()
    yield zygote
    zygote.close()


@pytest.mark.parametrize("point", POINTS)
@pytest.mark.parametrize("kind", KINDS)
def test_a_killed_call_leaves_all_or_nothing(kind: str, point: str, tmp_path: Path, zygote: Zygote) -> None:
    graph = new_graph(tmp_path)
    run(graph, SEED)
    before = contents(graph)

    killed = zygote.run("crash.data_jobs:write", {"uri": graph.uri, "kind": kind}, f"{point}=kill")
    seen = zygote.run("crash.data_jobs:look", {"uri": graph.uri})
    next_write = zygote.run("crash.data_jobs:write_at_once", {"uri": graph.uri})
    settled = zygote.run("crash.data_jobs:settle", {"uri": graph.uri})

    assert killed.was_killed
    assert seen.error is None
    assert (seen.result == before) == (point not in AFTER_SWAP)
    assert next_write.error is None
    assert len(next_write.result) == len(seen.result) + 2
    assert settled.error is None
    assert settled.result["sidecars"] == 0
    if kind in LOADS or point != "publish.staged":  # a load arms its sidecar before it writes the first file
        assert settled.result["orphans"] == []


@pytest.mark.parametrize("kind", KINDS)
def test_a_call_that_lives_is_seen_whole(kind: str, tmp_path: Path, zygote: Zygote) -> None:
    killed, lived = new_graph(tmp_path / "killed"), new_graph(tmp_path / "lived")
    for graph in (killed, lived):
        run(graph, SEED)

    zygote.run("crash.data_jobs:write", {"uri": killed.uri, "kind": kind}, "publish.swapped=kill")
    zygote.run("crash.data_jobs:write", {"uri": lived.uri, "kind": kind})

    assert contents(killed) == contents(lived)
