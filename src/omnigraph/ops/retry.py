"""Running a write again from its start when somebody else was faster."""

from collections.abc import Callable
from typing import TypeVar

from omnigraph.commit.conflict import ConflictError
from omnigraph.runtime import Runtime

MAX_ATTEMPTS = 5

T = TypeVar("T")


def rerun_on_conflict(runtime: Runtime, attempt: Callable[[], T]) -> T:
    """What `attempt` gives, once it meets no conflict; after some tries the conflict is the caller's.

    An attempt reads everything anew and makes a plan of its own: a plan is never sent twice.
    """
    for number in range(1, MAX_ATTEMPTS):
        try:
            return attempt()
        except ConflictError:
            runtime.clock.sleep(runtime.ids.jitter(runtime.options.backoff_seconds * 2**number))
    return attempt()
