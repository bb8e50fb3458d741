"""A repair, killed at every point: the next one finishes it, and nothing is lost beside what it told."""

from pathlib import Path

import pytest

import damaging as harm
import omnigraph as og
from upkeep_calls import exported, optimized
from worlds import runtime
from zygote import Zygote

PUBLISHING = ("publish.head_written", "publish.swapped")


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> og.Graph:
    """A graph whose people and edges were compacted last."""
    graph = og.create_graph(
        str(tmp_path_factory.mktemp("sound") / "g"), "node P { name: String @key }\nedge K: P -> P", runtime=runtime()
    )
    for one in ("a", "b"):
        graph.load([{"type": "P", "data": {"name": one}}], mode="append")
        graph.mutate(f'query q() {{ insert K {{ from: "{one}", to: "a" }} }}')
    optimized(graph)
    return graph


@pytest.mark.parametrize("point", ["repair.planned", *PUBLISHING])
def test_killed_while_tables_go_back(point: str, sound: og.Graph, tmp_path: Path, zygote: Zygote) -> None:
    before = exported(sound).decode().splitlines()
    root = {"uri": harm.copied(sound, tmp_path / "g").uri}
    harm.removed(lambda at: harm.version_of(at, "node:P"))(tmp_path / "g")
    harm.removed(lambda at: harm.version_of(at, "edge:K"))(tmp_path / "g")

    killed = zygote.run("crash.repair_jobs:repair", root, f"{point}=kill")
    again = zygote.run("crash.repair_jobs:repair", root)
    seen = zygote.run("crash.repair_jobs:look", root)

    is_done = point == "publish.swapped"
    assert killed.was_killed
    assert again.result == ([] if is_done else ["published", "published"])
    assert seen.result == {"content": before, "repairs": 1, "errors": [], "unfinished": False}


@pytest.mark.parametrize("point", ["repair.looked", "repair.aside", "publish.head_written", "repair.beyond"])
def test_killed_while_a_manifest_goes_back(point: str, sound: og.Graph, tmp_path: Path, zygote: Zygote) -> None:
    before = exported(sound).decode().splitlines()
    graph = harm.copied(sound, tmp_path / "g")
    graph.branches.create("late")
    harm.truncated(harm.newest_manifest)(tmp_path / "g")
    newest = harm.newest_number(tmp_path / "g")

    killed = zygote.run("crash.repair_jobs:repair", {"uri": graph.uri}, f"{point}=kill")
    zygote.run("crash.repair_jobs:repair", {"uri": graph.uri})
    seen = zygote.run("crash.repair_jobs:look", {"uri": graph.uri})

    assert killed.was_killed
    assert seen.error is None
    assert (seen.result["content"], seen.result["errors"], seen.result["unfinished"]) == (before, [], False)
    assert seen.result["repairs"] >= 1
    assert harm.newest_number(tmp_path / "g") > newest
