"""What a caller of Python hands to a load becomes the load's input: paths, streams, records, tables."""

import base64
import json
import os
from collections.abc import Iterable, Iterator, Mapping
from datetime import date, datetime
from io import TextIOBase
from itertools import chain
from typing import BinaryIO, TypeAlias, cast

from omnigraph.engine.decoding.record_error import RecordError
from omnigraph.engine.decoding.typed_files import ArrowStream
from omnigraph.ops.argument_checks import BadArgumentError
from omnigraph.ops.load_inputs import BadInputNameError, GraphSource, LoadInput, PathLike, TypedSource, parse_maps
from omnigraph.schema.python_values import to_items, to_python_value
from omnigraph.schema.values import BASE64_PREFIX, InvalidValue, format_value

Record: TypeAlias = Mapping[str, object]
GraphData: TypeAlias = PathLike | BinaryIO | Iterable[PathLike | BinaryIO] | Iterable[Record]
"""Graph JSONL by its path, as an open binary file, several of these; or its records as mappings."""
TypedData: TypeAlias = PathLike | Iterable[PathLike] | ArrowStream
"""Rows of one type: a path, several, or a table of Arrow, pandas, polars or whatever else has a C stream."""

RECORDS_NAME = "<records>"
_CHUNK_BYTES = 1 << 20


def build_load_input(
    data: GraphData | None,
    nodes: Mapping[str, TypedData] | None,
    edges: Mapping[str, TypedData] | None,
    columns: Mapping[str, str] | None,
) -> LoadInput:
    """The input of a load; `columns` is by `Type.property`.

    Raises:
        TypeError: Something is given that no load can read.
        BadArgumentError: Nothing is given at all.
        BadInputNameError: A column is named for a type that is not loaded by columns.
    """
    if data is None and nodes is None and edges is None:
        raise BadArgumentError("data", "left out", "name what to load: graph JSONL, or rows by `nodes` and `edges`")
    for argument, given in (("nodes", nodes), ("edges", edges)):
        _check_names(argument, given, 'the rows of types by their names, such as {"Person": "people.csv"}')
    _check_names("map", columns, 'columns by the properties that they hold, such as {"Person.name": "full_name"}')
    maps = parse_maps(f"{target}={column}" for target, column in (columns or {}).items())
    typed = (
        *(_build_typed_source(name, one, maps.pop(name, {}), is_edge=False) for name, one in (nodes or {}).items()),
        *(_build_typed_source(name, one, maps.pop(name, {}), is_edge=True) for name, one in (edges or {}).items()),
    )
    if maps:
        name = next(iter(maps))
        raise BadInputNameError(name, "the name of a type whose rows are loaded by columns")
    return LoadInput(graph=() if data is None else tuple(_iter_graph_sources(data)), typed=typed)


def _check_names(argument: str, given: object, holds: str) -> None:
    """TypeError for what is no mapping from texts."""
    if given is not None and not (isinstance(given, Mapping) and all(isinstance(name, str) for name in given)):
        msg = f"`{argument}` has {holds}"
        raise TypeError(msg)


def _check_collected(data: object, what: str) -> None:
    """TypeError for a plan of polars that has no rows yet."""
    if type(data).__name__ == "LazyFrame":
        msg = f"{what} are given by a LazyFrame, which has none yet: give frame.collect(), or sink it to Parquet"
        raise TypeError(msg)


def _iter_graph_sources(data: GraphData) -> Iterator[GraphSource]:
    _check_collected(data, "records")
    if isinstance(data, ArrowStream):
        msg = f"a {type(data).__name__} holds rows of one type: give it by the type's name, as nodes={{TYPE: table}}"
        raise TypeError(msg)
    is_text = isinstance(data, str) and data.lstrip().startswith("{")
    if is_text or isinstance(data, Mapping | bytes | bytearray | TextIOBase) or not _is_readable(data):
        what = "a text file" if isinstance(data, TextIOBase) else f"a {type(data).__name__}"
        told = f"its text {format_value(data)}; io.BytesIO makes a file of it" if is_text else what
        msg = f"graph JSONL is a path, a binary file or records, not {told}"
        raise TypeError(msg)
    if _is_source(data):
        yield _build_graph_source(cast("PathLike | BinaryIO", data))
        return
    items = iter(cast("Iterable[PathLike | BinaryIO | Record]", data))
    first = next(items, None)
    if first is None:
        return
    if not _is_source(first):
        records = chain([cast("Record", first)], cast("Iterator[Record]", items))
        yield GraphSource(data=_encode_lines(records), name=RECORDS_NAME)
        return
    for one in chain([first], items):
        if not _is_source(one):
            msg = f"a list of graph JSONL holds paths and binary files, or records; not {format_value(one)} beside {first!r}"
            raise TypeError(msg)
        yield _build_graph_source(cast("PathLike | BinaryIO", one))


def _is_readable(data: object) -> bool:
    return _is_source(data) or isinstance(data, Iterable)


def _is_source(data: object) -> bool:
    return isinstance(data, str | os.PathLike) or (hasattr(data, "read") and not isinstance(data, TextIOBase))


def _build_graph_source(data: PathLike | BinaryIO) -> GraphSource:
    if isinstance(data, str | os.PathLike):
        return GraphSource(data=data)
    name = getattr(data, "name", None)
    return GraphSource(data=data, name=name) if isinstance(name, str) else GraphSource(data=data)


def _build_typed_source(name: str, data: TypedData, columns: Mapping[str, str], *, is_edge: bool) -> TypedSource:
    if not isinstance(data, str | os.PathLike | ArrowStream):
        _check_collected(data, f"rows of `{name}`")
        data = tuple(data)
        if not all(isinstance(path, str | os.PathLike) for path in data):
            msg = f"rows of `{name}` are a path, several paths, or a table with an Arrow C stream"
            raise TypeError(msg)
    return TypedSource(type=name, is_edge=is_edge, data=data, columns=columns)


# --- records -----------------------------------------------------------------------------------------


def _encode_lines(records: Iterable[Record]) -> Iterator[bytes]:
    """Records as lines of JSON, some at a time; whether their values fit is found out when these are read."""
    parts: list[bytes] = []
    held = 0
    for number, record in enumerate(records, start=1):
        try:
            # A NaN is written as such: reading refuses it, as every other value that does not fit.
            line = json.dumps(record, default=_to_json_form).encode() + b"\n"
        except (TypeError, ValueError, RecursionError) as error:
            type_, name = _find_unencodable(record)
            raise RecordError(RECORDS_NAME, number, type_, name, None, str(error), "record") from error
        parts.append(line)
        held += len(line)
        if held >= _CHUNK_BYTES:
            yield b"".join(parts)
            parts, held = [], 0
    if parts:
        yield b"".join(parts)


def _find_unencodable(record: object) -> tuple[str | None, str | None]:
    """Type and property of the first value that has no JSON form, where it is a property's."""
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
    """The JSON form of a Python value that has one beyond those that `json` knows."""
    own = to_python_value(value)
    match own:
        case InvalidValue(reason):
            raise TypeError(reason)
        case Mapping():
            return dict(own)
        case datetime() | date():
            return own.isoformat()
        case bytes() | bytearray() | memoryview():
            return BASE64_PREFIX + base64.b64encode(own).decode()
        case _ if own is not value:
            return own
        case _:
            items = to_items(value)
            if items is not value:
                return items
            msg = f"a {type(value).__name__} is no value of a record; make it text, a number or a list first"
            raise TypeError(msg)
