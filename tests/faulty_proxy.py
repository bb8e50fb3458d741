"""A proxy on loopback in front of an S3 server, which fails requests on a plan.

    with FaultyProxy(endpoint) as proxy:
        proxy.plan(Fault(Act.LOSE, "PUT", MANIFEST_PUT))     # it happens, and nobody is told
        ...
        assert proxy.count("PUT", MANIFEST_PUT) == 2         # every request that came in is on record

A fault hits the `nth` request that matches it, and `times - 1` more. Each request meets at most one fault: the first
of the plan that wants it.
"""

import contextlib
import http.client
import re
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from enum import Enum, auto
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Self
from urllib.parse import urlsplit

PATIENCE = 30.0
"""No wait in here is longer, in seconds."""
ALWAYS = 10**9

MANIFEST_PUT = r"/__manifest/_versions/\d+\.manifest"
"""The swap of main's manifest: the put of its next version."""
SIDECAR = r"/__recovery/\w+\.json"

_HOP = frozenset({"connection", "keep-alive", "transfer-encoding", "content-length", "date", "server"})


class Act(Enum):
    """What happens to a request."""

    REFUSE = auto()
    """Answered with `status`; the server never hears of it."""
    RESET = auto()
    """The connection is reset; the server never hears of it."""
    DELAY = auto()
    """Held for `seconds`, or until `release`, then forwarded, whether or not the client still waits."""
    LOSE = auto()
    """Forwarded; the answer is dropped and the connection reset."""
    MISTELL = auto()
    """Forwarded; answered with `status` instead."""
    TRUNCATE = auto()
    """Forwarded; the answer's body breaks off in the middle."""


@dataclass
class Fault:
    """One line of the plan. `then` is called after the request was forwarded, before the client hears of it."""

    act: Act
    method: str
    path: str
    nth: int = 1
    times: int = 1
    status: int = 503
    seconds: float = PATIENCE
    then: Callable[[], None] | None = None
    arrived: threading.Event = field(default_factory=threading.Event, init=False)
    release: threading.Event = field(default_factory=threading.Event, init=False)
    forwarded: threading.Event = field(default_factory=threading.Event, init=False)
    _seen: int = field(default=0, init=False)

    def matches(self, method: str, path: str) -> bool:
        """Whether it is this fault's turn; counts the request."""
        if method != self.method or not re.search(self.path, path):
            return False
        self._seen += 1
        return self.nth <= self._seen < self.nth + self.times


@dataclass(frozen=True)
class Seen:
    """A request that came in: when, what, and what the client was told (0: nothing)."""

    at: float
    method: str
    path: str
    status: int
    act: Act | None


@dataclass(frozen=True)
class _Answer:
    status: int
    headers: Sequence[tuple[str, str]]
    body: bytes
    length: str | None


class FaultyProxy:
    """The proxy; a context manager. Its `endpoint` takes the place of the server's."""

    def __init__(self, endpoint: str) -> None:
        parts = urlsplit(endpoint)
        self._upstream = (str(parts.hostname), int(parts.port or 80))
        self._lock = threading.Lock()
        self._faults: list[Fault] = []
        self._seen: list[Seen] = []
        self._server = _Server(self)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,), name="faulty-proxy")
        self.endpoint = f"http://127.0.0.1:{self._server.server_address[1]}"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.clear()
        self._server.shutdown()
        self._thread.join(PATIENCE)
        self._server.end_connections()
        self._server.server_close()

    def plan(self, *faults: Fault) -> None:
        """Forget what was seen and what was planned; from now on these faults."""
        self.clear()
        with self._lock:
            self._faults, self._seen = list(faults), []

    def clear(self) -> None:
        """No faults any more; what is held goes on."""
        with self._lock:
            faults, self._faults = self._faults, []
        for fault in faults:
            fault.release.set()

    def count(self, method: str, path: str = "") -> int:
        """How many such requests came in since the plan was made."""
        return len(self.seen(method, path))

    def seen(self, method: str = "", path: str = "") -> list[Seen]:
        """The requests that came in since the plan was made, in order."""
        with self._lock:
            return [one for one in self._seen if one.method.startswith(method) and re.search(path, one.path)]

    def fault_for(self, method: str, path: str) -> Fault | None:
        """The fault whose turn it is."""
        with self._lock:
            hit = [fault for fault in self._faults if fault.matches(method, path)]
            return hit[0] if hit else None

    def note(self, seen: Seen) -> None:
        """Put a request on record."""
        with self._lock:
            self._seen.append(seen)

    def forward(self, method: str, path: str, headers: dict[str, str], body: bytes) -> _Answer:
        """Ask the server itself, over a connection of its own."""
        connection = http.client.HTTPConnection(*self._upstream, timeout=PATIENCE)
        try:
            connection.request(method, path, body, headers)
            answer = connection.getresponse()
            kept = [(name, value) for name, value in answer.getheaders() if name.lower() not in _HOP]
            return _Answer(answer.status, kept, answer.read(), answer.getheader("Content-Length"))
        finally:
            connection.close()


class _Server(ThreadingHTTPServer):
    daemon_threads = False
    block_on_close = True
    request_queue_size = 64

    def __init__(self, proxy: FaultyProxy) -> None:
        self.proxy = proxy
        self._open: set[socket.socket] = set()
        self._guard = threading.Lock()
        super().__init__(("127.0.0.1", 0), _Handler)

    def handle_error(self, request: object, client_address: object) -> None:
        """A client that went away is what this proxy is for."""

    @contextlib.contextmanager
    def tracked(self, connection: socket.socket) -> Iterator[None]:
        with self._guard:
            self._open.add(connection)
        try:
            yield
        finally:
            with self._guard:
                self._open.discard(connection)

    def end_connections(self) -> None:
        with self._guard:
            for connection in self._open:
                with contextlib.suppress(OSError):
                    connection.shutdown(socket.SHUT_RDWR)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    timeout = PATIENCE
    server: _Server

    def handle(self) -> None:
        with self.server.tracked(self.connection), contextlib.suppress(OSError):
            super().handle()

    def log_message(self, format: str, *arguments: object) -> None:
        """Quiet."""

    def _serve(self) -> None:
        proxy, method, path = self.server.proxy, self.command, self.path
        at = time.monotonic()
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        fault = proxy.fault_for(method, path)
        if fault is None:
            answer = self._forward(body)
            proxy.note(Seen(at, method, path, answer.status, None))
            self._answer(answer)
            return
        fault.arrived.set()
        told = self._fail(fault, body)
        proxy.note(Seen(at, method, path, told.status if told else 0, fault.act))
        if told is None:
            self._reset()
        else:
            self._answer(told, is_cut=fault.act is Act.TRUNCATE)

    do_GET = do_PUT = do_POST = do_HEAD = do_DELETE = _serve  # noqa: N815 - the names the base class looks for

    def _fail(self, fault: Fault, body: bytes) -> _Answer | None:
        """What the client is told; None for nothing at all."""
        refusal = _Answer(fault.status, [("Content-Type", "application/xml")], _error_body(fault.status), None)
        if fault.act is Act.REFUSE:
            return refusal
        if fault.act is Act.RESET:
            return None
        if fault.act is Act.DELAY:
            fault.release.wait(min(fault.seconds, PATIENCE))
        answer = self._forward(body)
        if fault.then is not None:
            fault.then()
        fault.forwarded.set()
        match fault.act:
            case Act.LOSE:
                return None
            case Act.MISTELL:
                return refusal
        return answer

    def _forward(self, body: bytes) -> _Answer:
        headers = {name: value for name, value in self.headers.items() if name.lower() != "connection"}
        return self.server.proxy.forward(self.command, self.path, headers, body)

    def _answer(self, answer: _Answer, *, is_cut: bool = False) -> None:
        self.send_response(answer.status)
        for name, value in answer.headers:
            self.send_header(name, value)
        is_bare = self.command == "HEAD"
        self.send_header("Content-Length", (answer.length or "0") if is_bare else str(len(answer.body)))
        self.end_headers()
        if not is_bare:
            self.wfile.write(answer.body[: len(answer.body) // 2] if is_cut else answer.body)
        self.wfile.flush()
        if is_cut:
            self.close_connection = True

    def _reset(self) -> None:
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.close_connection = True


def _error_body(status: int) -> bytes:
    code = {403: "AccessDenied", 412: "PreconditionFailed", 500: "InternalError", 503: "SlowDown"}.get(status, "Error")
    return f'<?xml version="1.0"?><Error><Code>{code}</Code><Message>injected</Message></Error>'.encode()
