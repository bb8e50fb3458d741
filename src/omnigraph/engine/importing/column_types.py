"""Guess the type of a column from all its values."""

import math
import re
from collections import Counter
from dataclasses import dataclass, field
from datetime import date, datetime
from enum import Enum

from omnigraph.engine.importing.csv_dialect import Cell
from omnigraph.engine.importing.graph_records import parse_bool, parse_instant
from omnigraph.engine.importing.mapping import ValueForms

# Up to here a whole number fits I64 whatever its digits are.
MAX_DIGITS = 18
# Whole numbers up to this one are exact as floats.
_MAX_EXACT = 2**53
# A column of more distinct values is no enum.
MAX_ENUM_VALUES = 20

_WHOLE = re.compile(r"-?(?:0|[1-9][0-9]*)")
_FLOAT = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+(?:[eE][+-]?[0-9]+)?|[eE][+-]?[0-9]+)")
_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_DATETIME = re.compile(
    r"[0-9]{4}-[0-9]{2}-[0-9]{2}[T ][0-9]{2}:[0-9]{2}(?::[0-9]{2}(?:\.[0-9]{1,6})?)?(?:Z|[+-][0-9]{2}:[0-9]{2})?"
)
_OTHER_DATE = re.compile(r"[0-9]{1,4}[./-][0-9]{1,2}[./-][0-9]{1,4}(?:[ T].*)?")
_ENUM_VALUE = re.compile(r"[A-Za-z0-9_-]+")


class ColumnKind(Enum):
    """What all values of a column are; the value is the type in a schema."""

    BOOL = "Bool"
    WHOLE = "I64"
    FLOAT = "F64"
    DATE = "Date"
    DATETIME = "DateTime"
    TEXT = "String"
    BLOB = "Blob"
    TEXTS = "[String]"
    WHOLES = "[I64]"
    FLOATS = "[F64]"
    BOOLS = "[Bool]"
    EMPTY_LIST = "[ ]"


_LISTS = {
    ColumnKind.TEXT: ColumnKind.TEXTS,
    ColumnKind.WHOLE: ColumnKind.WHOLES,
    ColumnKind.FLOAT: ColumnKind.FLOATS,
    ColumnKind.BOOL: ColumnKind.BOOLS,
}
_NUMBERS = frozenset({ColumnKind.WHOLE, ColumnKind.FLOAT})
_NUMBER_LISTS = frozenset({ColumnKind.WHOLES, ColumnKind.FLOATS})


@dataclass(slots=True)
class ColumnEvidence:
    """What is known of a column after some of its values."""

    name: str
    forms: ValueForms = field(default_factory=ValueForms)
    kind: ColumnKind | None = None
    kinds: Counter[ColumnKind] = field(default_factory=Counter)
    """How many values with a type have each kind; cells of text have none."""
    formatted: set[ColumnKind] = field(default_factory=lambda: {ColumnKind.BOOL, ColumnKind.DATE, ColumnKind.DATETIME})
    """Of these, what all cells are in the words and formats of `forms`."""
    values: int = 0
    nulls: int = 0
    looks_like_dates: bool = True
    """Whether all values are dates in another form than ISO."""
    largest: int = 0
    """The largest whole number without its sign."""
    distinct: set[str] | None = field(default_factory=set)
    """The texts of the values, while they can be those of an enum; None after too many."""

    def add(self, value: object) -> None:
        """Take one value that is not null into account."""
        self.values += 1
        text = value.text if isinstance(value, Cell) else value
        if isinstance(value, Cell):
            self.formatted = {kind for kind in self.formatted if _is_written(value.text, kind, self.forms)}
            kind = _classify_cell(value.text, self.forms)
        else:
            self.formatted = set()
            kind = classify(value)
            if kind is not ColumnKind.EMPTY_LIST:
                self.kinds[ColumnKind.TEXT if isinstance(value, str) else kind] += 1
        if kind in (ColumnKind.WHOLE, ColumnKind.WHOLES):
            items = value if isinstance(value, list | tuple) else (self.forms.normalize_number(str(text)),)
            self.largest = max(self.largest, *(abs(int(str(item))) for item in items))
        self.kind = kind if self.kind is None else combine(self.kind, kind)
        if self.looks_like_dates:
            self.looks_like_dates = isinstance(text, str) and _OTHER_DATE.fullmatch(text) is not None
        if self.distinct is not None:
            self.distinct.add(str(text))
            if len(self.distinct) > MAX_ENUM_VALUES:
                self.distinct = None

    @property
    def resolved(self) -> ColumnKind:
        """The type of the column; text if it has no values, or if its numbers would lose digits."""
        if self.kind is None:
            return ColumnKind.TEXT
        if self.formatted:
            return next(kind for kind in ColumnKind if kind in self.formatted)
        if self.kind is ColumnKind.EMPTY_LIST:
            return ColumnKind.TEXTS
        if self.kind in (ColumnKind.FLOAT, ColumnKind.FLOATS) and self.largest > _MAX_EXACT:
            return ColumnKind.TEXT
        return self.kind

    @property
    def format(self) -> str | None:
        """The format of the column's times, if they are not in ISO form."""
        formats = {ColumnKind.DATE: self.forms.date_format, ColumnKind.DATETIME: self.forms.datetime_format}
        return formats.get(self.resolved) if self.values and self.formatted else None

    @property
    def enum_values(self) -> list[str] | None:
        """The values of an enum, if the column repeats a few; None otherwise."""
        if self.resolved is not ColumnKind.TEXT or not self.distinct or self.values < 2 * len(self.distinct):
            return None
        return sorted(self.distinct) if all(map(_ENUM_VALUE.fullmatch, self.distinct)) else None


def combine(left: ColumnKind, right: ColumnKind) -> ColumnKind:
    """Return the kind that holds the values of both."""
    if left is right:
        return left
    both = {left, right}
    if both <= _NUMBERS:
        return ColumnKind.FLOAT
    if both <= _NUMBER_LISTS:
        return ColumnKind.FLOATS
    if ColumnKind.EMPTY_LIST in both:
        other = (both - {ColumnKind.EMPTY_LIST}).pop()
        return other if other in _LISTS.values() else ColumnKind.TEXT
    return ColumnKind.TEXT


def classify(value: object) -> ColumnKind:
    """Return the narrowest kind of one value that has a type."""
    if isinstance(value, bool):
        return ColumnKind.BOOL
    if isinstance(value, int):
        return ColumnKind.WHOLE if -(2**63) <= value < 2**63 else ColumnKind.TEXT
    if isinstance(value, float):
        return ColumnKind.FLOAT if math.isfinite(value) else ColumnKind.TEXT
    if isinstance(value, str):
        return _classify_time(value) or ColumnKind.TEXT
    if isinstance(value, datetime):
        return ColumnKind.DATETIME
    if isinstance(value, date):
        return ColumnKind.DATE
    if isinstance(value, bytes | bytearray):
        return ColumnKind.BLOB
    if isinstance(value, list | tuple):
        return _classify_list(value)
    return ColumnKind.TEXT


def _is_written(text: str, kind: ColumnKind, forms: ValueForms) -> bool:
    """Return whether a text is a Bool, Date or DateTime in the words and formats that were given."""
    if kind is ColumnKind.BOOL:
        return isinstance(parse_bool(text, forms), bool)
    format_ = forms.date_format if kind is ColumnKind.DATE else forms.datetime_format
    instant = None if format_ is None else parse_instant(text, format_)
    return instant is not None and 1 < instant.year < 9999


def _classify_cell(cell: str, forms: ValueForms) -> ColumnKind:
    """Return the narrowest kind of a cell: a number, a time in ISO form, or text."""
    text = forms.normalize_number(cell)
    if _WHOLE.fullmatch(text):
        # `-0` is another text than the number that it stands for.
        is_plain = len(text.lstrip("-")) <= MAX_DIGITS and text != "-0"
        return ColumnKind.WHOLE if is_plain else ColumnKind.TEXT
    if _FLOAT.fullmatch(text):
        return ColumnKind.FLOAT if math.isfinite(float(text)) else ColumnKind.TEXT
    return _classify_time(cell) or ColumnKind.TEXT


def _classify_time(text: str) -> ColumnKind | None:
    """Return the kind of a date or time in ISO form; None if the text is none."""
    try:
        if _DATE.fullmatch(text):
            date.fromisoformat(text)
            return ColumnKind.DATE
        if _DATETIME.fullmatch(text):
            instant = datetime.fromisoformat(text)
            # Beyond the years 1 to 9999 in UTC there are no instants.
            return ColumnKind.DATETIME if 1 < instant.year < 9999 else ColumnKind.TEXT
    except ValueError:
        pass
    return None


def _classify_list(items: list[object] | tuple[object, ...]) -> ColumnKind:
    """Return the kind of a list: of one base type, else text, which holds its JSON form."""
    kind: ColumnKind | None = None
    for item in items:
        # Times in lists stay text: their form is that of the file.
        element = ColumnKind.TEXT if isinstance(item, str) else classify(item)
        if item is None or element not in _LISTS or (element is ColumnKind.TEXT and not isinstance(item, str)):
            return ColumnKind.TEXT
        kind = element if kind is None else combine(kind, element)
        if kind is ColumnKind.TEXT and not isinstance(item, str):
            return ColumnKind.TEXT
    return ColumnKind.EMPTY_LIST if kind is None else _LISTS[kind]
