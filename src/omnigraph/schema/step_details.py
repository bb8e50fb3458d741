"""The facts of migration steps as JSON values, so that no program has to read messages."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import date, datetime
from typing import TypeAlias

from omnigraph.lang.print_values import print_float, quote
from omnigraph.schema.catalog import Cardinality, CheckRule, Property, RangeRule, Value
from omnigraph.schema.temporal import format_date, format_datetime
from omnigraph.schema.values import Json, to_json

Details: TypeAlias = dict[str, Json]


@dataclass(frozen=True, slots=True)
class KeyRule:
    """`@key(columns)`."""

    columns: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class UniqueRule:
    """`@unique(columns)`."""

    columns: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class IndexRule:
    """`@index(property)`."""

    property: str


Rule: TypeAlias = KeyRule | UniqueRule | IndexRule | RangeRule | CheckRule | Cardinality
"""A constraint that a step adds or drops; a range or cardinality takes the place of the one before."""


@dataclass(frozen=True, slots=True)
class MetadataChange:
    """One aspect of what an `update_metadata` changes: `values` holds what was there (`from`) and what will be (`to`).

    Each is missing when there is nothing, so that no default and `@default(null)` differ.
    """

    aspect: str
    values: Mapping[str, Json] = field(default_factory=dict, hash=False)

    def to_json(self) -> Json:
        """`{"aspect": …, "from": …, "to": …}`."""
        return {"aspect": self.aspect, **self.values}


def build_from_to(before: Json, after: Json) -> Details:
    """What was there and what will be; null is nothing, and left out."""
    return {name: value for name, value in (("from", before), ("to", after)) if value is not None}


def build_property_details(p: Property) -> Details:
    """Type, nullability, and the default if there is one."""
    details: Details = {"type": str(p.type), "nullable": p.nullable}
    return {**details, "default": to_json(p.type, p.default)} if p.has_default else details


def rule_to_json(rule: Rule) -> Details:
    """The constraint in parts: `kind`, `columns`, its bounds or pattern, and `text` as the schema language writes it.

    An open bound is null; bounds are numbers, and texts for Date and DateTime.
    """
    text = format_rule(rule)
    match rule:
        case KeyRule(columns=columns):
            return {"kind": "key", "columns": list(columns), "text": text}
        case UniqueRule(columns=columns):
            return {"kind": "unique", "columns": list(columns), "text": text}
        case IndexRule(property=name):
            return {"kind": "index", "columns": [name], "text": text}
        case RangeRule(property=name, low=low, high=high):
            return {
                "kind": "range",
                "columns": [name],
                "low": _bound_to_json(low),
                "high": _bound_to_json(high),
                "text": text,
            }
        case CheckRule(property=name, pattern=pattern):
            return {"kind": "check", "columns": [name], "pattern": pattern, "text": text}
        case Cardinality(low=least, high=most):
            return {"kind": "card", "columns": [], "low": least, "high": most, "text": text}


def format_rule(rule: Rule) -> str:
    """A constraint as the schema language writes it."""
    match rule:
        case KeyRule(columns=columns):
            return f"@key({', '.join(columns)})"
        case UniqueRule(columns=columns):
            return f"@unique({', '.join(columns)})"
        case IndexRule(property=name):
            return f"@index({name})"
        case RangeRule(property=name, low=low, high=high):
            return f"@range({name}, {_format_bound(low)}..{_format_bound(high)})"
        case CheckRule(property=name, pattern=pattern):
            return f"@check({name}, {quote(pattern)})"
        case Cardinality():
            return f"@card({rule})"


def _format_bound(value: Value) -> str:
    match value:
        case None:
            return ""
        case datetime():
            return f'datetime("{format_datetime(value)}")'
        case date():
            return f'date("{format_date(value)}")'
        case float():
            return print_float(value)
        case _:
            return str(value)


def _bound_to_json(value: Value) -> Json:
    match value:
        case datetime():
            return format_datetime(value)
        case date():
            return format_date(value)
        case int() | float():
            return value
        case _:
            return None
