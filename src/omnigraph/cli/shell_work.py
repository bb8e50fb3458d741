"""Run the work of a shell in a thread, so that Ctrl-C ends it and the session goes on."""

import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from omnigraph.engine.query_budget import Budget

T = TypeVar("T")
# The main thread wakes this often: Python runs its signal handlers only then.
_POLL_SECONDS = 0.05
# Work that does not notice its cancellation for so long goes on alone, and what it returns is thrown away.
_PATIENCE_SECONDS = 0.3


class CancelledWorkError(Exception):
    """The user ended the work by Ctrl-C. Never leaves the shell."""


class _Work(Generic[T]):
    """One call in a thread."""

    def __init__(self, call: Callable[[], T]) -> None:
        self._call = call
        self.result: list[T] = []
        self.error: BaseException | None = None
        self.thread = threading.Thread(target=self._run, daemon=True)

    def _run(self) -> None:
        try:
            self.result.append(self._call())
        except BaseException as error:  # noqa: BLE001 - raised again in the thread that waits
            self.error = error

    def wait(self) -> T:
        while self.thread.is_alive():
            self.thread.join(_POLL_SECONDS)
        if self.error is not None:
            raise self.error
        return self.result[0]


def run_cancellable(call: Callable[[], T], budget: "Budget | None", on_cancel: Callable[[], None]) -> T:
    """Run a call in a thread and return its result.

    On Ctrl-C the budget is cancelled, and `on_cancel` is called where there is none.

    Raises:
        CancelledWorkError: The user ended it. A write may have been published at that moment.
    """
    work = _Work(call)
    work.thread.start()
    try:
        return work.wait()
    except KeyboardInterrupt:
        if budget is not None:
            budget.cancel()
        else:
            on_cancel()
        work.thread.join(_PATIENCE_SECONDS)
        raise CancelledWorkError from None
