"""Connections: a deadline for request headers, and a limit whose excess closes the connections that idle longest."""

import asyncio

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

# Connections that are accepted beyond the limit, so that a health check is answered while all others are busy.
_SPARE_CONNECTIONS = 64
_STATUS_LINE = b"HTTP/"
_LENGTH_HEADER = b"\r\ncontent-length:"


class ConnectionLimit:
    """The open connections of a server, and those of them that wait for a request. Used by one event loop."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.count = 0
        # In the order in which they began to wait; a dictionary, as sets have no order.
        self.idle: dict[LimitedProtocol, None] = {}

    @property
    def is_exceeded(self) -> bool:
        """Whether only health checks should be answered."""
        return self.count > self.limit

    @property
    def is_exhausted(self) -> bool:
        """Whether no connection should be accepted."""
        return self.count > self.limit + _SPARE_CONNECTIONS


class HeadHoldingTransport(asyncio.Transport):
    """A transport that writes the head of a response together with what follows it.

    Uvicorn writes them one by one. Each write is a system call and gives the interpreter away: a third of the time of
    a point read was spent in them. The head of a response without a length is not held: what follows may take a while.
    """

    def __init__(self, transport: asyncio.Transport) -> None:
        super().__init__()
        self._transport = transport
        self._held: bytes | None = None

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """Write data, after a head that is held; hold a head."""
        if self._held is not None:
            data = self._held + data
            self._held = None
        elif data[:5] == _STATUS_LINE and _LENGTH_HEADER in data:
            self._held = bytes(data)
            return
        self._transport.write(data)

    def flush(self) -> None:
        """Write what is held."""
        if self._held is not None:
            held, self._held = self._held, None
            self._transport.write(held)

    def close(self) -> None:
        """Close the connection once everything is written."""
        self.flush()
        self._transport.close()

    def abort(self) -> None:
        """Close the connection at once."""
        self._held = None
        self._transport.abort()

    def is_closing(self) -> bool:
        """Return whether the connection is closed or about to be."""
        return self._transport.is_closing()

    def pause_reading(self) -> None:
        """Receive nothing for now."""
        self._transport.pause_reading()

    def resume_reading(self) -> None:
        """Receive again."""
        self._transport.resume_reading()

    def get_extra_info(self, name: str, default: object = None) -> object:
        """Return a fact about the connection."""
        return self._transport.get_extra_info(name, default)


class LimitedProtocol(H11Protocol):
    """HTTP/1.1 with a deadline for the headers of a request, and a limit of connections.

    A connection beyond the limit takes the place of the one that has waited longest for a request, as clients that
    open connections and send nothing would otherwise shut out all others.

    Uvicorn has none: it waits indefinitely for a connection that is open or has sent the first byte of a request. The
    clock starts with the connection, or with the first byte after the previous request. Only complete headers stop it,
    so a client that trickles bytes gains no time.
    """

    seconds = 30.0
    connection_limit = ConnectionLimit(1_000)
    _deadline: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as Uvicorn has it
        """Start the clock of a new connection."""
        super().connection_made(transport)
        self.transport = HeadHoldingTransport(transport)
        limit = self.connection_limit
        limit.count += 1
        if limit.is_exceeded and limit.idle:
            next(iter(limit.idle)).transport.close()
        elif limit.is_exhausted:
            transport.abort()
            return
        limit.idle[self] = None
        self._await_headers()

    def data_received(self, data: bytes) -> None:
        """Handle received bytes; complete headers stop the clock."""
        super().data_received(data)
        # h11 leaves IDLE once it has parsed the headers.
        if self.conn.their_state is h11.IDLE and not self.transport.is_closing():
            self._await_headers()
        else:
            self.connection_limit.idle.pop(self, None)
            self._cancel_timeout()

    def on_response_complete(self) -> None:
        """Handle the end of a response: the connection waits for the next request."""
        super().on_response_complete()
        if not self.transport.is_closing() and self.conn.their_state is h11.IDLE:
            self.connection_limit.idle[self] = None

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop the clock of a connection that has ended."""
        self.connection_limit.count -= 1
        self.connection_limit.idle.pop(self, None)
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


def build_protocol(seconds: float, limit: ConnectionLimit) -> type[LimitedProtocol]:
    """Return the protocol class with this deadline and limit, as Uvicorn takes a class and passes no arguments."""
    return type("LimitedProtocol", (LimitedProtocol,), {"seconds": seconds, "connection_limit": limit})
