"""Cursors of paged responses. They hold positions and grant nothing: each page is authorized like any request."""

import base64
import binascii
from typing import Annotated, TypeVar

import msgspec

from omnigraph.server.http_errors import BadRequestError

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


class RowCursor(msgspec.Struct, forbid_unknown_fields=True, tag="rows"):
    """The position after a number of differences between two commits."""

    before: str
    after: str
    # A client can forge it: beyond this, no list of differences goes on.
    skipped: Annotated[int, msgspec.Meta(ge=0, le=2**31 - 1)]


def encode_cursor(position: msgspec.Struct) -> str:
    """Return a position as opaque text, without characters that a URL would have to escape."""
    return base64.urlsafe_b64encode(msgspec.json.encode(position)).decode().rstrip("=")


def decode_cursor(text: str, type_: type[T]) -> T:
    """Return the position that a cursor encodes.

    Raises:
        BadRequestError: It is not a cursor of this kind.
    """
    # A client may have changed the cursor, so it is decoded strictly. Base64 needs the padding back.
    try:
        data = base64.b64decode(text.encode() + b"=" * (-len(text) % 4), altchars=b"-_", validate=True)
        return msgspec.json.decode(data, type=type_, strict=True)
    except (binascii.Error, UnicodeError, ValueError, msgspec.MsgspecError, RecursionError):
        raise BadRequestError.bad_cursor() from None
