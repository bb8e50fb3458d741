"""Get decoders of structs, each built by one thread.

msgspec describes a struct when it is decoded for the first time, and stores that description on the class before it is
complete. A thread that decodes the same struct, or one that contains it, in that moment reads a null pointer, and the
process ends with a segmentation fault (seen with msgspec 0.22, with the GIL). So no struct is decoded by
`msgspec.json.decode` or `msgspec.convert` unless its decoder was built here, or when its module was imported.
"""

import threading
from typing import Any, TypeVar

import msgspec

T = TypeVar("T")

_lock = threading.Lock()
_decoders: dict[Any, msgspec.json.Decoder[Any]] = {}


def get_decoder(type_: type[T]) -> msgspec.json.Decoder[T]:
    """Return the decoder of a type from JSON."""
    decoder = _decoders.get(type_)
    if decoder is None:
        # One lock for all types, because a struct is also described as a part of others.
        with _lock:
            decoder = _decoders.get(type_)
            if decoder is None:
                decoder = _decoders[type_] = msgspec.json.Decoder(type_)
    return decoder


def convert(value: object, type_: type[T], *, is_strict: bool = True) -> T:
    """Return decoded JSON, or a mapping of Python values, as a value of a type; see `msgspec.convert`."""
    get_decoder(type_)
    return msgspec.convert(value, type_, strict=is_strict)
