"""A Blob behind a server, read in parts as it is asked for."""

import io
from collections.abc import Mapping
from contextlib import AbstractContextManager
from http.client import HTTPResponse
from typing import IO, cast

from omnigraph.server.client.requests import GraphCalls
from omnigraph.server.http.request_bodies import BYTES

_BUFFER_BYTES = 1024 * 1024


def open_blob(calls: GraphCalls, asked: Mapping[str, object]) -> IO[bytes] | None:
    """The value as a stream, of one state, whatever is written meanwhile; None for a null."""
    with _request_range(calls, asked, range(1)) as response:
        if response.status == 204:
            return None
        size = _read_size(response)
        pinned = {**asked, "snapshot": response.headers["Omnigraph-Commit"], "at": None}
        for _ in calls.transport.iter_chunks(response):
            pass  # one byte, so that the connection can be used again
    return cast("IO[bytes]", io.BufferedReader(_RemoteBlob(calls, pinned, size), _BUFFER_BYTES))


def _request_range(calls: GraphCalls, asked: Mapping[str, object], part: range) -> AbstractContextManager[HTTPResponse]:
    return calls.transport.stream("GET", calls.build_path("blob"), query=asked, accept=BYTES, byte_range=part)


def _read_size(response: HTTPResponse) -> int:
    if response.status == 206:
        return int(response.headers["Content-Range"].rpartition("/")[2])
    return int(response.headers["Content-Length"])


class _RemoteBlob(io.RawIOBase):
    """A value of one state; each read is a request for that part."""

    def __init__(self, calls: GraphCalls, asked: Mapping[str, object], size: int) -> None:
        super().__init__()
        self._calls, self._query, self._size, self._position = calls, asked, size, 0

    def readable(self) -> bool:
        """Always."""
        return True

    def seekable(self) -> bool:
        """Always."""
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """As of any file."""
        begin = {io.SEEK_SET: 0, io.SEEK_CUR: self._position, io.SEEK_END: self._size}[whence]
        self._position = max(begin + offset, 0)
        return self._position

    def tell(self) -> int:
        """As of any file."""
        return self._position

    def readinto(self, buffer: "io.WriteableBuffer") -> int:  # type: ignore[name-defined] # of the stubs only
        """As of any file."""
        room = memoryview(buffer).cast("B")
        part = range(self._position, min(self._position + len(room), self._size))
        if not part:
            return 0
        with _request_range(self._calls, self._query, part) as response:
            data = b"".join(self._calls.transport.iter_chunks(response))
        room[: len(data)] = data
        self._position += len(data)
        return len(data)
