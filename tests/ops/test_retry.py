"""A write that lost is run again from its start, a few times."""

import pytest

from omnigraph.commit.conflict import ConflictError
from omnigraph.ops.retry import MAX_ATTEMPTS, rerun_on_conflict
from worlds import runtime


def losing(times: int) -> tuple[list[int], ConflictError]:
    return list(range(times)), ConflictError("node:A", "1", "2", "the table was changed")


@pytest.mark.parametrize("losses", [0, 1, MAX_ATTEMPTS - 1])
def test_a_conflict_that_passes_is_not_seen(losses: int) -> None:
    left, conflict = losing(losses)

    def attempt() -> str:
        if left:
            left.pop()
            raise conflict
        return "done"

    assert rerun_on_conflict(runtime(), attempt) == "done"


def test_a_conflict_that_stays_is_the_callers() -> None:
    tries: list[int] = []

    def attempt() -> str:
        tries.append(1)
        raise ConflictError("node:A", "1", "2", "the table was changed")

    with pytest.raises(ConflictError):
        rerun_on_conflict(runtime(), attempt)

    assert len(tries) == MAX_ATTEMPTS
