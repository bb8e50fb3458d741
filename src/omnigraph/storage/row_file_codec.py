"""Encode data files of one row, the most frequent ones of small writes, without Lance's writer.

Lance writes such a file in 0.4 ms, with several switches of threads, which cost a group of writers more than all the
rest of a write. The file of one row is simple: each value is a page of its own, a constant, which is part of the page's
description, or for a text its only buffer. The first file of each form that a process needs is written by Lance and
compared, byte by byte, with what this module makes of the same row. So whatever this module does not encode exactly as
Lance does, it leaves to Lance: other types, and formats of another release.
"""

import struct
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final

import pyarrow as pa

from omnigraph.storage.protobuf import encode_bytes, encode_integer

# A fragment in the JSON form of Lance.
FragmentJson = dict[str, Any]

# Buffers start at multiples of 64 bytes; between them are these bytes.
_ALIGNMENT: Final = 64
_PADDING: Final = b"H"
# Two numbers for each column, and for each global buffer: its position and its size.
_PLACE: Final = struct.Struct("<2Q")
# The positions of the first column's description and of the two tables, the numbers of global buffers and of columns,
# the version of the format, and a mark.
_FOOTER: Final = struct.Struct("<3Q2I2H4s")
_MARK: Final = b"LANC"
# The buffer of a text: the sizes of the two buffers in it, the start and the end of the text.
_TEXT: Final = struct.Struct("<5I")
_TEXT_SIZES: Final = (2, 8)
# What Lance calls a definition level: the value is there, or it is null.
_VALID: Final = b"\x01"
_NULL: Final = b"\x03"

# The kinds of columns: a text, a bool, which takes a byte, and others by the bytes of a value as it is in memory.
_TEXT_KIND: Final = -1
_BOOL_KIND: Final = 0
_INSTANT: Final = pa.timestamp("us", "UTC")
_PLAIN_TYPES: Final = frozenset(
    {pa.int32(), pa.int64(), pa.uint32(), pa.uint64(), pa.float32(), pa.float64(), pa.date32(), _INSTANT}
)

# A column, and whether its value is null.
_Form = tuple[int, bool]


class OtherFormatError(ValueError):
    """A row has a type that this module does not encode, or Lance wrote its file in another way."""


@dataclass(frozen=True, slots=True)
class RowFileLayout:
    """What the files of one row of a table have in common, taken from one that Lance has written."""

    fragment: FragmentJson
    """The fragment of such a file, in the JSON form of Lance."""
    schema: bytes = field(repr=False)
    """The description of all columns, which each file contains."""
    version: tuple[int, int]
    """Of the format."""
    kinds: tuple[int, ...]
    """Of the columns, in the order of the file."""
    forms: frozenset[_Form] = frozenset()
    """The forms of values in which Lance and this module are known to agree."""

    def is_known(self, row: pa.RecordBatch) -> bool:
        """Return whether all values of a row have forms that were compared."""
        return self.forms.issuperset(_list_forms(row))

    def encode(self, row: pa.RecordBatch) -> bytes:
        """Return the file of a row, whose columns are in the order of the file."""
        buffers: list[bytes] = []
        columns: list[bytes] = []
        end = 0
        for column, kind in zip(row.columns, self.kinds, strict=True):
            text, page = _encode_value(column, kind, end)
            if text is not None:
                padding = -len(text) % _ALIGNMENT
                buffers += (text, _PADDING * padding)
                end += len(text) + padding
            columns.append(_COLUMN_ENCODING + encode_bytes(2, page)[1])
        first = position = end + len(self.schema)
        places = b""
        for data in columns:
            places += _PLACE.pack(position, len(data))
            position += len(data)
        footer = _FOOTER.pack(first, position, position + len(places), 1, len(columns), *self.version, _MARK)
        return b"".join((*buffers, self.schema, *columns, places, _PLACE.pack(end, len(self.schema)), footer))

    def describe(self, name: str, size: int) -> FragmentJson:
        """Return the fragment of a file of one row."""
        (file,) = self.fragment["files"]
        return {**self.fragment, "files": [{**file, "path": name, "file_size_bytes": size}]}


def learn_layout(
    fragment: FragmentJson, data: bytes, row: pa.RecordBatch, known: RowFileLayout | None
) -> RowFileLayout:
    """Return the layout of a file of one row that Lance has written, with the forms of `known`.

    Raises:
        OtherFormatError: It has a type that this module does not encode, or would have been encoded in other bytes.
    """
    try:
        first, _, tables, buffers, columns, major, minor, mark = _FOOTER.unpack_from(data, len(data) - _FOOTER.size)
        start, size = _PLACE.unpack_from(data, tables)
    except struct.error as error:
        raise OtherFormatError(str(error)) from error
    is_expected = mark == _MARK and buffers == 1 and columns == row.num_columns and start + size == first
    if not is_expected or len(fragment["files"]) != 1:
        raise OtherFormatError("Lance wrote a file with other parts")
    kinds = tuple(_find_kind(column.type) for column in row.columns)
    before = frozenset() if known is None else known.forms
    layout = RowFileLayout(fragment, data[start:first], (major, minor), kinds, before.union(_list_forms(row)))
    if layout.encode(row) != data:
        raise OtherFormatError("Lance wrote other bytes")
    return layout


def _list_forms(row: pa.RecordBatch) -> Iterator[_Form]:
    return ((number, column.null_count > 0) for number, column in enumerate(row.columns))


def _find_kind(type_: pa.DataType) -> int:
    if type_ == pa.utf8():
        return _TEXT_KIND
    if type_ == pa.bool_():
        return _BOOL_KIND
    # Extension types, such as that of blobs, can't be hashed.
    if isinstance(type_, pa.BaseExtensionType) or type_ not in _PLAIN_TYPES:
        raise OtherFormatError(f"a column has the type {type_}")
    return int(type_.bit_width) // 8


def _encode_value(column: pa.Array, kind: int, position: int) -> tuple[bytes | None, bytes]:
    """Return the buffer of a value, if it needs one, which starts at this position, and the description of its page."""
    if column.null_count:
        return None, _NULL_PAGE
    if kind == _TEXT_KIND:
        text = column[0].as_buffer().to_pybytes()
        data = _TEXT.pack(*_TEXT_SIZES, len(text), 0, len(text)) + text
        return data, _pack(1, position) + _pack(2, len(data)) + _TEXT_PAGE
    if kind == _BOOL_KIND:
        return None, _BOOL_PAGE + bytes([column[0].as_py()])
    return None, _PLAIN_PAGES[kind] + bytes(column.buffers()[1].slice(column.offset * kind, kind))


def _pack(number: int, value: int) -> bytes:
    """Return a repeated integer field with one value, packed."""
    return encode_bytes(number, encode_integer(1, value)[1][1:] or b"\0")[1]


def _describe_page(level: bytes, value: bytes = b"") -> bytes:
    """Return the number of rows of a page, 1, and its encoding: a constant."""
    layout = encode_bytes(2, encode_bytes(5, level)[1] + value)[1]
    return encode_integer(3, 1)[1] + _wrap_encoding(4, b"/lance.encodings21.PageLayout", layout)


def _wrap_encoding(number: int, kind: bytes, message: bytes) -> bytes:
    """Return a message that is stored with its kind, directly."""
    named = encode_bytes(1, kind)[1] + encode_bytes(2, message)[1]
    return encode_bytes(number, encode_bytes(2, encode_bytes(1, named)[1])[1])[1]


def _begin_page(width: int) -> bytes:
    """Return the description of the page of a value up to the value itself, which is at its end."""
    return _describe_page(_VALID, encode_bytes(6, bytes(width))[1])[:-width]


# The values of a column have no encoding beyond that of its pages.
_COLUMN_ENCODING: Final = _wrap_encoding(1, b"/lance.encodings.ColumnEncoding", encode_bytes(1, b"")[1])
_NULL_PAGE: Final = _describe_page(_NULL)
_TEXT_PAGE: Final = _describe_page(_VALID)
_BOOL_PAGE: Final = _begin_page(1)
_PLAIN_PAGES: Final = {width: _begin_page(width) for width in (4, 8)}
