"""Cursors: where the next page goes on. They hold places, no rights: what they lead to is asked for like anything."""

import base64
import binascii
from typing import TypeVar

import msgspec

from omnigraph.server.http_errors import BadCursorError

MAX_PAGE_ITEMS = 1_000
DEFAULT_PAGE_ITEMS = 100

T = TypeVar("T", bound=msgspec.Struct)


class NameCursor(msgspec.Struct, forbid_unknown_fields=True, tag="name"):
    """Behind a name."""

    after: str


class CommitCursor(msgspec.Struct, forbid_unknown_fields=True, tag="commit"):
    """Behind a commit of a branch."""

    branch: str
    before: str


class RowCursor(msgspec.Struct, forbid_unknown_fields=True, tag="rows"):
    """Behind so many differences of two commits."""

    before: str
    after: str
    skipped: int


def encode_cursor(place: msgspec.Struct) -> str:
    """A cursor as it goes over the wire."""
    return base64.urlsafe_b64encode(msgspec.json.encode(place)).decode().rstrip("=")


def decode_cursor(text: str, type_: type[T]) -> T:
    """The place that a cursor of that kind leads to; BadCursorError for any other."""
    try:
        data = base64.b64decode(text.encode() + b"=" * (-len(text) % 4), altchars=b"-_", validate=True)
        return msgspec.json.decode(data, type=type_, strict=True)
    except (binascii.Error, UnicodeError, ValueError, msgspec.MsgspecError, RecursionError):
        raise BadCursorError from None
