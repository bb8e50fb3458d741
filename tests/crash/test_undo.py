"""Reverts and resets by processes that are killed at every point: made whole or not at all, once when tried again."""

import shutil
from pathlib import Path

import pytest

from crash.jobs import OVER, leftovers
from merging import Contents, contents, new_graph, run
from omnigraph.graph import Graph
from omnigraph.ops.open import open_session
from worlds import runtime
from zygote import Zygote

PUBLISH = {
    "publish.flushed": False,
    "publish.head_written": False,
    "publish.swapped": True,
    "publish.verified": True,
}
# A reset writes no row, so it stages and applies nothing.
POINTS = {
    "revert": {
        "publish.armed": False,
        "publish.staged": False,
        "publish.applied@1": False,
        **PUBLISH,
        "publish.disarmed": True,
    },
    "reset": PUBLISH,
}
"""By verb and point, whether it has been made by a process that was killed there."""


@pytest.fixture(scope="module")
def story(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str, Contents, dict[str, Contents]]:
    """A graph with a wrong commit of two tables and others after it: what it holds, and what it has to hold then."""
    graph = new_graph(tmp_path_factory.mktemp("template"))
    run(graph, 'update P set { n: 2 } where name = "a" insert Knows { from: "c", to: "d" }')
    wrong = graph.snapshot().commit.id
    at_wrong = contents(graph)
    run(graph, 'update P set { m: 3 } where name = "a" insert Knows { from: "d", to: "c" }')
    before = contents(graph)
    copy = str(shutil.copytree(graph.uri, tmp_path_factory.mktemp("other") / "g"))
    other = Graph(open_session(copy, is_read_only=False, runtime=runtime()))
    other.revert(wrong)
    return Path(graph.uri), wrong, before, {"revert": contents(other), "reset": at_wrong}


@pytest.mark.parametrize("verb, point", [(verb, point) for verb, points in POINTS.items() for point in points])
def test_a_killed_revert_or_reset_is_made_or_not(
    verb: str,
    point: str,
    story: tuple[Path, str, Contents, dict[str, Contents]],
    tmp_path: Path,
    zygote: Zygote,
) -> None:
    template, wrong, before, afters = story
    uri = str(shutil.copytree(template, tmp_path / "g"))
    is_made = POINTS[verb][point]

    killed = zygote.run(f"crash.merge_jobs:{verb}", {"uri": uri, "commit": wrong}, f"{point}=kill")
    seen = zygote.run("crash.merge_jobs:look", {"uri": uri})
    again = zygote.run(f"crash.merge_jobs:{verb}", {"uri": uri, "commit": wrong})
    settled = open_session(uri, is_read_only=False, runtime=runtime(OVER))

    assert killed.was_killed
    assert seen.result == {"main": afters[verb] if is_made else before}
    assert again.result in ("already_up_to_date", False) if is_made else again.result in ("merged", True)
    assert contents(Graph(settled)) == afters[verb]
    assert leftovers(settled)["sidecars"] == 0
