"""Cursors of paged responses. They hold positions and grant nothing: each page is authorized like any request."""

import base64
import binascii
import hashlib
from typing import Annotated, TypeVar

import msgspec

from omnigraph.server.http_errors import BadRequestError
from omnigraph.struct_decoder import get_decoder

MAX_PAGE_ITEMS = 1_000
DEFAULT_PAGE_ITEMS = 100

T = TypeVar("T", bound=msgspec.Struct)


class NameCursor(msgspec.Struct, forbid_unknown_fields=True, tag="name"):
    """The position after a name."""

    after: str


class CommitCursor(msgspec.Struct, forbid_unknown_fields=True, tag="commit"):
    """The position after a commit in the history or change feed of a branch."""

    branch: str
    before: str


_Number = Annotated[int, msgspec.Meta(ge=0, le=2**62)]


class DiffCursor(msgspec.Struct, forbid_unknown_fields=True, tag="diff"):
    """A position in the differences between two commits, in some types or in all."""

    before: str
    after: str
    types: list[str] | None
    type_name: str
    chunk: _Number
    kind: _Number
    row: _Number
    skipped: _Number


# Shortened, as it protects against damage, not against forgery: a forged position grants nothing.
_CHECKSUM_BYTES = 6


def encode_cursor(position: msgspec.Struct) -> str:
    """Return a position as opaque text with a checksum, without characters that a URL would have to escape."""
    data = msgspec.json.encode(position)
    return base64.urlsafe_b64encode(_checksum(data) + data).decode().rstrip("=")


def _checksum(data: bytes) -> bytes:
    return hashlib.blake2b(data, digest_size=_CHECKSUM_BYTES, person=b"cursor").digest()


def decode_cursor(text: str, type_: type[T]) -> T:
    """Return the position that a cursor encodes.

    Raises:
        BadRequestError: It is not a cursor of this kind.
    """
    # A client may have changed the cursor, so it is decoded strictly. Base64 needs the padding back.
    try:
        data = base64.b64decode(text.encode() + b"=" * (-len(text) % 4), altchars=b"-_", validate=True)
        digest, data = data[:_CHECKSUM_BYTES], data[_CHECKSUM_BYTES:]
        if digest != _checksum(data):
            raise BadRequestError.bad_cursor()
        return get_decoder(type_).decode(data)
    except (binascii.Error, UnicodeError, ValueError, msgspec.MsgspecError, RecursionError):
        raise BadRequestError.bad_cursor() from None
