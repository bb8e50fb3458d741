"""Frames between workers: a request of a client that another worker answers, and the parts of its response."""

import asyncio
from enum import IntEnum
from struct import Struct
from typing import NamedTuple, TypeVar

import msgspec

from omnigraph.struct_decoder import get_decoder

T = TypeVar("T", bound=msgspec.Struct)

_HEAD = Struct("<BI")
_encode = msgspec.json.Encoder().encode
_Headers = list[tuple[str, str]]


class FrameKind(IntEnum):
    """What a frame contains."""

    REQUEST = 1
    BODY = 2
    """The whole body of a request, after its head."""
    ANSWER = 3
    CHUNK = 4
    """A part of the response's body."""
    END = 5
    """The response is complete. A connection that ends without it breaks the response."""


class RelayedRequest(msgspec.Struct, kw_only=True):
    """The head of a request that a worker passes on, with what its client sent; the token is checked again."""

    method: str
    path: str
    query: str
    headers: _Headers
    client: str | None
    request_id: str
    next_commit: str | None = None
    """The id that the commit of a mutation gets."""


class RelayedAnswer(msgspec.Struct, kw_only=True):
    """The head of the response."""

    status: int
    headers: _Headers


class RelayedEnd(msgspec.Struct, kw_only=True):
    """What the log of the worker that was asked says about the request."""

    query: str | None = None
    commit: str | None = None
    code: str | None = None


class RelayFrame(NamedTuple):
    """A frame as it was received."""

    kind: FrameKind
    data: bytes

    def decode(self, type_: type[T]) -> T:
        """Return its contents as a struct."""
        return get_decoder(type_).decode(self.data)


class Channel(NamedTuple):
    """A connection between two workers, which carries one request at a time."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter

    async def receive(self) -> RelayFrame:
        """Wait for the next frame.

        Raises:
            EOFError, OSError: The other end is gone.
        """
        kind, size = _HEAD.unpack(await self.reader.readexactly(_HEAD.size))
        return RelayFrame(FrameKind(kind), await self.reader.readexactly(size))

    def close(self) -> None:
        """Close the connection, which cancels a request in progress."""
        self.writer.close()


def encode_frame(kind: FrameKind, data: bytes | msgspec.Struct) -> bytes:
    """Return a frame as it is sent."""
    content = _encode(data) if isinstance(data, msgspec.Struct) else data
    return _HEAD.pack(kind, len(content)) + content
