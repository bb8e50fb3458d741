"""The rows of a query on a server, read as they arrive."""

import io
import json
from collections.abc import Iterator
from contextlib import ExitStack
from http.client import HTTPResponse
from typing import Self

import pyarrow as pa
import pyarrow.ipc as pa_ipc

from omnigraph.engine.result import Result
from omnigraph.engine.result_forms import Target
from omnigraph.server.client.http_transport import Transport

# Arrow asks for a few bytes at a time; each read of a response would lock and copy.
_BUFFER_BYTES = 256 * 1024


class QueryStream:
    """The rows of one state, in batches that are read from the server as they are consumed, and not kept.

    Iterate over it once, in a `with` block; leaving the block early cancels the query on the server. While a consumer
    works, the server waits for at most its limit `send_seconds` for each chunk.
    """

    def __init__(self, stack: ExitStack, transport: Transport, response: HTTPResponse) -> None:
        headers = response.headers
        self._content = io.BufferedReader(_ResponseFile(transport, response), _BUFFER_BYTES)
        self._reader = pa_ipc.open_stream(self._content)
        self.schema: pa.Schema = self._reader.schema
        """The columns, as Arrow's fields."""
        self.row_count = int(headers["Omnigraph-Rows"])
        """The number of rows, known before the first is read."""
        self.commit_id = headers["Omnigraph-Commit"]
        """The commit whose state is read."""
        self.target = Target(headers.get("Omnigraph-Branch", "main"), headers.get("Omnigraph-Snapshot"))
        self.query_name = headers["Omnigraph-Query"]
        self.notes: tuple[str, ...] = tuple(json.loads(headers.get("Omnigraph-Notes", "[]")))
        """What to know about the rows: a traversal that its upper bound cut off. Usually empty."""
        total = headers.get("Omnigraph-Total-Rows")
        self.total_rows = None if total is None else int(total)
        """The number of all rows, if these are a window of them."""
        # Only now: if something of it is missing, the caller closes the response.
        self._stack = stack.pop_all()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"QueryStream({self.query_name!r}, {self.row_count} rows, columns {', '.join(self.columns)})"

    @property
    def columns(self) -> tuple[str, ...]:
        """The names of the columns, in order."""
        return tuple(self.schema.names)

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        """Yield the batches.

        Raises:
            ServerUnreachableError: The response broke off. All rows were read only if the iteration ends without error.
        """
        with self._stack:
            yield from self._reader
            # After the last batch comes the end of the response, without which it is not complete.
            self._content.read()

    def read_all(self) -> Result:
        """Read all rows that are left into memory."""
        return Result.of_table(
            pa.Table.from_batches(self, self.schema),
            commit_id=self.commit_id,
            target=self.target,
            query_name=self.query_name,
            notes=self.notes,
            total_rows=self.total_rows,
        )

    def close(self) -> None:
        """Close the response. The server stops computing rows that were not read."""
        self._stack.close()


class _ResponseFile(io.RawIOBase):
    """The content of a response as a file, whose errors are those of the client."""

    def __init__(self, transport: Transport, response: HTTPResponse) -> None:
        super().__init__()
        self._transport, self._response = transport, response

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]  # what BufferedReader passes
        data = self._transport.read(self._response, len(buffer))
        buffer[: len(data)] = data
        return len(data)
