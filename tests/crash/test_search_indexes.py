"""Index builds, killed or stopped at every point: no search says anything else, and nothing is left."""

import os
import shutil
import signal
from pathlib import Path
from typing import Any

import pytest

from crash.test_live_neighbour import wait_until_stopped
from crash.test_writers import POINTS
from zygote import Ended, Zygote

# A recall, and segments of texts.
DERIVED = [("derived.begun", 1), ("derived.stored", 1), ("derived.begun", 2), ("derived.stored", 3)]
BUILDS = [(point, 1) for point in ("upkeep.compacted", "upkeep.indexed", *POINTS)]
RACED = ["upkeep.indexed", "publish.flushed", "derived.begun"]
TOP = 10


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory, zygote: Zygote) -> tuple[Path, dict[str, Any]]:
    """A graph whose indexes cover a part of the rows, and its answers."""
    root = tmp_path_factory.mktemp("searched") / "g"
    assert zygote.run("crash.search_jobs:make", {"uri": str(root)}).error is None
    return root, answered(zygote.run("crash.search_jobs:ask", {"uri": str(root)}))


def answered(asked: Ended) -> dict[str, Any]:
    """Answers, after a check that what the vector index finds is right: complete, and nearly as near."""
    assert asked.error is None
    found, true = asked.result["found"], asked.result["exact"]
    recalls = []
    for number, (near, nearest) in enumerate(zip(found, true, strict=True)):
        # Each vector is followed by three searches of texts.
        if number % 4:
            assert near == nearest
            continue
        assert len(near) == len(nearest) == TOP
        recalls.append(sum(distance <= nearest[-1][1] + 1e-9 for _, distance in near) / TOP)
    assert sum(recalls) / len(recalls) >= 0.9
    return {"exact": true}


def check_settled(zygote: Zygote, uri: dict[str, str]) -> list[str]:
    """Optimize and clean up again; the kinds of what is stored beside the tables then."""
    settled = zygote.run("crash.search_jobs:settle", uri)
    assert settled.error is None
    assert {name: settled.result[name] for name in ("problems", "errors", "lagging")} == {
        "problems": False,
        "errors": [],
        "lagging": [],
    }
    assert {"recall", "text"} <= set(settled.result["derived"])
    return list(settled.result["derived"])


@pytest.mark.parametrize("point, nth", [*BUILDS, *DERIVED])
def test_a_killed_build_changes_no_answer_and_leaves_nothing(
    point: str, nth: int, tmp_path: Path, template: tuple[Path, dict[str, Any]], zygote: Zygote
) -> None:
    seeded, before = template
    shutil.copytree(seeded, tmp_path / "g")
    uri = {"uri": str(tmp_path / "g")}

    killed = zygote.run("crash.search_jobs:optimize", uri, f"{point}@{nth}=kill")

    assert killed.was_killed
    assert answered(zygote.run("crash.search_jobs:ask", uri)) == before
    left = zygote.run("crash.search_jobs:find_leftovers", uri)
    assert (left.error, left.result["sidecars"], left.result["orphans"], left.result["segments"]) == (None, 0, [], [])
    # After cleanup only what the newest version has is left. In a race, the next cleanup may have to do the rest.
    assert check_settled(zygote, uri).count("recall") == 1
    assert answered(zygote.run("crash.search_jobs:ask", uri)) == before


@pytest.mark.parametrize("point", RACED)
def test_a_build_that_another_overtakes_changes_no_answer(
    point: str, tmp_path: Path, template: tuple[Path, dict[str, Any]], zygote: Zygote
) -> None:
    shutil.copytree(template[0], tmp_path / "g")
    uri = {"uri": str(tmp_path / "g")}

    stopped = zygote.start("crash.search_jobs:optimize", uri, f"{point}=stop")
    wait_until_stopped(stopped)
    # Meanwhile rows are written, indexed and cleaned up.
    changed = zygote.run("crash.search_jobs:change", uri)
    between = answered(zygote.run("crash.search_jobs:ask", uri))
    os.kill(stopped, signal.SIGCONT)
    ended = zygote.wait(stopped)

    assert (changed.error, ended.error) == (None, None)
    assert answered(zygote.run("crash.search_jobs:ask", uri)) == between
    check_settled(zygote, uri)
    assert answered(zygote.run("crash.search_jobs:ask", uri)) == between
