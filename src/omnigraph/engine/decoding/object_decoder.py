"""Decoding of JSON objects by generated structs, into one list of values per column.

The values are as JSON has them; `json_columns` checks them. A line that a struct does not accept, or that may have a
key twice, is decoded again by `json_lines`, which says what is wrong with it.
"""

from collections.abc import Callable, Iterable, Mapping
from operator import attrgetter
from typing import Any, TypeAlias, TypeVar

import msgspec
from msgspec import UNSET

Columns: TypeAlias = dict[str, list[object]]
"""The values of each column; `UNSET` is a value that a record omits, None an explicit null."""

Decoded = TypeVar("Decoded")

_FAULTS = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)


def decode_each(
    decode: Callable[..., Decoded], texts: Iterable[object], blank: Decoded
) -> tuple[list[Decoded], list[int]]:
    """Decode each text; return a blank where that fails, and the positions of these."""
    decoded: list[Decoded] = []
    failed: list[int] = []
    rest = iter(texts)
    while True:
        try:
            # `extend` keeps what came before an exception, so that `map` calls the decoder without a loop in Python.
            decoded.extend(map(decode, rest))
        except _FAULTS:
            failed.append(len(decoded))
            decoded.append(blank)
        else:
            return decoded, failed


class ObjectDecoder:
    """Decode objects whose keys are known; `targets` maps each key to the column that holds its value."""

    def __init__(self, targets: Mapping[str, str]) -> None:
        # A key may be any text, the name of a struct's field may not.
        names = [f"f{number}" for number in range(len(targets))]
        fields = [(name, Any, msgspec.field(name=key, default=UNSET)) for name, key in zip(names, targets, strict=True)]
        struct = msgspec.defstruct("Record", fields, forbid_unknown_fields=True, gc=False)
        self._blank = struct()
        self._decode = msgspec.json.Decoder(struct).decode
        self._getters = [(target, attrgetter(name)) for target, name in zip(targets.values(), names, strict=True)]

    def decode(self, texts: Iterable[object]) -> tuple[Columns, list[int]]:
        """Decode each text into the columns; return them, and the rows that could not be decoded, which are empty."""
        records, failed = decode_each(self._decode, texts, self._blank)
        columns: Columns = {}
        for target, getter in self._getters:
            values = list(map(getter, records))
            columns[target] = merge_columns(columns[target], values) if target in columns else values
        return columns, failed


def merge_columns(first: list[object], second: list[object]) -> list[object]:
    """Return the values of the first column, and where it has none those of the second."""
    return [other if value is UNSET else value for value, other in zip(first, second, strict=True)]
