"""Build the input of a load from Python arguments: paths, streams, records and tables."""

import base64
import json
import os
from collections.abc import Iterable, Iterator, Mapping
from datetime import date, datetime
from io import TextIOBase
from itertools import chain
from typing import Any, BinaryIO, Protocol, TypeAlias, TypeGuard, cast

from omnigraph.engine.decoding.record_error import RecordError
from omnigraph.engine.decoding.typed_files import ArrowStream
from omnigraph.errors import BadArgumentError
from omnigraph.ops.load_inputs import GraphSource, LoadInput, PathLike, TypedSource, parse_maps
from omnigraph.schema.python_values import to_items, to_python_value
from omnigraph.schema.values import BASE64_PREFIX, InvalidValue, format_value

Record: TypeAlias = Mapping[str, object]
GraphData: TypeAlias = PathLike | BinaryIO | Iterable[PathLike | BinaryIO] | Iterable[Record]
"""Graph JSONL: a path, an open binary file, several of these, or its records as mappings."""


class LazyRows(Protocol):
    """Rows that are computed on demand, such as a lazy frame of polars."""

    def collect(self) -> Any:  # noqa: ANN401 - a frame of the library
        """Return a frame with the rows."""
        ...


TypedData: TypeAlias = PathLike | Iterable[PathLike] | Iterable[Record] | ArrowStream | LazyRows
"""Rows of one type: a path, several paths, a table of Arrow, pandas, polars or another library with a C stream, a lazy
frame of polars, or rows as mappings."""

RECORDS_NAME = "<records>"
# Encoded records are handed to the decoder in chunks of about this size.
_CHUNK_BYTES = 1 << 20


def build_load_input(
    data: GraphData | None,
    nodes: Mapping[str, TypedData] | None,
    edges: Mapping[str, TypedData] | None,
    columns: Mapping[str, str] | None,
) -> LoadInput:
    """Build the input of a load; `columns` maps `Type.property` to a column.

    Raises:
        TypeError: An argument can't be read by a load.
        BadArgumentError: No input is given, or a column is mapped for a type that is not loaded from columns.
    """
    if data is None and nodes is None and edges is None:
        raise BadArgumentError("data", "left out", "name what to load: graph JSONL, or rows by `nodes` and `edges`")
    for argument, rows_by_type in (("nodes", nodes), ("edges", edges)):
        _check_mapping(argument, rows_by_type, 'type names to rows, such as {"Person": "people.csv"}')
    _check_mapping("map", columns, 'properties to columns, such as {"Person.name": "full_name"}')
    maps = parse_maps(f"{target}={column}" for target, column in (columns or {}).items())
    sources = [
        *(_build_typed_source(name, rows, maps.pop(name, {}), is_edge=False) for name, rows in (nodes or {}).items()),
        *(_build_typed_source(name, rows, maps.pop(name, {}), is_edge=True) for name, rows in (edges or {}).items()),
    ]
    typed = tuple(source for source in sources if isinstance(source, TypedSource))
    records = tuple(source for source in sources if isinstance(source, GraphSource))
    # Each source has taken the columns of its type: what is left belongs to none.
    if maps:
        name = next(iter(maps))
        raise BadArgumentError("map", f"`{name}`", "no file of this type is loaded from columns")
    graph = () if data is None else tuple(_iter_graph_sources(data))
    return LoadInput(graph=graph + records, typed=typed)


def _check_mapping(argument: str, value: object, content: str) -> None:
    """Check that an argument is None or a mapping with string keys.

    Raises:
        TypeError: It is neither.
    """
    if value is not None and not (isinstance(value, Mapping) and all(isinstance(name, str) for name in value)):
        msg = f"`{argument}` must map {content}"
        raise TypeError(msg)


def is_lazy_frame(data: object) -> TypeGuard[LazyRows]:
    """Return whether the data is a lazy frame of polars."""
    # By name: polars is not a dependency, and need not be imported.
    return type(data).__name__ == "LazyFrame" and hasattr(data, "collect")


def _iter_graph_sources(data: GraphData) -> Iterator[GraphSource]:
    if is_lazy_frame(data) or isinstance(data, ArrowStream):
        msg = f"a {type(data).__name__} has rows of one type: pass it under the type's name, as nodes={{TYPE: table}}"
        raise TypeError(msg)
    # A string is a path. JSON text passed by mistake gets its own message.
    is_text = isinstance(data, str) and data.lstrip().startswith("{")
    if is_text or isinstance(data, Mapping | bytes | bytearray | TextIOBase) or not _is_readable(data):
        what = "a text file" if isinstance(data, TextIOBase) else f"a {type(data).__name__}"
        description = f"its text {format_value(data)}; io.BytesIO makes a file of it" if is_text else what
        msg = f"graph JSONL is a path, a binary file or records, not {description}"
        raise TypeError(msg)
    if _is_source(data):
        yield _build_graph_source(cast("PathLike | BinaryIO", data))
        return
    items = iter(cast("Iterable[PathLike | BinaryIO | Record]", data))
    # The first item decides: a list has sources or records, not both.
    first = next(items, None)
    if first is None:
        return
    if not _is_source(first):
        records = chain([cast("Record", first)], cast("Iterator[Record]", items))
        yield GraphSource(data=_encode_lines(records), name=RECORDS_NAME)
        return
    for item in chain([first], items):
        if not _is_source(item):
            msg = (
                "a list of graph JSONL holds paths and binary files, or records;"
                f" not {format_value(item)} beside {first!r}"
            )
            raise TypeError(msg)
        yield _build_graph_source(cast("PathLike | BinaryIO", item))


def _is_readable(data: object) -> bool:
    return _is_source(data) or isinstance(data, Iterable)


def _is_source(data: object) -> bool:
    return isinstance(data, str | os.PathLike) or (hasattr(data, "read") and not isinstance(data, TextIOBase))


def _build_graph_source(data: PathLike | BinaryIO) -> GraphSource:
    if isinstance(data, str | os.PathLike):
        return GraphSource(data=data)
    name = getattr(data, "name", None)
    # A stream that was made of another format says what it counts.
    unit = str(getattr(data, "unit", "line"))
    return GraphSource(data=data, name=name, unit=unit) if isinstance(name, str) else GraphSource(data=data)


def _build_typed_source(
    name: str, data: TypedData, columns: Mapping[str, str], *, is_edge: bool
) -> TypedSource | GraphSource:
    """Build the source of one type's rows; rows as mappings are records of graph JSONL."""
    if is_lazy_frame(data):
        data = cast("ArrowStream", data.collect())
    if not isinstance(data, str | os.PathLike | ArrowStream):
        if isinstance(data, Mapping):
            msg = f"rows of `{name}` are a list of mappings, one for each row, not one mapping"
            raise TypeError(msg)
        items = iter(cast("Iterable[PathLike | Record]", data))
        first = next(items, None)
        if isinstance(first, Mapping):
            rows = cast("Iterator[Record]", chain([first], items))
            records = (_build_record(name, row, columns, is_edge=is_edge) for row in rows)
            label = f"<{'edges' if is_edge else 'nodes'} {name}>"
            return GraphSource(data=_encode_lines(records, label), name=label, unit="row")
        paths = () if first is None else (first, *items)
        if not all(isinstance(path, str | os.PathLike) for path in paths):
            msg = f"rows of `{name}` are a path, several paths, mappings, or a table with an Arrow C stream"
            raise TypeError(msg)
        data = cast("tuple[PathLike, ...]", paths)
    return TypedSource(type=name, is_edge=is_edge, data=data, columns=columns)


def _build_record(type_: str, row: Record, columns: Mapping[str, str], *, is_edge: bool) -> Record:
    """Return a row of one type as a record: its ids beside its properties."""
    if not isinstance(row, Mapping):
        msg = f"rows of `{type_}` are mappings, not {format_value(row)}"
        raise TypeError(msg)
    renamed = {column: target for target, column in columns.items()}
    data = {renamed.get(name, name): value for name, value in row.items()}
    record: dict[str, object] = {"edge" if is_edge else "type": type_}
    for column, name in (("id", "id"), *((("src", "from"), ("dst", "to")) if is_edge else ())):
        given = next((key for key in (name, column) if key in data), None)
        value = None if given is None else data.pop(given)
        if given is not None and (value is not None or name != "id"):
            record[name] = value
    return {**record, "data": data}


# --- records -----------------------------------------------------------------------------------------


def _encode_lines(records: Iterable[Record], label: str = RECORDS_NAME) -> Iterator[bytes]:
    """Yield records as lines of JSON, in chunks; their values are checked when the lines are decoded."""
    parts: list[bytes] = []
    buffered = 0
    for number, record in enumerate(records, start=1):
        try:
            # A NaN is written as such: decoding rejects it, like any other invalid value.
            line = json.dumps(record, default=_to_json_form).encode() + b"\n"
        except (TypeError, ValueError, RecursionError) as error:
            type_, name = _find_unencodable(record)
            raise RecordError(label, number, type_, name, None, str(error), "record") from error
        parts.append(line)
        buffered += len(line)
        if buffered >= _CHUNK_BYTES:
            yield b"".join(parts)
            parts, buffered = [], 0
    if parts:
        yield b"".join(parts)


def _find_unencodable(record: object) -> tuple[str | None, str | None]:
    """Return type and property of the first value without a JSON form, None where there is none."""
    if not isinstance(record, Mapping):
        return None, None
    data = record.get("data")
    type_ = next((name for end in ("type", "edge") if isinstance(name := record.get(end), str)), None)
    for name, value in data.items() if isinstance(data, Mapping) else ():
        try:
            json.dumps(value, default=_to_json_form)
        except (TypeError, ValueError, RecursionError):
            return type_, str(name)
    return type_, None


def _to_json_form(value: object) -> object:
    """Return the JSON form of a Python value that `json` does not support."""
    converted = to_python_value(value)
    match converted:
        case InvalidValue(reason):
            raise TypeError(reason)
        case Mapping():
            return dict(converted)
        case datetime() | date():
            return converted.isoformat()
        case bytes() | bytearray() | memoryview():
            return BASE64_PREFIX + base64.b64encode(converted).decode()
        case _ if converted is not value:
            return converted
        case _:
            items = to_items(value)
            if items is not value:
                return items
            msg = f"a {type(value).__name__} can't be a value of a record; convert it to text, a number or a list first"
            raise TypeError(msg)
