"""Schedules that were found to fail, shortened; each is the test of what mended it."""

from collections.abc import Iterator

import pytest

from schedules.explore import Model, model
from schedules.model_actors import LISTS, Append, DeleteBranch
from schedules.scenarios import ARMED, branch_writer, on_branch, scenario
from schedules.strategies import ReplayStrategy, Schedule


@pytest.fixture(scope="module")
def room() -> Iterator[Model]:
    with model() as opened:
        yield opened


def test_a_branch_that_was_deleted_while_its_creator_stood_still_is_not_registered_again(room: Model) -> None:
    # The creator has swapped its row in, and looks for it only after more versions than a manifest keeps. It took the
    # row for one that was never published, and registered the branch, whose manifest was closed by then, again.
    case = scenario(
        "a-branch-that-comes-back",
        a=(ARMED, Append(tuple(f"{table}/p" for table in LISTS))),
        c=on_branch("x", branch_writer("x")),
        d=DeleteBranch("x"),
    )
    switches = (("", 0, "c"), ("c", 24, "a"), ("a", 57, "a2"), ("a2", 43, "d"), ("d", 68, "c"))

    result = room.play(case, ReplayStrategy(Schedule(switches)))

    assert result.problems == [], result.describe()
