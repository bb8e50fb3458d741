"""Merges by processes that are killed at every point: made whole or not at all, and made once when tried again."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from crash.jobs import leftovers
from merging import contents, new_graph, run
from omnigraph.graph import Graph
from omnigraph.ops.open import open_session
from worlds import runtime
from zygote import Zygote

POINTS = {
    "publish.staged": False,
    "publish.armed": False,
    "publish.applied@1": False,
    "publish.applied@2": False,
    "publish.flushed": False,
    "publish.head_written": False,
    "publish.swapped": True,
    "publish.verified": True,
    "publish.disarmed": True,
}
"""By point, whether a merge that was killed at it has been made."""


@pytest.fixture(scope="module")
def zygote() -> Iterator[Zygote]:
    zygote = Zygote()
    yield zygote
    zygote.close()


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two tables that both branches changed, and one that only the source did."""
    graph = new_graph(tmp_path_factory.mktemp("template"))
    run(graph, 'update P set { n: 2 } where name = "a" insert Knows { from: "c", to: "d" }')
    run(graph, 'update P set { m: 3 } where name = "a" insert Knows { from: "d", to: "c" }', "dev")
    run(graph, 'insert C { name: "z" }', "dev")
    return Path(graph.uri)


@pytest.mark.parametrize("point", POINTS)
def test_a_killed_merge_is_made_or_not(point: str, template: Path, tmp_path: Path, zygote: Zygote) -> None:
    uri, other = (str(shutil.copytree(template, tmp_path / name)) for name in ("g", "other"))
    graph = Graph(open_session(other, is_read_only=False, runtime=runtime()))
    before = contents(graph)
    graph.merge("dev")
    after = contents(graph)

    killed = zygote.run("crash.merge_jobs:merge", {"uri": uri}, f"{point}=kill")
    seen = zygote.run("crash.merge_jobs:look", {"uri": uri})
    again = zygote.run("crash.merge_jobs:merge", {"uri": uri})
    zygote.run("crash.jobs:sleep_past_lease", {})
    settled = open_session(uri, is_read_only=False, runtime=runtime())

    assert killed.was_killed
    assert seen.result == {"main": after if POINTS[point] else before}
    assert again.result == ("already_up_to_date" if POINTS[point] else "merged")
    assert contents(Graph(settled)) == after
    assert leftovers(settled)["sidecars"] == 0
