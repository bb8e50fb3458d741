"""A deadline for request headers: a connection that sends them too slowly, or sends nothing, is closed."""

import asyncio

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol


class HeaderTimeoutProtocol(H11Protocol):
    """HTTP/1.1 with a deadline for the headers of a request.

    Uvicorn has none: it waits indefinitely for a connection that is open or has sent the first byte of a request. The
    clock starts with the connection, or with the first byte after the previous request. Only complete headers stop it,
    so a client that trickles bytes gains no time.
    """

    seconds = 30.0
    _deadline: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as Uvicorn has it
        """Start the clock of a new connection."""
        super().connection_made(transport)
        self._await_headers()

    def data_received(self, data: bytes) -> None:
        """Handle received bytes; complete headers stop the clock."""
        super().data_received(data)
        # h11 leaves IDLE once it has parsed the headers.
        if self.conn.their_state is h11.IDLE and not self.transport.is_closing():
            self._await_headers()
        else:
            self._cancel_timeout()

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop the clock of a connection that has ended."""
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
    """Return the protocol class with this deadline; Uvicorn takes a class, and passes no arguments of ours to it."""
    return type("HeaderTimeoutProtocol", (HeaderTimeoutProtocol,), {"seconds": seconds})
