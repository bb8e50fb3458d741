"""Decide which requests the client sends again, and wait before it does."""

from omnigraph.backoff import compute_wait
from omnigraph.clock import SystemClock
from omnigraph.errors import OmnigraphError
from omnigraph.ids import SystemIds

# The number of times that a request is sent again unless the caller chooses another.
MAX_RETRIES = 4
# Errors with which the server refuses a request before it does any part of it, or knows that nothing is left of it.
_REFUSALS = frozenset({"server_busy", "server_stopping", "too_many_requests", "write_lost"})
# Errors after which a read or a write with an idempotency key may succeed.
_PASSING = frozenset({"graph_unavailable", "store_unavailable"})
_FIRST_WAIT_SECONDS = 0.2
_MAX_WAIT_SECONDS = 5.0
# A server or proxy that asks for more is left to the caller, who may have something better to do.
_MAX_ASKED_SECONDS = 30.0

_CLOCK = SystemClock()
_IDS = SystemIds(_CLOCK)


class RetryPlan:
    """The attempts of one request. What can't be sent again safely is raised."""

    def __init__(self, retries: int, *, is_repeatable: bool, has_whole_body: bool) -> None:
        self._retries = retries
        self._is_repeatable = is_repeatable
        self._has_whole_body = has_whole_body
        self._attempts = 0

    def wait_after_response(self, error: OmnigraphError, retry_after: str | None) -> None:
        """Wait before the next attempt after an error response, at least as long as the server asks.

        Raises:
            OmnigraphError: The error, if the request must not be sent again.
        """
        is_safe = error.code in _REFUSALS or (self._is_repeatable and error.code in _PASSING)
        asked = float(retry_after) if retry_after is not None and retry_after.isdecimal() else 0.0
        if not is_safe or asked > _MAX_ASKED_SECONDS:
            raise error
        self._wait(error, asked)

    def wait_after_outage(self, error: OmnigraphError, *, is_sent: bool) -> None:
        """Wait before the next attempt after a server did not respond.

        Raises:
            OmnigraphError: The error, if the request must not be sent again.
        """
        # What was not sent had no effect. A server that is not there, though, is rarely back within seconds, and a
        # wrong address never; and one that was silent for the caller's time may be working still. Only a connection
        # that broke off is worth another attempt.
        if not is_sent or not self._is_repeatable or isinstance(error.__cause__, TimeoutError):
            raise error
        self._wait(error, 0.0)

    def _wait(self, error: OmnigraphError, least: float) -> None:
        if self._attempts >= self._retries or not self._has_whole_body:
            raise error
        # Beyond what the server asks, so that clients that were refused together do not return together.
        jitter = compute_wait(_IDS.jitter, self._attempts, first=_FIRST_WAIT_SECONDS, limit=_MAX_WAIT_SECONDS)
        self._attempts += 1
        _CLOCK.sleep(least + jitter)
