"""Schema changes by processes that are killed at every point: made whole or not at all, and nothing is left behind."""

import shutil
from pathlib import Path

import pytest

from crash.jobs import OVER, leftovers
from crash.schema_jobs import CHANGES, found, seeded
from omnigraph.graph import Graph
from omnigraph.ops.open import open_session
from worlds import runtime
from zygote import Zygote

POINTS = {
    "publish.armed": False,
    "schema.purged": False,
    "publish.staged": False,
    "publish.applied@1": False,
    "publish.flushed": False,
    "publish.head_written": False,
    "publish.swapped": True,
    "publish.verified": True,
    "publish.disarmed": True,
}
"""By point, whether a change that was killed at it has been made."""


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return Path(seeded(str(tmp_path_factory.mktemp("template") / "g")).uri)


@pytest.fixture(scope="module")
def expected(template: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, object]:
    """What the graph holds before, and after each change."""
    states: dict[str, object] = {"before": found(opened(template))}
    for change, schema in CHANGES.items():
        graph = opened(shutil.copytree(template, tmp_path_factory.mktemp("after") / "g"))
        graph.apply_schema(schema, allow_data_loss=True)
        states[change] = found(graph)
    return states


def opened(uri: Path) -> Graph:
    return Graph(open_session(str(uri), is_read_only=False, runtime=runtime()))


@pytest.mark.parametrize("point", POINTS)
def test_a_killed_change_is_made_or_not(
    point: str, template: Path, expected: dict[str, object], tmp_path: Path, zygote: Zygote
) -> None:
    killed_and_tried_again(point, "all", template, expected, tmp_path, zygote)


@pytest.mark.soak
@pytest.mark.parametrize("point", POINTS)
@pytest.mark.parametrize("change", [name for name in CHANGES if name != "all"])
def test_each_kind_of_change_is_made_or_not(
    point: str, change: str, template: Path, expected: dict[str, object], tmp_path: Path, zygote: Zygote
) -> None:
    if point == "schema.purged" and change != "dropped":
        pytest.skip("only what is dropped for good takes this step")
    killed_and_tried_again(point, change, template, expected, tmp_path, zygote)


def killed_and_tried_again(
    point: str, change: str, template: Path, expected: dict[str, object], place: Path, zygote: Zygote
) -> None:
    uri = str(shutil.copytree(template, place / "g"))

    killed = zygote.run("crash.schema_jobs:apply", {"uri": uri, "change": change}, f"{point}=kill")
    seen = zygote.run("crash.schema_jobs:look", {"uri": uri})
    again = zygote.run("crash.schema_jobs:apply", {"uri": uri, "change": change})
    settled = open_session(uri, is_read_only=False, runtime=runtime(OVER))

    assert killed.was_killed
    assert seen.error is None
    assert seen.result == expected[change if POINTS[point] else "before"]
    assert again.error is None
    assert (again.result is None) == POINTS[point]
    assert found(Graph(settled)) == expected[change]
    assert (Path(uri) / "_schema.pg").read_text() == settled.resolve_snapshot().manifest.schema.source
    left = leftovers(settled, ("nodes", "edges"))
    assert (left["sidecars"], left["orphans"]) == (0, [])
