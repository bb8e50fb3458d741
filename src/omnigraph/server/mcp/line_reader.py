"""Messages of an agent as they come on stdin, a line each, none longer than a request may be."""

import os
from collections.abc import AsyncIterator
from typing import BinaryIO

import anyio.to_thread

from omnigraph.server.logs import FIELDS, log

OVERSIZED_LINE = "a line that was too long"
"""What comes in the place of such a line; it is answered like any other nonsense."""
_CHUNK_BYTES = 64 * 1024


class StdinLines:
    """The lines of a file, as text. Of one that is longer than it may be, no more than a piece is in memory.

    What ends a line does not count.
    """

    def __init__(self, file: BinaryIO, limit: int) -> None:
        self._file, self._limit = file, limit

    async def __aiter__(self) -> AsyncIterator[str]:
        while line := await anyio.to_thread.run_sync(self._read_line):
            yield line

    def _read_line(self) -> str:
        """The next line, or nothing at the end."""
        line = self._file.readline(self._limit + len(b"\r\n"))
        if len(line.removesuffix(b"\n").removesuffix(b"\r")) <= self._limit:
            return line.decode("utf-8", errors="replace")
        while line and not line.endswith(b"\n"):
            line = self._file.readline(_CHUNK_BYTES)
        log.warning("too long", extra={FIELDS: {"limit": self._limit}})
        return OVERSIZED_LINE


def take_stdin() -> BinaryIO:
    """This process's stdin, for whoever asks and nobody else: what is started from now on reads nothing there."""
    wire = os.dup(0)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    return os.fdopen(wire, "rb", closefd=False)  # a thread may wait for it until the process ends
