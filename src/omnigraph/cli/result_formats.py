"""Output formats of query results: table and records for people; JSON, CSV, Arrow and Parquet for programs."""

import json
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import PurePath
from typing import TYPE_CHECKING, BinaryIO, cast

import click

from omnigraph.cli.options import Command, combine_options, is_wide, measure_table, refuse, wide_option
from omnigraph.cli.output_files import open_output_file
from omnigraph.cli.render import (
    TerminalBytes,
    escape_json,
    find_column_limit,
    format_count,
    format_facts,
    format_json,
    format_table,
    get_binary_stdout,
    measure_width,
    print_error,
    print_json,
    print_text,
    reveal_lines,
    shorten_to_width,
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
# A table is for people, who do not read more rows than this; programs use another format.
MAX_TABLE_ROWS = 1_000
# Terminal columns of one value in a table.
MAX_CELL_WIDTH = 80
# Rows encoded per chunk of a JSON document, which may be larger than memory.
_BATCH_ROWS = 1_024
_INDENT = 2
_NULL = "null"
# Arrow types whose columns are right-aligned, whatever their values look like in JSON.
_NUMBER_TYPES = ("int32", "int64", "uint32", "uint64", "float", "double")

result_options: Callable[[Command], Command] = combine_options(
    click.option(
        "--format",
        "format_",
        type=click.Choice(FORMATS),
        help="The output format; by default a table, or the format that the suffix of --output selects.",
    ),
    click.option("--output", metavar="FILE", help="Write the rows to a file."),
    wide_option,
)


def resolve_format(format_: str | None, output: str | None, *, as_json: bool) -> str:
    """Return the output format selected by --format, --json or the suffix of the output file.

    Raises:
        click.UsageError: the options contradict each other, or none of them selects a format.
    """
    if output is not None:
        if output == "-":
            refuse("--output names a file; without it the result goes to stdout")
        selected = format_ or _FORMAT_BY_SUFFIX.get(PurePath(output).suffix.lower())
        if selected is None:
            refuse(f"the name `{output}` selects no format: use --format, or a suffix such as .csv or .jsonl")
        return selected
    if as_json:
        if format_ not in (None, "json"):
            refuse(f"--json prints the result as JSON: give either --json or --format {format_}")
        return "json"
    selected = format_ or "table"
    if selected in BINARY_FORMATS and sys.stdout.isatty():
        refuse(f"{selected} is binary, not for a terminal: name a file with --output, or pipe it into a program")
    return selected


def write_result(result: "Result", format_: str, output: str | None, *, as_json: bool) -> None:
    """Print a result, or write it to a file and print a summary; notes go to stderr."""
    for note in result.notes:
        print_error(f"note: {note}")
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
    facts: dict[str, object] = {
        "query_name": result.query_name,
        "target": result.target.to_json(),
        "commit_id": result.commit_id,
        "row_count": result.row_count,
        "columns": list(result.columns),
        "types": [column.to_json() for column in result.types],
    }
    return {**facts, "notes": list(result.notes)} if result.notes else facts


def _print(result: "Result", format_: str) -> None:
    match format_:
        case "json":
            for text in iter_json_document(result, lambda value: format_json(value, sys.stdout, indent=_INDENT)):
                print_text(text)
        case "table":
            print_text(format_result_table(result, measure_table(), is_whole=is_wide()))
        case "kv":
            for text in iter_records(result):
                print_text(text)
        case _:
            with translate_output_errors():
                result.write(_open_stdout(format_), "arrow_stream" if format_ == "arrow" else format_)


def _open_stdout(format_: str) -> BinaryIO:
    """Return stdout for bytes; a terminal gets no character that it would obey."""
    if sys.stdout.isatty():
        return cast("BinaryIO", TerminalBytes(reveal_lines if format_ == "csv" else escape_json))
    return get_binary_stdout()


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
    """Yield the JSON document of `Result.to_json` in chunks of rows, as it may be larger than memory."""
    head = encode(_build_facts(result))
    gap = " " * _INDENT
    yield head.removesuffix("\n}") + f',\n{gap}"rows": ['
    rows = result.json_rows()
    is_first = True
    while batch := list(islice(rows, _BATCH_ROWS)):
        # Only the inside of the encoded list is written, one level deeper than it was encoded.
        lines = encode(batch).removeprefix("[").removesuffix("\n]").replace("\n", f"\n{gap}")
        yield lines if is_first else f",{lines}"
        is_first = False
    yield "]\n}\n" if is_first else f"\n{gap}]\n}}\n"


# --- for people ------------------------------------------------------------------------------------------


def format_result_table(result: "Result", max_width: int | None = None, *, is_whole: bool = False) -> str:
    """Format the first rows as a table, with a note if rows are omitted or values shortened.

    Lines fit into `max_width` terminal columns; with `is_whole` no value is shortened.
    """
    rows = list(islice(result.json_rows(MAX_TABLE_ROWS), MAX_TABLE_ROWS))
    texts = [[_format_cell(row[name]) for name in result.columns] for row in rows]
    limit = None if is_whole else _find_cell_limit([result.columns, *texts], max_width)
    is_shortened = limit is not None and any(measure_width(cell) > limit for row in texts for cell in row)
    notes = [format_count(result.row_count, "row")]
    if len(rows) < result.row_count:
        notes = [f"the first {len(rows):,} of {result.row_count:,} rows; --format jsonl or csv prints all"]
    if limit is not None and is_shortened:
        texts = [[shorten_to_width(cell, limit) for cell in row] for row in texts]
        notes.append("long values are shortened; --format kv shows them whole")
    headers = result.columns if limit is None else [shorten_to_width(name, limit) for name in result.columns]
    numbers = [header for header, field in zip(headers, result.schema, strict=True) if str(field.type) in _NUMBER_TYPES]
    return f"{format_table(headers, texts, right=numbers)}\n{'; '.join(notes)}\n"


def _find_cell_limit(cells: Sequence[Sequence[str]], max_width: int | None) -> int:
    """Return the terminal columns of one value: at most `MAX_CELL_WIDTH`, and fewer if a line would not fit."""
    if max_width is None:
        return MAX_CELL_WIDTH
    widths = [max(min(measure_width(cell), MAX_CELL_WIDTH) for cell in column) for column in zip(*cells, strict=True)]
    return min(find_column_limit(widths, max_width), MAX_CELL_WIDTH)


def iter_records(result: "Result") -> Iterator[str]:
    """Yield each row as lines of `name  value`, below a line with its number."""
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
