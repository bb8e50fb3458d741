"""Backups and restores that are killed at every point: the backups before stay, and the next run goes on."""

from dataclasses import replace
from pathlib import Path

import pytest

import omnigraph as og
from cloning import branched, opened, readable, tree
from mutating import run
from omnigraph.commit.manifest_log import UnfinishedCloneError
from omnigraph.commit.place_errors import PlaceTakenError
from omnigraph.locations import Location
from omnigraph.ops.backup_repository import Repository
from raised_codes import has_code
from worlds import FAST, runtime
from zygote import Zygote

LATER = replace(FAST, lease_seconds=-1)
"""The lease of whoever died has run out."""
POINTS = ["clone.claimed", "clone.copied@1", "clone.copied@3", "backup.copied", "backup.ready", "backup.added"]


@pytest.mark.parametrize("point", [*POINTS, "backup.removed"])
def test_a_killed_backup_leaves_the_one_before_or_is_one(point: str, tmp_path: Path, zygote: Zygote) -> None:
    graph = branched(tmp_path / "source")
    place = tmp_path / "backups"
    first = og.back_up_graph(graph.uri, place, runtime=runtime()).backup.id
    old = readable(graph)
    run(graph, 'insert Person { name: "later" }')

    arguments = {"source": graph.uri, "target": str(place)}
    ended = zygote.run("crash.clone_jobs:back_up", arguments, f"{point}=kill")
    assert ended.was_killed
    left = [backup.id for backup in og.list_backups(place, runtime=runtime())]
    og.restore_graph(place, tmp_path / "between", runtime=runtime())
    with pytest.raises(PlaceTakenError, check=has_code("clone_busy")):
        og.back_up_graph(graph.uri, place, runtime=runtime(replace(FAST, lease_seconds=60)))
    done = og.back_up_graph(graph.uri, place, keep=1, runtime=runtime(LATER))
    og.restore_graph(place, tmp_path / "after", runtime=runtime())

    is_added = point in {"backup.added", "backup.removed"}
    assert first in left or point == "backup.removed"
    assert readable(opened(tmp_path / "between")) == (readable(graph) if is_added else old)
    assert readable(opened(tmp_path / "after")) == readable(graph)
    assert [backup.id for backup in og.list_backups(place, runtime=runtime())] == [done.backup.id]
    # Nothing is left of what was killed, and nothing but the files of the one backup.
    assert Repository(Location(str(place)), runtime()).sweep() == 0
    assert [path for path in tree(place) if "__recovery" in path] == []


@pytest.mark.parametrize(
    "point", ["clone.claimed", "clone.copied@5", "restore.flushed", "clone.branch@1", "clone.ready"]
)
def test_a_killed_restore_is_no_graph_and_can_be_gone_on_with(point: str, tmp_path: Path, zygote: Zygote) -> None:
    graph = branched(tmp_path / "source")
    place, target = tmp_path / "backups", tmp_path / "copy"
    og.back_up_graph(graph.uri, place, runtime=runtime())

    ended = zygote.run("crash.clone_jobs:restore", {"source": str(place), "target": str(target)}, f"{point}=kill")
    assert ended.was_killed
    with pytest.raises(UnfinishedCloneError):
        opened(target)
    og.restore_graph(place, target, runtime=runtime(LATER))

    assert readable(opened(target)) == readable(graph)
    assert [path for path in tree(target) if path.startswith("__recovery")] == []
