"""Schedules that were found to fail, shortened; each is the test of what mended it."""

from collections.abc import Iterator

import pytest

from schedules.explore import Model, model
from schedules.model_actors import LISTS, Append, Cleanup, DeleteBranch
from schedules.model_load import Load
from schedules.scenarios import ARMED, LARGE, branch_writer, on_branch, scenario
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


def test_a_write_that_armed_late_leaves_files_that_a_cleanup_may_remove(room: Model) -> None:
    # The cleanup has listed the sidecars and the table before the sidecar is there, and goes on after it was removed
    # again. The write took its files for protected.
    case = scenario("a-late-sidecar", a=LARGE, cleanup=Cleanup())
    switches = (
        ("", 0, "a"),
        ("a", 9, "cleanup"),
        ("cleanup", 64, "a"),
        ("a", 96, "cleanup"),
        ("cleanup", 69, "a:lease"),
        ("a:lease", 1, "a"),
    )

    result = room.play(case, ReplayStrategy(Schedule(switches)))

    assert result.problems == [], result.describe()


def test_a_load_that_named_a_file_late_leaves_it_to_a_cleanup(room: Model) -> None:
    # The same, with a sidecar that is older than the file, and names it after the cleanup has listed both.
    case = scenario("a-late-name", a=ARMED, cleanup=Cleanup())
    switches = (
        ("", 0, "a"),
        ("a", 13, "cleanup"),
        ("cleanup", 76, "a"),
        ("a", 104, "a:lease"),
        ("a:lease", 1, "a"),
        ("a", 110, "cleanup"),
    )

    result = room.play(case, ReplayStrategy(Schedule(switches)))

    assert result.problems == [], result.describe()


def test_a_task_that_stood_still_before_its_note_leaves_its_file_to_a_cleanup(room: Model) -> None:
    # The cleanup has listed the notes while the task stands between its file and its note, and goes on after the load
    # is published. The driver took every file of its tasks for named since the load began.
    case = scenario("a-late-note", a=Load((f"{LISTS[0]}/p",)), cleanup=Cleanup())
    switches = (
        ("", 0, "a"),
        ("a", 16, "task1"),
        ("task1", 4, "cleanup"),
        ("cleanup", 80, "task1"),
        ("task1", 9, "a"),
        ("a", 113, "cleanup"),
        ("cleanup", 87, "a:lease"),
        ("a:lease", 1, "a"),
    )

    result = room.play(case, ReplayStrategy(Schedule(switches)))

    assert result.problems == [], result.describe()
