"""Run a write again from its start after losing to a concurrent writer."""

from collections.abc import Callable
from typing import TypeVar

from omnigraph.backoff import wait_for_retry
from omnigraph.commit.conflict import ConflictError
from omnigraph.runtime import Runtime

MAX_ATTEMPTS = 5

T = TypeVar("T")


def rerun_on_conflict(runtime: Runtime, attempt: Callable[[], T]) -> T:
    """Run `attempt` until it meets no conflict, at most `MAX_ATTEMPTS` times; the last conflict is raised.

    Each attempt reads everything again and makes its own plan: a plan is never published twice.
    """
    for number in range(1, MAX_ATTEMPTS):
        try:
            return attempt()
        except ConflictError:
            wait_for_retry(runtime, number)
    return attempt()
