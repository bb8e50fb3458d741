"""Turn rows of any table into graph JSONL, one line for each record, on the line that it has in its file."""

import base64
import json
import math
import re
from collections.abc import Iterator, Mapping
from datetime import UTC, date, datetime
from typing import Any

from omnigraph.clock import format_instant
from omnigraph.engine.importing.csv_dialect import Cell
from omnigraph.engine.importing.mapping import SourceMapping, ValueForms
from omnigraph.engine.importing.source_tables import SourceTable, is_null
from omnigraph.schema.catalog import AnyType, EdgeType, Property
from omnigraph.schema.types import EnumOf, ListOf, Scalar, VectorOf, is_text
from omnigraph.schema.values import BASE64_PREFIX

_WHOLE = re.compile(r"-?(?:0|[1-9][0-9]*)")
_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?")
# Encoded records are handed over in chunks of about this size.
_CHUNK_BYTES = 1 << 18


def encode_rows(table: SourceTable, mapping: SourceMapping, type_: AnyType) -> Iterator[bytes]:
    """Yield a table as graph JSONL. Blank lines, which a load skips, keep each record on its line of the file.

    A value that can't be converted stays text: the load then reports it with its line, type and property.
    """
    targets = [mapping.find_property(column) for column in table.columns]
    converters = [
        None if target is None else _Converter(type_.by_name.get(target), mapping.formats.get(column), mapping.forms)
        for column, target in zip(table.columns, targets, strict=True)
    ]
    is_edge = isinstance(type_, EdgeType)
    buffer = bytearray()
    written = 0
    for line, values in table.read():
        data: dict[str, Any] = dict(mapping.constants)
        for value, target, converter in zip(values, targets, converters, strict=True):
            if target is not None and converter is not None:
                data[target] = converter.convert(value)
        if is_edge and mapping.skips_rows_without_ends and (data.get("from") is None or data.get("to") is None):
            continue
        # Several tables may be one stream; a line number never goes back in one of them.
        buffer += b"\n" * max(0, line - 1 - written)
        written = max(written, line - 1) + 1
        buffer += json.dumps(_build_record(type_, data), ensure_ascii=False, default=str).encode() + b"\n"
        if len(buffer) > _CHUNK_BYTES:
            yield bytes(buffer)
            buffer.clear()
    if buffer:
        yield bytes(buffer)


def _build_record(type_: AnyType, data: Mapping[str, Any]) -> dict[str, Any]:
    inner = dict(data)
    record: dict[str, Any] = {"edge" if isinstance(type_, EdgeType) else "type": type_.name}
    for name in ("from", "to", "id"):
        if name in inner:
            value = inner.pop(name)
            # An id that is left out is made; the ends of an edge are required, and reported if they are null.
            if value is not None or name != "id":
                record[name] = value
    record["data"] = inner
    return record


class _Converter:
    """Converts the values of one column to the JSON form of a property, or of an id if it is None."""

    def __init__(self, property_: Property | None, format_: str | None, forms: ValueForms) -> None:
        self._type = None if property_ is None else property_.type
        self._forms = forms
        by_type = {Scalar.DATE: forms.date_format, Scalar.DATETIME: forms.datetime_format}
        self._format = format_ or (by_type.get(self._type) if isinstance(self._type, Scalar) else None)

    def convert(self, value: object) -> object:
        """Return the JSON form of a value; its text if it has none."""
        if is_null(value, self._forms.nulls):
            return None
        if isinstance(value, Cell):
            return self._convert_text(value.text)
        if self._type is None or is_text(self._type):
            return format_text(value)
        return self._convert_typed(value)

    def _convert_text(self, text: str) -> object:
        type_ = self._type
        if type_ is None or isinstance(type_, EnumOf) or type_ in (Scalar.STRING, Scalar.BLOB):
            return text
        if type_ is Scalar.BOOL:
            return parse_bool(text, self._forms)
        if isinstance(type_, ListOf | VectorOf):
            return _parse_json(text)
        if type_ in (Scalar.DATE, Scalar.DATETIME):
            return self._parse_time(text)
        return _parse_number(text, self._forms, is_whole=type_.is_integer)

    def _parse_time(self, text: str) -> str:
        if self._format is not None:
            instant = parse_instant(text, self._format)
            if instant is None:
                return text
            return instant.date().isoformat() if self._type is Scalar.DATE else _format_time(instant)
        if self._type is Scalar.DATETIME:
            try:
                return _format_time(datetime.fromisoformat(text))
            except ValueError:
                return text
        return text

    def _convert_typed(self, value: object) -> object:
        if isinstance(value, datetime):
            return value.date().isoformat() if self._type is Scalar.DATE else _format_time(value)
        if isinstance(value, str) and self._type in (Scalar.DATE, Scalar.DATETIME):
            return self._parse_time(value)
        if isinstance(value, int) and not isinstance(value, bool) and self._type is Scalar.BOOL and value in (0, 1):
            return bool(value)  # SQLite has no other
        return to_json(value)


def to_json(value: object) -> object:
    """Return the JSON form of a value of Python, of which a property of its own type is made."""
    if isinstance(value, bytes | bytearray | memoryview):
        return BASE64_PREFIX + base64.b64encode(bytes(value)).decode()
    if isinstance(value, datetime):
        return _format_time(value)
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, list | tuple):
        return [to_json(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return value


def _format_time(instant: datetime) -> str:
    """Format an instant; one without a zone is UTC."""
    return format_instant(instant if instant.tzinfo is not None else instant.replace(tzinfo=UTC))


def format_text(value: object) -> str:
    """Return a value as text: objects, lists and booleans as JSON, anything else as it is printed."""
    if isinstance(value, str):
        return value
    if isinstance(value, dict | list | bool):
        return json.dumps(value, ensure_ascii=False, default=str)
    converted = to_json(value)
    return converted if isinstance(converted, str) else str(converted)


def parse_bool(text: str, forms: ValueForms) -> bool | str:
    """Return what a word means; the word itself if it means neither."""
    folded = text.lower()
    if any(folded == word.lower() for word in forms.trues):
        return True
    return False if any(folded == word.lower() for word in forms.falses) else text


def parse_instant(text: str, format_: str) -> datetime | None:
    """Return a time in the form of a file; None if it has another one."""
    try:
        return datetime.strptime(text, format_)  # noqa: DTZ007 - without a zone it is UTC
    except ValueError:
        return None


def _parse_number(text: str, forms: ValueForms, *, is_whole: bool) -> int | float | str:
    plain = forms.normalize_number(text)
    # No type holds more digits, and `int` of a long text takes quadratic time.
    if is_whole and len(plain) <= 40 and _WHOLE.fullmatch(plain):
        return int(plain)
    if not is_whole and _NUMBER.fullmatch(plain) and math.isfinite(float(plain)):
        return float(plain)
    return text


def _parse_json(text: str) -> object:
    try:
        return json.loads(text)
    except ValueError:
        return text
