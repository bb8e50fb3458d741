"""The rows of a query for people and for programs: a table, records, JSON, CSV, Arrow, Parquet."""

import json
import sys
from collections.abc import Callable, Iterator, Mapping
from itertools import islice
from pathlib import PurePath
from typing import TYPE_CHECKING, BinaryIO

from omnigraph.cli.options import refuse
from omnigraph.cli.output_files import open_output_file
from omnigraph.cli.render import (
    format_count,
    format_facts,
    format_json,
    format_table,
    get_binary_stdout,
    measure_width,
    print_json,
    print_text,
    translate_output_errors,
)
from omnigraph.lang.lexer import reveal

if TYPE_CHECKING:
    from omnigraph.engine.result import Result

FORMATS = ("table", "json", "jsonl", "csv", "kv", "arrow", "parquet")
BINARY_FORMATS = ("arrow", "parquet")
_FORMAT_BY_SUFFIX = {
    ".json": "json",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".csv": "csv",
    ".txt": "table",
    ".arrow": "arrow",
    ".parquet": "parquet",
}
MAX_TABLE_ROWS = 1_000
"""People read no more rows than these; a program takes another format."""
MAX_CELL_WIDTH = 80
"""Columns of the terminal that one value of a table may take."""
_BATCH_ROWS = 1_024
_INDENT = 2
_NULL = "null"
_NUMBER_TYPES = ("int32", "int64", "uint32", "uint64", "float", "double")
"""Arrow's types of columns that are aligned as numbers, whatever they look like in JSON."""


def resolve_format(format_: str | None, output: str | None, *, as_json: bool) -> str:
    """The format that is asked for, by name, by --json or by the end of the file's name; what can't be is refused."""
    if output is not None:
        if output == "-":
            refuse("--output names a file; without it the result goes to stdout")
        chosen = format_ or _FORMAT_BY_SUFFIX.get(PurePath(output).suffix.lower())
        if chosen is None:
            refuse(f"say what to write to `{output}` with --format, or let its name end with .csv, .jsonl or the like")
        return chosen
    if as_json:
        if format_ not in (None, "json"):
            refuse(f"--json prints the result as JSON: give either --json or --format {format_}")
        return "json"
    chosen = format_ or "table"
    if chosen in BINARY_FORMATS and sys.stdout.isatty():
        refuse(f"{chosen} is not for a terminal: name a file with --output, or pipe it into a program")
    return chosen


def write_result(result: "Result", format_: str, output: str | None, *, as_json: bool) -> None:
    """Print a result, or write it to a file and print what was written."""
    if output is None:
        _print(result, format_)
        return
    with open_output_file(output) as file:
        _write(result, format_, file)
    if as_json:
        print_json({"output": output, "format": format_, **_build_facts(result)})
    else:
        rows = f"{result.row_count:,}"
        print_text(format_facts({"output": output, "format": format_, "rows": rows, "commit": result.commit_id}))


def _build_facts(result: "Result") -> dict[str, object]:
    return {
        "query_name": result.query_name,
        "target": result.target.to_json(),
        "commit_id": result.commit_id,
        "row_count": result.row_count,
        "columns": list(result.columns),
    }


def _print(result: "Result", format_: str) -> None:
    match format_:
        case "json":
            for text in iter_json_document(result, lambda value: format_json(value, sys.stdout, indent=_INDENT)):
                print_text(text)
        case "table":
            print_text(format_result_table(result))
        case "kv":
            for text in iter_records(result):
                print_text(text)
        case _:
            with translate_output_errors():
                result.write(get_binary_stdout(), "arrow_stream" if format_ == "arrow" else format_)


def _write(result: "Result", format_: str, file: BinaryIO) -> None:
    match format_:
        case "json":
            document = iter_json_document(result, lambda value: json.dumps(value, ensure_ascii=False, indent=_INDENT))
            file.writelines(text.encode() for text in document)
        case "table":
            file.write(format_result_table(result).encode())
        case "kv":
            file.writelines(text.encode() for text in iter_records(result))
        case _:
            result.write(file, format_)


# --- for programs ----------------------------------------------------------------------------------------


def iter_json_document(result: "Result", encode: Callable[[object], str]) -> Iterator[str]:
    """The JSON document that `Result.to_json` is, some rows at a time: it may be larger than memory."""
    head = encode(_build_facts(result))
    gap = " " * _INDENT
    yield head.removesuffix("\n}") + f',\n{gap}"rows": ['
    rows = result.json_rows()
    is_first = True
    while some := list(islice(rows, _BATCH_ROWS)):
        lines = encode(some).removeprefix("[").removesuffix("\n]").replace("\n", f"\n{gap}")
        yield lines if is_first else f",{lines}"
        is_first = False
    yield "]\n}\n" if is_first else f"\n{gap}]\n}}\n"


# --- for people ------------------------------------------------------------------------------------------


def format_result_table(result: "Result") -> str:
    """The first rows, aligned; what was left out or shortened is said below."""
    rows = list(islice(result.json_rows(MAX_TABLE_ROWS), MAX_TABLE_ROWS))
    numbers = [field.name for field in result.schema if str(field.type) in _NUMBER_TYPES]
    texts = [[_format_cell(row[name]) for name in result.columns] for row in rows]
    is_cut = any(measure_width(cell) > MAX_CELL_WIDTH for row in texts for cell in row)
    shown = [[_truncate(cell) for cell in row] for row in texts] if is_cut else texts
    notes = [format_count(result.row_count, "row")]
    if len(rows) < result.row_count:
        notes = [f"the first {len(rows):,} of {result.row_count:,} rows; --format jsonl or csv gives all"]
    if is_cut:
        notes.append("long values are shortened; --format kv shows them whole")
    return f"{format_table(result.columns, shown, right=numbers)}\n{'; '.join(notes)}\n"


def iter_records(result: "Result") -> Iterator[str]:
    """Each row as lines of `name  value`, under a line with its number."""
    if not result.row_count:
        yield "0 rows\n"
    for number, row in enumerate(result.json_rows(), start=1):
        gap = "" if number == 1 else "\n"
        yield f"{gap}row {number}\n" + _indent_facts({name: _format_value(value) for name, value in row.items()})


def _indent_facts(facts: Mapping[str, str]) -> str:
    return "".join(f"  {line}\n" for line in format_facts(facts).splitlines())


def _format_cell(value: object) -> str:
    return reveal(_format_value(value))


def _format_value(value: object) -> str:
    match value:
        case None:
            return _NULL
        case str():
            return value
        case _:
            return json.dumps(value, ensure_ascii=False)


def _truncate(cell: str) -> str:
    if measure_width(cell) <= MAX_CELL_WIDTH:
        return cell
    width, kept = 1, ""
    for char in cell:
        width += measure_width(char)
        if width > MAX_CELL_WIDTH:
            break
        kept += char
    return kept + "…"
