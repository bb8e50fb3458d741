"""Ids of many rows at once: new ones, and those derived from a key."""

from collections.abc import Sequence
from functools import reduce

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.ids import ULID_LENGTH, Ids
from omnigraph.schema.types import Scalar, ValueType
from omnigraph.schema.values import derive_id

_ESCAPED = r'[\x00-\x1f"\\]'
_SPACE, _QUOTE, _BACKSLASH = b' "\\'


def generate_ids(ids: Ids, count: int) -> pa.Array:
    """Generate `count` new ULIDs."""
    offsets = np.arange(count + 1, dtype=np.int32) * ULID_LENGTH
    return pa.Array.from_buffers(
        pa.utf8(), count, [None, pa.py_buffer(offsets), pa.py_buffer(ids.ulids(count))], null_count=0
    )


def derive_ids(types: Sequence[ValueType], columns: Sequence[pa.Array]) -> pa.Array:
    """Derive the id of every row from its key columns, which have no nulls; equal to `derive_id` of their texts."""
    texts = [format_keys(type_, column) for type_, column in zip(types, columns, strict=True)]
    if len(texts) == 1:
        return texts[0]
    parts: list[object] = ['["', texts[0]]
    for one in texts[1:]:
        parts += ['","', one]
    made = pc.binary_join_element_wise(*parts, '"]', "")
    escaped = [pc.match_substring_regex(one, _ESCAPED) for one in texts if _has_escapes(one)]
    if not escaped:
        return made
    chosen = reduce(pc.or_, escaped)
    rows = zip(*(one.filter(chosen).to_pylist() for one in texts), strict=True)
    return pc.replace_with_mask(made, chosen, pa.array([derive_id(row) for row in rows], pa.utf8()))


def format_keys(type_: ValueType, column: pa.Array) -> pa.Array:
    """Format every value of a key column; equal to `format_key`."""
    texts = column.cast(pa.utf8())
    if type_ is not Scalar.DATETIME:
        return texts  # Arrow's text of the others is ours
    spelled = pc.replace_substring(texts, " ", "T")
    return pc.replace_substring(spelled, ".000000Z", "Z")


def _has_escapes(texts: pa.Array) -> bool:
    """Return whether a text has a character that a JSON string must escape."""
    data = texts.buffers()[2]
    if data is None:
        return False
    offsets = np.frombuffer(texts.buffers()[1], np.int32)[[texts.offset, texts.offset + len(texts)]]
    values = np.frombuffer(data, np.uint8)[offsets[0] : offsets[1]]
    return bool(((values < _SPACE) | (values == _QUOTE) | (values == _BACKSLASH)).any())
