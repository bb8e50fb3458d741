"""Merges by processes that are killed at every point: made whole or not at all, and made once when tried again."""

import shutil
from pathlib import Path

import pytest

from crash.jobs import OVER, leftovers, orphans
from merging import SCHEMA, Contents, contents, new_graph, run
from omnigraph.graph import Graph
from omnigraph.ops.open import open_session
from worlds import runtime
from zygote import Zygote

POINTS = {
    "publish.armed": False,
    "schema.reshaped": False,
    "publish.staged": False,
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
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two tables that both branches changed, of one also the columns, and one that only the source changed."""
    graph = new_graph(tmp_path_factory.mktemp("template"))
    graph.apply_schema(SCHEMA.replace("m: I32?", "m: I32?  rank: I32 @default(7)"))
    graph.apply_schema(SCHEMA.replace("m: I32?", "m: I32?  nick: String?"), branch="dev")
    run(graph, 'update P set { n: 2 } where name = "a" insert Knows { from: "c", to: "d" }')
    run(graph, 'update P set { m: 3 } where name = "a" insert Knows { from: "d", to: "c" }', "dev")
    run(graph, 'insert C { name: "z" }', "dev")
    return Path(graph.uri)


@pytest.fixture(scope="module")
def expected(template: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Contents, Contents]:
    """What main holds before the merge, and after it."""
    uri = str(shutil.copytree(template, tmp_path_factory.mktemp("other") / "g"))
    graph = Graph(open_session(uri, is_read_only=False, runtime=runtime()))
    before = contents(graph)
    graph.merge("dev")
    return before, contents(graph)


@pytest.mark.parametrize("point", POINTS)
def test_a_killed_merge_is_made_or_not(
    point: str, template: Path, expected: tuple[Contents, Contents], tmp_path: Path, zygote: Zygote
) -> None:
    uri = str(shutil.copytree(template, tmp_path / "g"))
    before, after = expected

    killed = zygote.run("crash.merge_jobs:merge", {"uri": uri}, f"{point}=kill")
    seen = zygote.run("crash.merge_jobs:look", {"uri": uri})
    again = zygote.run("crash.merge_jobs:merge", {"uri": uri})
    settled = open_session(uri, is_read_only=False, runtime=runtime(OVER))

    assert killed.was_killed
    assert seen.result == {"main": after if POINTS[point] else before}
    assert again.result == ("already_up_to_date" if POINTS[point] else "merged")
    assert contents(Graph(settled)) == after
    assert leftovers(settled)["sidecars"] == 0
    of_main, of_dev = (set(orphans(one, ("nodes", "edges"))) for one in (settled, settled.checkout("dev")))
    assert of_main & of_dev == set()
