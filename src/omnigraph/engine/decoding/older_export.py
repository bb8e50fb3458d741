"""Graph JSONL as the older system exported it: other positions and spellings of the same values.

Three things differ from the format of `graph_jsonl`. The id is in `data`, where no property can have that name. In such
a record a Date is the number of days since 1970-01-01, and a DateTime is in UTC without a zone. And the first line may
be metadata: an object with one key that is reserved (`_…`) or `metadata`, whose value is an object.
"""

import re
from collections.abc import Iterable, Mapping
from datetime import date

from omnigraph.engine.decoding.object_decoder import Columns
from omnigraph.schema.arrow import ID
from omnigraph.schema.catalog import AnyType
from omnigraph.schema.types import ListOf, Scalar, ValueType

METADATA = re.compile(rb'\s*\{\s*"(_[^"]*|metadata)"\s*:\s*\{')

_DAY_ZERO = date(1970, 1, 1).toordinal()
_FIRST_DAY, _LAST_DAY = date.min.toordinal() - _DAY_ZERO, date.max.toordinal() - _DAY_ZERO
_NO_ZONE = r"([0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]+)?)"
_MAX_NAME_CHARACTERS = 80
"""The limit of characters that a message quotes from metadata; branch names and commit ids are shorter."""


# --- metadata ----------------------------------------------------------------------------------------


def is_metadata(record: Mapping[str, object]) -> bool:
    """Return whether an object is a line of metadata."""
    if len(record) != 1:
        return False
    ((name, value),) = record.items()
    return isinstance(value, dict) and (name == "metadata" or name.startswith("_"))


def describe_export(metadata: Mapping[str, object]) -> str:
    """Describe the export for the message of the commit: its branch and commit."""
    (inner,) = metadata.values()
    facts = inner if isinstance(inner, dict) else {}
    member = facts.get("branch_member")
    facts = {**facts, **member} if isinstance(member, dict) else facts
    branch = _clip(facts.get("branch"))
    commit = _clip(facts.get("graph_head")) or _clip(facts.get("commit_id"))
    where = (f" of branch {branch}" if branch else "") + (f" at commit {commit}" if commit else "")
    return f"an export{where}" if where else "an export of another graph"


def _clip(value: object) -> str:
    return value[:_MAX_NAME_CHARACTERS] if isinstance(value, str) and value.isprintable() else ""


# --- one record --------------------------------------------------------------------------------------


def normalize_data(type_: AnyType, data: Mapping[str, object]) -> dict[str, object]:
    """Return the properties of a record of the older format in our spelling."""
    return {
        name: _normalize_value(p.type, value) if (p := type_.find_property(name)) else value
        for name, value in data.items()
        if name != ID
    }


def _normalize_value(type_: ValueType, value: object) -> object:
    if isinstance(type_, ListOf) and isinstance(value, list):
        return [_normalize_value(type_.element, item) for item in value]
    if type_ is Scalar.DATE and type(value) is int and _FIRST_DAY <= value <= _LAST_DAY:
        return date.fromordinal(value + _DAY_ZERO).isoformat()
    if type_ is Scalar.DATETIME and isinstance(value, str) and re.fullmatch(_NO_ZONE, value):
        return f"{value}Z"
    return value


# --- many records ------------------------------------------------------------------------------------


def normalize_columns(type_: AnyType, columns: Columns, is_older: Iterable[object]) -> None:
    """Change the columns of records to our spelling, in the rows of the older format."""
    for p in type_.properties:
        if (p.type.element if isinstance(p.type, ListOf) else p.type) in (Scalar.DATE, Scalar.DATETIME):
            pairs = zip(columns[p.name], is_older, strict=True)
            columns[p.name] = [_normalize_value(p.type, value) if is_other else value for value, is_other in pairs]
