"""A model of S3 behind HTTP: conditional puts, ranges, listings in small pages, and faults by request.

It keeps objects in memory and trusts every signature; the access key names the process that asks. A fault is planned
for the n-th writing request of a process: refused before it, its response lost after it, or its effect delayed.
"""

import hashlib
import re
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from email.utils import format_datetime
from enum import Enum
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, unquote, urlsplit
from xml.sax.saxutils import escape

BUCKET = "schedules"
PAGE = 7
"""Keys in one page of a listing: few, so that most listings have several."""
_ACCESS_KEY = re.compile(r"Credential=([^/]+)/")
_DELETED_KEY = re.compile(r"<Key>(.*?)</Key>", re.DOTALL)


class HttpFault(Enum):
    """What happens to a request."""

    THROTTLE = "is told to slow down at"
    LOST_RESPONSE = "gets no response after"
    LATE = "gives up, and later happens:"


@dataclass(frozen=True, slots=True)
class PlannedHttpFault:
    """A fault at the n-th writing request of a process."""

    process: str
    number: int
    fault: HttpFault


@dataclass(frozen=True, slots=True)
class S3Object:
    """A stored object."""

    data: bytes
    etag: str
    modified: datetime


@dataclass
class S3State:
    """What the server has, and what it does to requests."""

    now: Callable[[], datetime]
    objects: dict[str, S3Object] = field(default_factory=dict)
    faults: tuple[PlannedHttpFault, ...] = ()
    writes: dict[str, int] = field(default_factory=dict)
    late: list[Callable[[], object]] = field(default_factory=list)
    """Effects of requests whose clients have given up."""
    injected: list[str] = field(default_factory=list)

    def take_fault(self, process: str, label: str) -> HttpFault | None:
        """Count a writing request, and return what happens to it."""
        number = self.writes[process] = self.writes.get(process, 0) + 1
        for planned in self.faults:
            if (planned.process, planned.number) == (process, number):
                self.injected.append(f"{process} {planned.fault.value} {label}")
                return planned.fault
        return None

    def put(self, key: str, data: bytes, if_none_match: str | None, if_match: str | None) -> tuple[int, str]:
        """Write an object under its conditions; return the status and the etag."""
        current = self.objects.get(key)
        if (if_none_match is not None and current is not None) or (
            if_match is not None and (current is None or current.etag != if_match)
        ):
            return 412, ""
        etag = f'"{hashlib.md5(data, usedforsecurity=False).hexdigest()}"'
        self.objects[key] = S3Object(data, etag, self.now())
        return 200, etag

    def let_late_happen(self) -> None:
        """Let the effects that are on their way happen."""
        while self.late:
            self.late.pop(0)()


class _Handler(BaseHTTPRequestHandler):
    """One request."""

    protocol_version = "HTTP/1.1"
    # A head and its body in one packet, at once: with two, each answer waited 40 ms for an acknowledgement.
    wbufsize = 65_536
    disable_nagle_algorithm = True
    server: "_Server"

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""

    def do_GET(self) -> None:
        """Read an object, or list keys."""
        key, query = self._parse()
        with self.server.lock:
            if not key:
                self._list(query)
                return
            found = self.server.state.objects.get(key)
        if found is None:
            self._answer(404, b"<Error><Code>NoSuchKey</Code></Error>")
            return
        expected = self.headers.get("If-Match")
        if expected is not None and expected != found.etag:
            self._answer(412)
            return
        data, status, headers = found.data, 200, _describe(found)
        match = re.fullmatch(r"bytes=(\d*)-(\d*)", self.headers.get("Range") or "")
        if match is not None:
            size = len(data)
            start = int(match[1]) if match[1] else max(size - int(match[2]), 0)
            end = min(int(match[2]) + 1, size) if match[1] and match[2] else size
            if start >= size:
                self._answer(416)
                return
            data, status = data[start:end], 206
            headers["Content-Range"] = f"bytes {start}-{end - 1}/{size}"
        self._answer(status, data, headers)

    def do_HEAD(self) -> None:
        """Look an object up."""
        key, _ = self._parse()
        found = self.server.state.objects.get(key)
        if found is None:
            self._answer(404)
            return
        self.send_response(200)
        for name, value in _describe(found).items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(found.data)))
        self.end_headers()

    def do_PUT(self) -> None:
        """Write an object."""
        key, _ = self._parse()
        data = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        conditions = self.headers.get("If-None-Match"), self.headers.get("If-Match")
        state = self.server.state
        results: list[tuple[int, str]] = []
        if self._act("put", key, lambda: results.append(state.put(key, data, *conditions))):
            status, etag = results[0]
            self._answer(status, headers={"ETag": etag} if etag else {})

    def do_DELETE(self) -> None:
        """Remove an object."""
        key, _ = self._parse()
        if self._act("delete", key, lambda: self.server.state.objects.pop(key, None)):
            self._answer(204)

    def do_POST(self) -> None:
        """Remove several objects."""
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0)).decode()
        keys = [unquote(key) for key in _DELETED_KEY.findall(body)]

        def act() -> None:
            for key in keys:
                self.server.state.objects.pop(key, None)

        if self._act("delete", "several", act):
            deleted = "".join(f"<Deleted><Key>{escape(key)}</Key></Deleted>" for key in keys)
            self._answer(200, f"<DeleteResult>{deleted}</DeleteResult>".encode())

    def _act(self, label: str, key: str, act: Callable[[], object]) -> bool:
        """Do something under the server's lock, unless a fault is planned; return whether to answer."""
        match = _ACCESS_KEY.search(self.headers.get("Authorization") or "")
        with self.server.lock:
            fault = self.server.state.take_fault(match[1] if match else "", f"{label} {key}")
            if fault is HttpFault.THROTTLE:
                self._answer(503, b"<Error><Code>SlowDown</Code></Error>")
                return False
            if fault is HttpFault.LATE:
                self.server.state.late.append(act)
            else:
                act()
        if fault is not None:
            self.close_connection = True
            self.connection.close()
        return fault is None

    def _parse(self) -> tuple[str, dict[str, str]]:
        parts = urlsplit(self.path)
        key = unquote(parts.path).removeprefix(f"/{BUCKET}").removeprefix("/")
        return key, {name: values[0] for name, values in parse_qs(parts.query, keep_blank_values=True).items()}

    def _list(self, query: dict[str, str]) -> None:
        prefix, delimiter = query.get("prefix", ""), query.get("delimiter", "")
        after = query.get("continuation-token") or query.get("start-after") or ""
        entries: list[str] = []
        last, is_cut = "", False
        seen: set[str] = set()
        for key in sorted(self.server.state.objects):
            if not key.startswith(prefix) or key <= after or (last and last.endswith("/") and key.startswith(last)):
                continue
            if after.endswith("/") and key.startswith(after):
                continue
            if len(entries) >= PAGE:
                is_cut = True
                break
            rest = key[len(prefix) :]
            if delimiter and delimiter in rest:
                last = prefix + rest.partition(delimiter)[0] + delimiter
                if last not in seen:
                    seen.add(last)
                    entries.append(f"<CommonPrefixes><Prefix>{escape(last)}</Prefix></CommonPrefixes>")
            else:
                last = key
                found = self.server.state.objects[key]
                entries.append(
                    f"<Contents><Key>{escape(key)}</Key><LastModified>{found.modified:%Y-%m-%dT%H:%M:%S.%f}Z"
                    f"</LastModified><ETag>{escape(found.etag)}</ETag><Size>{len(found.data)}</Size></Contents>"
                )
        token = f"<NextContinuationToken>{escape(last)}</NextContinuationToken>" if is_cut else ""
        text = (
            f"<ListBucketResult><Name>{BUCKET}</Name><KeyCount>{len(entries)}</KeyCount>"
            f"<IsTruncated>{'true' if is_cut else 'false'}</IsTruncated>{token}{''.join(entries)}</ListBucketResult>"
        )
        self._answer(200, text.encode(), {"Content-Type": "application/xml"})

    def _answer(self, status: int, data: bytes = b"", headers: dict[str, str] | None = None) -> None:
        self.send_response(status)
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        if data:
            self.wfile.write(data)


def _describe(found: S3Object) -> dict[str, str]:
    return {"ETag": found.etag, "Last-Modified": format_datetime(found.modified, usegmt=True)}


class _Server(ThreadingHTTPServer):
    """A server whose state is replaced with each run."""

    daemon_threads = True
    state: S3State

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.lock = threading.RLock()

    def handle_error(self, request: object, client_address: object) -> None:
        """Say nothing of connections that were cut."""


@contextmanager
def serving_s3(state: S3State) -> Iterator["_Server"]:
    """Serve a state on loopback."""
    server = _Server()
    server.state = state
    thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def build_options(server: "_Server", process: str) -> dict[str, str]:
    """Return the storage options with which a process reaches the server."""
    host, port = server.server_address[:2]
    return {
        "aws_access_key_id": process,
        "aws_secret_access_key": "secret",
        "aws_region": "us-east-1",
        "aws_endpoint": f"http://{host!s}:{port}",
        "allow_http": "true",
        "client_max_retries": "2",
    }
