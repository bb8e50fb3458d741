"""Small JSON objects with a checksum: recovery must act on exactly the bytes that were written."""

import hashlib
import re
from typing import TypeVar

import msgspec

from omnigraph.struct_decoder import get_decoder

_CHECKSUM = re.compile(rb',?"checksum":"([0-9a-f]{16})"\}\Z')

S = TypeVar("S", bound=msgspec.Struct)


class ChecksumError(ValueError):
    """An object differs from what was written."""


def encode_with_checksum(record: msgspec.Struct) -> bytes:
    """Return a record as JSON, with a checksum of all other fields as its last field."""
    body = msgspec.json.encode(record)
    comma = b"," if body != b"{}" else b""
    return body[:-1] + comma + b'"checksum":"' + _compute_digest(body) + b'"}'


def decode_with_checksum(data: bytes, record: type[S]) -> S:
    """Return the record that was encoded. A record without a checksum, from an earlier release, is accepted unchecked.

    Raises:
        ValueError: It is not JSON, not such a record, or not what was written. msgspec's errors are ValueErrors too.
    """
    checksum = _CHECKSUM.search(data)
    body = data if checksum is None else data[: checksum.start()] + b"}"
    if checksum is not None and checksum[1] != _compute_digest(body):
        raise ChecksumError("it does not match its checksum")
    return get_decoder(record).decode(body)


def _compute_digest(body: bytes) -> bytes:
    return hashlib.blake2b(body, digest_size=8).hexdigest().encode()
