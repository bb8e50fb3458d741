"""A Blob behind a server, read in parts as it is asked for."""

import io
from collections.abc import Mapping
from contextlib import AbstractContextManager
from http.client import HTTPResponse
from typing import IO, cast

from omnigraph.server.client.requests import GraphCalls
from omnigraph.server.http.request_bodies import BYTES

_PART_BYTES = 1024 * 1024


def open_blob(calls: GraphCalls, asked: Mapping[str, object]) -> IO[bytes] | None:
    """The value as a stream, of one state, whatever is written meanwhile; None for a null."""
    with _part(calls, asked, range(1)) as response:
        if response.status == 204:
            return None
        size = _size(response)
        pinned = {**asked, "snapshot": response.headers["Omnigraph-Commit"], "at": None}
        for _ in calls.transport.pieces(response):
            pass  # one byte, so that the connection can be used again
    return cast("IO[bytes]", io.BufferedReader(_RemoteBlob(calls, pinned, size), _PART_BYTES))


def _part(calls: GraphCalls, asked: Mapping[str, object], part: range) -> AbstractContextManager[HTTPResponse]:
    return calls.transport.stream("GET", calls.path("blob"), query=asked, accept=BYTES, part=part)


def _size(response: HTTPResponse) -> int:
    if response.status == 206:
        return int(response.headers["Content-Range"].rpartition("/")[2])
    return int(response.headers["Content-Length"])


class _RemoteBlob(io.RawIOBase):
    """A value of one state; each read is a request for that part."""

    def __init__(self, calls: GraphCalls, asked: Mapping[str, object], size: int) -> None:
        super().__init__()
        self._calls, self._asked, self._size, self._place = calls, asked, size, 0

    def readable(self) -> bool:
        """Always."""
        return True

    def seekable(self) -> bool:
        """Always."""
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """As of any file."""
        begin = {io.SEEK_SET: 0, io.SEEK_CUR: self._place, io.SEEK_END: self._size}[whence]
        self._place = max(begin + offset, 0)
        return self._place

    def tell(self) -> int:
        """As of any file."""
        return self._place

    def readinto(self, buffer: "io.WriteableBuffer") -> int:  # type: ignore[name-defined] # of the stubs only
        """As of any file."""
        room = memoryview(buffer).cast("B")
        part = range(self._place, min(self._place + len(room), self._size))
        if not part:
            return 0
        with _part(self._calls, self._asked, part) as response:
            data = b"".join(self._calls.transport.pieces(response))
        room[: len(data)] = data
        self._place += len(data)
        return len(data)
