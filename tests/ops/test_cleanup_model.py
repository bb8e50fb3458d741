"""Cleanups at random among everything else: what is kept says what it said, and nothing else is left."""

from collections.abc import Callable, Iterator, Mapping

import pytest
from hypothesis import HealthCheck, Phase, seed, settings
from hypothesis.stateful import run_state_machine_as_test

from collecting_model import Collected
from omnigraph.commit import gc_plan, group_commit
from omnigraph.commit.gc_retention import BranchHistory, RetainedPin, RetentionPlan, iter_retained_pins, plan_retention
from omnigraph.errors import OmnigraphError
from omnigraph.storage import garbage_files
from omnigraph.storage.version_files import PinnedFiles, list_version_files

MANY = 1_500


@seed(1)
class Planted(Collected):
    """The same model, on stories that soon come to each of the bugs below; of other stories it takes up to thirty."""


def run(examples: int, steps: int, model: type[Collected] = Collected, *, is_shrunk: bool = False) -> None:
    """Try that many stories of so many steps; the few are always the same."""
    run_state_machine_as_test(
        model,
        settings=settings(
            max_examples=examples,
            stateful_step_count=steps,
            derandomize=examples < MANY,
            deadline=None,
            phases=list(Phase) if is_shrunk else [Phase.generate],
            database=None,
            suppress_health_check=list(HealthCheck),
        ),
    )


@pytest.mark.parametrize(
    "examples, steps",
    [
        pytest.param(10, 25, id="some"),
        pytest.param(MANY, 50, id="many", marks=[pytest.mark.soak, pytest.mark.timeout(6 * 3_600)]),
    ],
)
def test_a_cleanup_takes_nothing_that_is_kept_and_leaves_nothing_else(examples: int, steps: int) -> None:
    run(examples, steps, is_shrunk=True)


def forget_deletions(patch: pytest.MonkeyPatch) -> None:
    """A mark that does not know of deletion files."""

    def parts(dataset: object, path: str) -> PinnedFiles:
        found = list_version_files(dataset, path)  # type: ignore[arg-type]  # Lance's own
        return PinnedFiles(frozenset(file for file in found.files if "_deletions" not in file), found.directories)

    patch.setattr("omnigraph.storage.version_files.list_version_files", parts)


def forget_indexes(patch: pytest.MonkeyPatch) -> None:
    """A mark that does not know of the directories of indexes."""

    def parts(dataset: object, path: str) -> PinnedFiles:
        found = list_version_files(dataset, path)  # type: ignore[arg-type]  # Lance's own
        return PinnedFiles(found.files, frozenset())

    patch.setattr("omnigraph.storage.version_files.list_version_files", parts)


def forget_branches(patch: pytest.MonkeyPatch) -> None:
    """A mark that looks at main alone."""

    def of_main(line: BranchHistory, plan: RetentionPlan, shared: Mapping[str, set[int]]) -> Iterator[RetainedPin]:
        return iter_retained_pins(line, plan, shared) if line.path == "__manifest" else iter(())

    patch.setattr(gc_plan, "iter_retained_pins", of_main)


def forget_tags(patch: pytest.MonkeyPatch) -> None:
    """A plan that keeps what is young, and nothing for its own sake."""
    patch.setattr(gc_plan, "plan_retention", lambda line, policy, _extra: plan_retention(line, policy, ()))


def forget_the_floor(patch: pytest.MonkeyPatch) -> None:
    """Writers that go on after a cleanup without looking whether what they made is there."""
    patch.setattr(group_commit, "check_staged_files", lambda *_args, **_named: None)


def leave_old_versions(patch: pytest.MonkeyPatch) -> None:
    """A sweep that takes versions for something that always stays."""
    patch.setattr(garbage_files, "_VERSION", garbage_files._HEAD)


@pytest.mark.parametrize(
    "plant",
    [
        forget_deletions,
        forget_branches,
        forget_the_floor,
        *(pytest.param(one, marks=pytest.mark.soak) for one in (forget_indexes, forget_tags, leave_old_versions)),
    ],
)
def test_the_model_finds_a_planted_bug(plant: Callable[[pytest.MonkeyPatch], None]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        plant(patch)

        with pytest.raises((AssertionError, OmnigraphError, OSError, ValueError)):
            run(examples=40, steps=30, model=Planted)
