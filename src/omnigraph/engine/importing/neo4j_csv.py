"""Read the CSV files of `neo4j-admin database import`, whose headers say what each column is."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from omnigraph.engine.decoding.input_files import FileDamagedError
from omnigraph.engine.importing.csv_dialect import Cell
from omnigraph.engine.importing.graph_spool import EDGE, GraphEdge, GraphNode, NodeId
from omnigraph.engine.importing.source_tables import SourceTable

_FIELD = re.compile(r"(?P<name>.*?)(?::(?P<type>[A-Za-z_]+)(?:\((?P<space>[^)]*)\))?(?P<list>\[\])?)?(?:\{[^}]*\})?")
_MARKS = frozenset({"ID", "START_ID", "END_ID", "LABEL", "TYPE", "IGNORE"})
_LIST_SIGN = ";"
_BOOLS = {"true": True, "false": False}


@dataclass(frozen=True, slots=True)
class _Field:
    """A column: a mark such as ID, or the type of a property."""

    name: str
    type: str
    space: str
    is_list: bool


def is_neo4j_header(columns: Sequence[str]) -> bool:
    """Return whether a header is one of nodes or relationships."""
    marks = {field.type for field in map(_parse_field, columns)}
    return "ID" in marks or {"START_ID", "END_ID"} <= marks


def _parse_field(text: str) -> _Field:
    match = _FIELD.fullmatch(text)
    if match is None or match["type"] is None:
        return _Field(text, "string", "", is_list=False)
    type_ = match["type"].upper()
    kind = type_ if type_ in _MARKS else match["type"].lower()
    return _Field(match["name"], kind, match["space"] or "", is_list=match["list"] is not None)


def read_neo4j_csv(table: SourceTable, name: str | None = None) -> Iterator[GraphNode | GraphEdge]:
    """Yield the nodes or relationships of a file; `name` is the label or type of rows that have none.

    Raises:
        FileDamagedError: The header is none of these, or a cell is no value of its column; with the line.
    """
    path = str(table.path)
    fields = [_parse_field(column) for column in table.columns]
    unknown = next((field for field in fields if field.type not in _MARKS and field.type not in _PARSERS), None)
    if unknown is not None:
        raise FileDamagedError(path, f"the column `{unknown.name}` has the unknown type `{unknown.type}`")
    marks = {mark: [at for at, field in enumerate(fields) if field.type == mark] for mark in _MARKS}
    is_node = bool(marks["ID"])
    needed = ("ID",) if is_node else ("START_ID", "END_ID")
    if any(len(marks[mark]) != 1 for mark in needed):
        reason = "its header needs one column :ID, or one :START_ID and one :END_ID; ids can't be of several"
        raise FileDamagedError(path, reason)
    list_sign = "|" if table.dialect.delimiter == _LIST_SIGN else _LIST_SIGN
    for line, cells in table.read():
        values: dict[str, object] = {}
        for field, cell in zip(fields, cells, strict=True):
            if field.type not in _MARKS and (cell.text or cell.is_quoted):
                values[field.name] = _parse_cell(path, line, field, cell, list_sign)
        ends = [_read_end(path, line, fields[marks[mark][0]], cells[marks[mark][0]]) for mark in needed]
        if is_node:
            texts = [text for at in marks["LABEL"] for text in cells[at].text.split(list_sign) if text]
            given = [text for text in (name or "").split(":") if text]
            id_name = fields[marks["ID"][0]].name or "id"
            yield GraphNode(place=line, id=ends[0], id_name=id_name, labels=[*given, *texts], values=values)
        else:
            type_ = next((cells[at].text for at in marks["TYPE"] if cells[at].text), name) or EDGE
            yield GraphEdge(place=line, type=type_, source=ends[0], target=ends[1], values=values)


def _read_end(path: str, line: int, field: _Field, cell: Cell) -> NodeId:
    if not cell.text:
        raise FileDamagedError(path, f"line {line}: the cell of {field.name}:{field.type} is empty")
    return NodeId(cell.text, field.space)


def _parse_cell(path: str, line: int, field: _Field, cell: Cell, list_sign: str) -> object:
    parser = _PARSERS.get(field.type, str)
    try:
        if field.is_list:
            return [parser(text) for text in cell.text.split(list_sign)] if cell.text else []
        return parser(cell.text)
    except (ValueError, KeyError) as error:
        what = f"{field.type}[]" if field.is_list else field.type
        reason = f"line {line}: `{cell.text[:40]}` of the column `{field.name}` is no {what}"
        raise FileDamagedError(path, reason) from error


def _parse_bool(text: str) -> bool:
    return _BOOLS[text.strip().lower()]


# Times, points and durations are texts; times in ISO form are recognised as those of other files are.
_PARSERS: Mapping[str, Callable[[str], object]] = {
    **dict.fromkeys(("int", "long", "short", "byte"), int),
    **dict.fromkeys(("float", "double"), float),
    "boolean": _parse_bool,
    **dict.fromkeys(
        (
            *("string", "char", "date", "time", "localtime", "datetime", "localdatetime", "duration", "point"),
            *("vector", "id"),
        ),
        str,
    ),
}
