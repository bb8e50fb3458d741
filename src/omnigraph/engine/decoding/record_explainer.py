"""The explainer of lines that the generated decoder does not accept: it says what is wrong, and where.

A line may come here and be right: one whose texts look like keys, or with half of a surrogate pair, which is reported
with its value. Then its values are returned.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from types import MappingProxyType
from typing import TypeAlias

from omnigraph.engine.decoding.json_lines import BadJsonError, decode_object, find_bad_number
from omnigraph.engine.decoding.older_export import is_metadata, normalize_data
from omnigraph.engine.decoding.record_error import RECORD_RULE, FurtherProblem
from omnigraph.engine.decoding.typed_rows import FROM, TO, RowOrigin, find_further_problems, list_id_columns
from omnigraph.engine.decoding.typed_source import format_hint
from omnigraph.schema.arrow import ID
from omnigraph.schema.catalog import AnyType, Catalog
from omnigraph.schema.values import format_value

DATA = "data"
_NODE_FIELDS = frozenset({"type", ID, DATA})
_EDGE_FIELDS = frozenset({"edge", ID, FROM, TO, DATA})

RecordValues: TypeAlias = dict[str, object]
"""The values of one record by column: its ids and properties."""


class BadRecordError(Exception):
    """The reason for rejecting one record: type, property, value, reason.

    Where the record can be read apart from unknown properties, `type` and `values` are those of the known ones, and
    `unknown` the other problems of the same kind.
    """

    type: AnyType | None = None
    values: Mapping[str, object] = MappingProxyType({})
    unknown: Sequence[FurtherProblem] = ()

    def find_more(self, origin: RowOrigin) -> list[FurtherProblem]:
        """Return the other problems of the record."""
        if self.type is None:
            return []
        return [*self.unknown, *find_further_problems(self.type, self.values, origin)]


def _build_unknown_error(
    type_: AnyType, unknown: Mapping[str, object], values: Mapping[str, object], known: Iterable[str]
) -> BadRecordError:
    """Build the error of a record with unknown properties: all are reported, and what is wrong with the others."""
    problems = [
        FurtherProblem(
            RECORD_RULE,
            name,
            format_value(value),
            f"unknown property {format_value(name)} of `{type_.name}`{format_hint(name, known)}",
        )
        for name, value in unknown.items()
    ]
    first, *others = problems
    error = BadRecordError(type_.name, first.property, first.value, first.reason)
    error.type = type_
    error.values = values
    error.unknown = others
    return error


def explain_flat_line(line: bytes, type_: AnyType, targets: Mapping[str, str]) -> RecordValues:
    """Return the values of a line of one type; `targets` maps each name to what it holds.

    Raises:
        BadRecordError: The record is rejected.
    """
    try:
        record = decode_object(line)
    except BadJsonError as error:
        name = None
        if error.number is not None:
            # The search fails if the line has a second fault after the number.
            with suppress(ValueError, AttributeError, RecursionError, BadJsonError):
                _, name = find_bad_number(line)
        column = None if name is None else targets.get(name, name)
        raise BadRecordError(type_.name, column, error.number, str(error)) from None
    values: RecordValues = {}
    unknown: RecordValues = {}
    for name, value in record.items():
        target = targets.get(name)
        if target is None:
            unknown[name] = value
            continue
        if target in values:
            raise BadRecordError(type_.name, None, None, f"`{target}` is there twice")
        values[target] = value
    if unknown:
        raise _build_unknown_error(type_, unknown, values, targets)
    return values


def explain_graph_line(
    line: bytes, catalog: Catalog, note_type: Callable[[AnyType], None]
) -> tuple[AnyType, RecordValues]:
    """Return the type and the values of a line; `note_type` is called once the type is known.

    Raises:
        BadRecordError: The record is rejected.
    """
    try:
        record = decode_object(line, DATA)
    except BadJsonError as error:
        raise BadRecordError(*_locate_bad_number(line, catalog, error), str(error)) from None
    type_ = _find_type(record, catalog)
    note_type(type_)
    return type_, _read_values(record, type_)


def _locate_bad_number(line: bytes, catalog: Catalog, error: BadJsonError) -> tuple[str | None, str | None, str | None]:
    """Return type, property and value of an invalid number; three times None for any other fault."""
    if error.number is None:
        return None, None, None
    try:
        record, name = find_bad_number(line, DATA)
        type_ = _find_type(record, catalog).name
    except (ValueError, AttributeError, RecursionError, BadJsonError, BadRecordError):
        # The line has a second fault after the number.
        return None, None, error.number
    return type_, name, error.number


def _find_type(record: RecordValues, catalog: Catalog) -> AnyType:
    if is_metadata(record):
        raise BadRecordError(None, None, None, "metadata may only be the first line of an input")
    if ("type" in record) == ("edge" in record):
        raise BadRecordError(None, None, None, "a record has exactly one of `type` (a node) and `edge`")
    is_edge = "edge" in record
    type_ = _find_edge_type(record["edge"], catalog) if is_edge else _find_node_type(record["type"], catalog)
    fields = _EDGE_FIELDS if is_edge else _NODE_FIELDS
    if not record.keys() <= fields:
        wrong = next(key for key in record if key not in fields)
        what = "an edge" if is_edge else "a node"
        inside = "; properties go into `data`" if wrong in type_.by_name else format_hint(wrong, fields)
        reason = f"{what} has no field {format_value(wrong)}{inside}"
        raise BadRecordError(type_.name, None, format_value(record[wrong]), reason)
    return type_


def _find_node_type(name: object, catalog: Catalog) -> AnyType:
    if isinstance(name, str) and (node := catalog.nodes.get(name)):
        return node
    if isinstance(name, str) and name in catalog.edges:
        reason = f"`{name}` is an edge type; write `edge`, `from` and `to`"
    else:
        reason = _describe_unknown("node", name, catalog.nodes)
    raise BadRecordError(None, None, format_value(name), reason)


def _find_edge_type(name: object, catalog: Catalog) -> AnyType:
    if isinstance(name, str) and (edge := catalog.find_edge(name)):
        return edge
    if isinstance(name, str) and name in catalog.nodes:
        reason = f"`{name}` is a node type; write `type`"
    else:
        reason = _describe_unknown("edge", name, catalog.edges)
    raise BadRecordError(None, None, format_value(name), reason)


def _describe_unknown(kind: str, name: object, known: Iterable[str]) -> str:
    if not isinstance(name, str):
        return f"the name of {'an' if kind == 'edge' else 'a'} {kind} type is a string, not {format_value(name)}"
    return f"unknown {kind} type {format_value(name)}{format_hint(name, known)}"


def _read_values(record: RecordValues, type_: AnyType) -> RecordValues:
    data = record.get(DATA, {})
    if type(data) is not dict:
        reason = f"`data` is an object of properties, not {format_value(data)}"
        raise BadRecordError(type_.name, None, format_value(data), reason)
    values = {name: record[name] for name in list_id_columns(type_) if name in record}
    if ID in data:
        if ID in record and record[ID] != data[ID]:
            reason = f"the id is {format_value(record[ID])}, and in `data` it is {format_value(data[ID])}; give it once"
            raise BadRecordError(type_.name, ID, format_value(data[ID]), reason)
        values[ID], data = data[ID], normalize_data(type_, data)
    if not data.keys() <= type_.by_name.keys():
        unknown = {name: value for name, value in data.items() if name not in type_.by_name}
        read = {name: value for name, value in data.items() if name in type_.by_name}
        raise _build_unknown_error(type_, unknown, values | read, type_.by_name)
    return values | data
