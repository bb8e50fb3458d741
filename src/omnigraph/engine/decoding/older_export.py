"""Graph JSONL as the older system exported it: other positions and spellings of the same values.

Three things differ from the format of `graph_jsonl`. The id is in `data`, where no property can have that name. In such
a record a Date is the number of days since 1970-01-01, and a DateTime is in UTC without a zone. And the first line may
be metadata: an object with one key that is reserved (`_…`) or `metadata`, whose value is an object.
"""

import re
from collections.abc import Mapping
from datetime import date

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.engine.decoding.fast_columns import choose_json_type, find_rows_with, split_lists
from omnigraph.engine.decoding.json_columns import Doubts
from omnigraph.schema.arrow import ID
from omnigraph.schema.catalog import AnyType
from omnigraph.schema.types import ListOf, Scalar, ValueType

METADATA = re.compile(rb'\s*\{\s*"(_[^"]*|metadata)"\s*:\s*\{')

_DAY_ZERO = date(1970, 1, 1).toordinal()
_FIRST_DAY, _LAST_DAY = date.min.toordinal() - _DAY_ZERO, date.max.toordinal() - _DAY_ZERO
_NO_ZONE = r"([0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]+)?)"
_MAX_NAME_CHARACTERS = 80
"""The limit of characters that a message quotes from metadata; branch names and commit ids are shorter."""

_decode = msgspec.json.Decoder().decode


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


def infer_older_data_type(type_: AnyType, line: bytes) -> pa.DataType | None:
    """Return the Arrow type of `data` if this line has the older format; None if it has not.

    The line also decides whether days are numbers: a file may have been edited by hand.
    """
    if b'"id"' not in line:
        return None
    try:
        record = _decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    data = record.get("data") if isinstance(record, dict) else None
    if not isinstance(data, dict) or ID not in data or ID in record:
        return None
    return pa.struct([(ID, pa.utf8()), *((p.name, _infer_type(p.type, data.get(p.name))) for p in type_.properties)])


def _infer_type(type_: ValueType, value: object) -> pa.DataType:
    if isinstance(type_, ListOf) and type_.element is Scalar.DATE:
        items = value if isinstance(value, list) else []
        return pa.list_(pa.utf8() if any(isinstance(item, str) for item in items) else pa.int32())
    if type_ is Scalar.DATE and not isinstance(value, str):
        return pa.int32()
    return choose_json_type(type_)


def normalize_column(type_: ValueType, column: pa.Array) -> tuple[pa.Array, Doubts | None]:
    """Return a column of records of the older format in our spelling, and the rows that are ambiguous."""
    if isinstance(type_, ListOf) and type_.element in (Scalar.DATE, Scalar.DATETIME):
        items, offsets = split_lists(column)
        spelt, doubts = normalize_column(type_.element, items)
        mask = column.is_null() if column.null_count else None
        lists = pa.ListArray.from_arrays(pa.array(offsets), spelt, mask=mask)
        return lists, None if doubts is None else find_rows_with(doubts, offsets)
    if type_ is Scalar.DATE and pa.types.is_integer(column.type):
        days = column.fill_null(0).to_numpy(zero_copy_only=False)
        doubts = (days < _FIRST_DAY) | (days > _LAST_DAY)
        within = pa.array(
            np.where(doubts, 0, days).astype(np.int32), mask=column.is_null().to_numpy(zero_copy_only=False)
        )
        return within.cast(pa.date32()).cast(pa.utf8()), doubts if doubts.any() else None
    if type_ is Scalar.DATETIME:
        return pc.replace_substring_regex(column, f"^{_NO_ZONE}$", r"\1Z"), None
    return column, None
