"""Strict JSON lines, in bounded memory."""

import json
import math
import re
from collections.abc import Iterable
from typing import BinaryIO

import msgspec

from omnigraph.schema.values import format_value

CHUNK_BYTES = 1 << 20
BYTE_ORDER_MARK = b"\xef\xbb\xbf"

_decode = msgspec.json.Decoder().decode
_KEY_ENDS = re.compile(rb'"[ \t\r]*:')


class BadJsonError(Exception):
    """A line is not strict JSON; the text is the reason, and `number` the invalid number if that is it."""

    def __init__(self, reason: str, number: str | None = None) -> None:
        super().__init__(reason)
        self.number = number


def iter_chunks(source: BinaryIO | Iterable[bytes]) -> Iterable[bytes]:
    """Yield the bytes of a binary file, or of an iterable of chunks."""
    read = getattr(source, "read", None)
    if read is None:
        return source
    return iter(lambda: read(CHUNK_BYTES), b"")


def is_skipped(line: bytes) -> bool:
    """Return whether a line is blank or a comment."""
    if line.startswith(b"{"):
        return False
    text = line.strip()
    return not text or text.startswith(b"//")


def decode_object(line: bytes, inner: str | None = None) -> dict[str, object]:
    """Decode the object of one line. `inner` names the field whose object is expected to have most keys.

    Every key is unique, every number is finite, and nothing follows the object.

    Raises:
        BadJsonError: The line is not such an object.
    """
    try:
        value = _decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        value = _decode_slowly(line)  # finds the words for it; a lone surrogate gets through, for the value's own check
    else:
        if type(value) is dict:
            # Each key of the text has a colon. As many colons as keys prove that no key was there twice.
            content = value.get(inner)
            keys = len(value) + (len(content) if type(content) is dict else 0)
            if line.count(b":") != keys and len(_KEY_ENDS.findall(line)) != keys:
                value = _decode_slowly(line)
    if type(value) is not dict:
        raise BadJsonError(f"expected an object, got {format_value(value)}")
    return value


def _decode_slowly(line: bytes) -> object:
    try:
        text = line.decode()
    except UnicodeDecodeError as error:
        reason = f"the line is not UTF-8: byte 0x{line[error.start]:02x} at offset {error.start}; save it as UTF-8"
        raise BadJsonError(reason) from None
    try:
        return _strict.decode(text)
    except json.JSONDecodeError as error:
        if not text[error.pos :].strip() or error.msg.startswith("Unterminated"):
            raise BadJsonError("the JSON ends before it is complete") from None
        what = error.msg.removesuffix(" at")
        raise BadJsonError(f"the line is not JSON: {what} at character {error.pos + 1}") from None
    except RecursionError:
        raise BadJsonError("the JSON is nested too deeply") from None


def _build_object(pairs: list[tuple[str, object]]) -> dict[str, object]:
    value = dict(pairs)
    if len(value) != len(pairs):
        seen: set[str] = set()
        for key, _ in pairs:
            if key in seen:
                raise BadJsonError(f"the key {format_value(key)} is there twice")
            seen.add(key)
    return value


def _reject_constant(text: str) -> object:
    raise BadJsonError(f"{text} is not a JSON number", text)


def _parse_float(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise BadJsonError(f"the number {_clip(text)} is too large for any type", _clip(text))
    return value


def _parse_int(text: str) -> int:
    if len(text) > 400:
        raise BadJsonError(f"the number {_clip(text)} is too large for any type", _clip(text))
    return int(text)


def find_bad_number(line: bytes, inner: str | None = None) -> tuple[dict[str, object], str | None]:
    """Find the invalid number of a line that has no other fault: return its object and the key of the number.

    `inner` as for `decode_object`: the key is searched there.
    """
    record: dict[str, object] = _lenient.decode(line.decode())
    values = record if inner is None else record.get(inner)
    for key, value in values.items() if isinstance(values, dict) else ():
        if value is _BAD_NUMBER or (isinstance(value, list) and any(item is _BAD_NUMBER for item in value)):
            return record, key
    return record, None


def _clip(text: str) -> str:
    return text if len(text) <= 40 else f"{text[:39]}… ({len(text)} characters)"


_strict = json.JSONDecoder(
    object_pairs_hook=_build_object, parse_constant=_reject_constant, parse_float=_parse_float, parse_int=_parse_int
)

_BAD_NUMBER = object()
"""A placeholder for an invalid number."""


def _parse_float_or_bad(text: str) -> object:
    return float(text) if math.isfinite(float(text)) else _BAD_NUMBER


_lenient = json.JSONDecoder(
    object_pairs_hook=_build_object,
    parse_constant=lambda _: _BAD_NUMBER,
    parse_float=_parse_float_or_bad,
    parse_int=lambda text: _BAD_NUMBER if len(text) > 400 else int(text),
)
