"""Options about files as they are: how they are written, and what their columns become."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import PurePath
from typing import TYPE_CHECKING, Any, TypeVar

import click

import omnigraph
from omnigraph.cli.options import refuse
from omnigraph.cli.render import print_error
from omnigraph.lang.lexer import reveal

if TYPE_CHECKING:
    from omnigraph.ops.import_files import FileOptions, InferredSchema

F = TypeVar("F", bound=Callable[..., object])

# The endings of files that a graph can be made of, for arguments that may also be a graph.
TABLE_ENDINGS = (
    ".csv",
    ".tsv",
    ".tab",
    ".txt",
    ".json",
    ".jsonl",
    ".ndjson",
    ".parquet",
    ".orc",
    ".arrow",
    ".feather",
    ".sqlite",
    ".sqlite3",
    ".db",
    ".duckdb",
    ".ddb",
    ".graphml",
)
_COMPRESSED = (".gz", ".bz2", ".xz", ".zst")
NAMES = (
    "input_format",
    "delimiter",
    "encoding",
    "no_header",
    "nulls",
    "trues",
    "falses",
    "decimal",
    "thousands",
    "date_format",
    "datetime_format",
)
_OPTIONS = (
    click.option(
        "--input-format",
        type=click.Choice(
            [
                *("csv", "tsv", "json", "jsonl", "parquet", "orc", "arrow", "sqlite", "duckdb"),
                *("graphml", "node-link", "apoc-json", "neo4j-csv"),
            ]
        ),
        help="The format of files whose names don't say it, and of `-`.",
    ),
    click.option("--delimiter", metavar="CHAR", help="What separates cells; \\t is a tab. Guessed from the header."),
    click.option("--encoding", metavar="NAME", help="The encoding of text files; utf-8 if left out."),
    click.option("--no-header", is_flag=True, help="The first line is a row: columns are column1, column2, …"),
    click.option("--null", "nulls", multiple=True, metavar="TEXT", help="An unquoted cell that is null; repeatable."),
    click.option("--true", "trues", multiple=True, metavar="TEXT", help="A cell that is true; repeatable."),
    click.option("--false", "falses", multiple=True, metavar="TEXT", help="A cell that is false; repeatable."),
    click.option("--decimal", metavar="CHAR", help="The decimal point of numbers."),
    click.option("--thousands", metavar="CHAR", help="What separates thousands in numbers."),
    click.option("--date-format", metavar="FORMAT", help="The form of dates, such as %d.%m.%Y."),
    click.option("--datetime-format", metavar="FORMAT", help="The form of times; without a zone they are UTC."),
)


def file_options(function: F) -> F:
    """Add the options about how files are written."""
    for option in reversed(_OPTIONS):
        function = option(function)
    return function


def has_file_options(values: Mapping[str, Any]) -> bool:
    """Return whether any of these options was given."""
    return any(values[name] for name in NAMES)


def build_file_options(values: Mapping[str, Any]) -> "FileOptions":
    """Build what the options say; what was left out is as usual."""
    delimiter = values["delimiter"]
    given = {
        "input_format": values["input_format"],
        "delimiter": "\t" if delimiter == "\\t" else delimiter,
        "encoding": values["encoding"],
        "header": False if values["no_header"] else None,
        "null": values["nulls"] or None,
        "true": values["trues"] or None,
        "false": values["falses"] or None,
        "decimal": values["decimal"],
        "thousands": values["thousands"],
        "date_format": values["date_format"],
        "datetime_format": values["datetime_format"],
    }
    return omnigraph.FileOptions(**{name: value for name, value in given.items() if value is not None})


def print_findings(inferred: "InferredSchema") -> None:
    """Print on stderr what of the files does not fit a typed graph as it is."""
    for finding in inferred.findings:
        print_error(f"note: {reveal(finding)}")


def parse_typed_paths(option: str, pairs: Sequence[str], what: str = "PATH") -> dict[str, list[str]]:
    """Parse TYPE=PATH pairs into paths by type, or pairs with something else."""
    paths: dict[str, list[str]] = {}
    for pair in pairs:
        name, sign, path = pair.partition("=")
        if not (name and sign and path):
            refuse(f"{option} takes TYPE={what}, not `{pair}`")
        paths.setdefault(name, []).append(path)
    return paths


def is_table_file(text: str) -> bool:
    """Return whether a text names a file of rows by its ending."""
    path = PurePath(text.lower())
    return (path.stem if path.suffix in _COMPRESSED else path.name).endswith(TABLE_ENDINGS)
