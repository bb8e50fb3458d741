"""Compare lists in three-valued logic, and write them as texts that order and group them.

Elements may be null, lists or records, to any depth, so these functions walk the values of each row in Python.
"""

from collections.abc import Iterable
from datetime import UTC, date, datetime
from struct import pack, unpack
from typing import TypeAlias

import pyarrow as pa

Item: TypeAlias = "bool | int | float | str | date | datetime | list[Item] | dict[str, Item] | None"
# The marks of a key are smaller than all that a value is written with. The end of a list comes before any element,
# and a null, the largest value of Cypher, after all others.
_END, _VALUE, _NULL, _ESCAPE = "\x01", "\x02", "\x03", "\x04"
_ESCAPE_OFFSET = 0x10
_SIGN_BIT = 1 << 63
_ALL_BITS = (1 << 64) - 1
_HEX_DIGITS = 16
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def equal_lists(left: pa.Array, right: pa.Array) -> pa.Array:
    """Return whether two lists are equal: unknown if only a null stands in the way."""
    pairs = zip(left.to_pylist(), right.to_pylist(), strict=True)
    return pa.array([_is_equal(a, b) for a, b in pairs], pa.bool_())


def compare_lists(left: pa.Array, right: pa.Array) -> pa.Array:
    """Return -1, 0 or 1 for the order of two lists; null where a null or two types decide it."""
    pairs = zip(left.to_pylist(), right.to_pylist(), strict=True)
    return pa.array([_compare(a, b) for a, b in pairs], pa.int64())


def find_items(element: pa.Array, lists: pa.Array) -> pa.Array:
    """Return whether an element is in a list: unknown if no element equals it, but a null might."""
    pairs = zip(element.to_pylist(), lists.to_pylist(), strict=True)
    return pa.array([_is_item(item, items) for item, items in pairs], pa.bool_())


def write_list_keys(lists: pa.Array) -> pa.Array:
    """Return a text for each list or record: equal for equal ones, and for lists in their order."""
    return pa.array([None if items is None else _write_item(items) for items in lists.to_pylist()], pa.string())


def read_list_keys(keys: pa.Array, type_: pa.DataType) -> pa.Array:
    """Return the lists that keys were written from."""
    return pa.array([None if key is None else _read_list(key, 0, type_)[0] for key in keys.to_pylist()], type_)


def _is_equal(left: Item, right: Item) -> bool | None:
    if left is None or right is None:
        return None
    if isinstance(left, list) and isinstance(right, list):
        if len(left) != len(right):
            return False
        return _are_all(_is_equal(a, b) for a, b in zip(left, right, strict=True))
    if isinstance(left, dict) and isinstance(right, dict):
        if left.keys() != right.keys():
            return False
        return _are_all(_is_equal(value, right[key]) for key, value in left.items())
    return _kind(left) == _kind(right) and left == right


def _are_all(truths: Iterable[bool | None]) -> bool | None:
    """Return the conjunction of truth values."""
    result: bool | None = True
    for truth in truths:
        if truth is False:
            return False
        result = result and truth
    return result


def _kind(value: Item) -> object:
    """Return what values have to share to be equal; a bool is no number here, and a datetime no date."""
    return float if isinstance(value, int) and not isinstance(value, bool) else type(value)


def _compare(left: Item, right: Item) -> int | None:
    if left is None or right is None or _kind(left) is not _kind(right):
        return None
    if isinstance(left, list) and isinstance(right, list):
        for a, b in zip(left, right, strict=False):
            order = _compare(a, b)
            if order != 0:
                return order
        left, right = len(left), len(right)
    if isinstance(left, dict):
        return None
    return int(left > right) - int(left < right)  # type: ignore[operator]


def _is_item(item: Item, items: "list[Item] | None") -> bool | None:
    if items is None:
        return None
    result: bool | None = False
    for each in items:
        truth = _is_equal(item, each)
        if truth:
            return True
        result = None if truth is None else result
    return result


# --- keys --------------------------------------------------------------------------------------------


def _write_list(items: "list[Item]") -> str:
    return "".join(_NULL if item is None else _VALUE + _write_item(item) for item in items) + _END


def _write_item(item: Item) -> str:
    match item:
        case bool():
            return "1" if item else "0"
        case int():
            return f"{item + _SIGN_BIT:016x}"
        case float():
            return _write_float(item)
        case datetime():
            microseconds = (item.astimezone(UTC) - _EPOCH) // (datetime.resolution)
            return f"{microseconds + _SIGN_BIT:016x}"
        case date():
            return f"{item.toordinal():016x}"
        case list():
            return _write_list(item)
        case dict():
            return _write_list(list(item.values()))
        case _:
            return _write_text(str(item)) + _END


def _write_float(number: float) -> str:
    # A negative zero equals zero. The bits of negative numbers grow as the numbers fall.
    bits = unpack(">Q", pack(">d", number + 0.0))[0]
    ordered = bits ^ _ALL_BITS if bits & _SIGN_BIT else bits | _SIGN_BIT
    return f"{ordered:016x}"


def _write_text(text: str) -> str:
    if min(text, default="a") > _ESCAPE:
        return text
    return "".join(_ESCAPE + chr(ord(each) + _ESCAPE_OFFSET) if each <= _ESCAPE else each for each in text)


def _read_list(key: str, at: int, type_: pa.DataType) -> "tuple[list[Item], int]":
    items: list[Item] = []
    while key[at] != _END:
        if key[at] == _NULL:
            items.append(None)
            at += 1
            continue
        item, at = _read_item(key, at + 1, type_.value_type)
        items.append(item)
    return items, at + 1


def _read_item(key: str, at: int, type_: pa.DataType) -> tuple[Item, int]:
    if pa.types.is_boolean(type_):
        return key[at] == "1", at + 1
    if pa.types.is_list(type_):
        return _read_list(key, at, type_)
    if pa.types.is_struct(type_):
        return _read_record(key, at, type_)
    if pa.types.is_string(type_) or pa.types.is_large_string(type_):
        end = key.index(_END, at)
        return _read_text(key[at:end]), end + 1
    number = int(key[at : at + _HEX_DIGITS], 16)
    after = at + _HEX_DIGITS
    if pa.types.is_floating(type_):
        bits = number ^ _SIGN_BIT if number & _SIGN_BIT else number ^ _ALL_BITS
        return float(unpack(">d", pack(">Q", bits))[0]), after
    if pa.types.is_date(type_):
        return date.fromordinal(number), after
    if pa.types.is_timestamp(type_):
        return _EPOCH + (number - _SIGN_BIT) * datetime.resolution, after
    return number - _SIGN_BIT, after


def _read_record(key: str, at: int, type_: pa.DataType) -> tuple[Item, int]:
    record: dict[str, Item] = {}
    for field in type_:
        record[field.name] = None
        if key[at] == _NULL:
            at += 1
        else:
            record[field.name], at = _read_item(key, at + 1, field.type)
    return record, at + 1


def _read_text(text: str) -> str:
    if _ESCAPE not in text:
        return text
    parts = text.split(_ESCAPE)
    return parts[0] + "".join(chr(ord(part[0]) - _ESCAPE_OFFSET) + part[1:] for part in parts[1:])
