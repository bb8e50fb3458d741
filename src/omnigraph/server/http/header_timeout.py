"""Connections whose requests begin in time: one that sends its headers byte by byte, or nothing at all, is cut."""

import asyncio

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol


class HeaderTimeoutProtocol(H11Protocol):
    """HTTP/1.1 with a deadline for the headers of a request.

    Uvicorn itself has none: a connection that is open, or has sent the first byte of a request, would be waited for
    forever. The clock runs from the connection on, or from the first byte after the request before; what comes in
    between does not stop it.
    """

    seconds = 30.0
    _deadline: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as Uvicorn has it
        """Somebody is there."""
        super().connection_made(transport)
        self._await_headers()

    def data_received(self, data: bytes) -> None:
        """Something came: whole headers stop the clock."""
        super().data_received(data)
        if self.conn.their_state is h11.IDLE and not self.transport.is_closing():
            self._await_headers()
        else:
            self._cancel_timeout()

    def connection_lost(self, exc: Exception | None) -> None:
        """They are gone."""
        self._cancel_timeout()
        super().connection_lost(exc)

    def _await_headers(self) -> None:
        if self._deadline is None:
            self._deadline = self.loop.call_later(self.seconds, self._close_idle)

    def _cancel_timeout(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _close_idle(self) -> None:
        self._deadline = None
        if self.conn.their_state is h11.IDLE and not self.transport.is_closing():
            self.transport.close()


def build_protocol(seconds: float) -> type[HeaderTimeoutProtocol]:
    """The same, with so many seconds for the headers."""
    return type("PunctualProtocol", (HeaderTimeoutProtocol,), {"seconds": seconds})
