"""`omnigraph diff`: compare two states of a graph."""

import json
from typing import TYPE_CHECKING, Any

import click

from omnigraph.cli.options import (
    graph_options,
    is_graph_word,
    is_wide,
    json_option,
    measure_table,
    open_selected_graph,
    refuse,
    wide_option,
)
from omnigraph.cli.render import format_table, get_binary_stdout, print_json, print_text, translate_output_errors
from omnigraph.cli.row_changes import format_changes

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from omnigraph.ops.row_diff import RowChangeCounts

# No more changed rows than this are listed below the counts: a screenful.
MAX_LISTED_CHANGES = 20

# Between two states, for the differences from their merge base.
MERGE_BASE = "..."


@click.command("diff")
@click.argument("before", metavar="A")
@click.argument("after", metavar="B", required=False)
@click.argument("uri", required=False)
@graph_options
@click.option("--type", "types", multiple=True, metavar="TYPE", help="Only this type; may be repeated.")
@click.option(
    "--format",
    "format_",
    type=click.Choice(["table", "jsonl"]),
    default="table",
    show_default=True,
    help="Counts per type, or one JSON object per change and line.",
)
@wide_option
@json_option
def command(
    *,
    before: str,
    after: str | None,
    uri: str | None,
    store: str | None,
    types: tuple[str, ...],
    format_: str,
    as_json: bool,
) -> int:
    """Show the differences between two states of a graph.

    A and B are branches, tags, commits (a unique part of the id is enough), times, or commits or times of a branch:
    `main`, `review/x`, 01J…, `main@01J…`, `review/x@2026-01-31T12:00:00Z`, `main@2h`; `main~2` is two commits before.
    `A...B` as one word compares B with the merge base of both: what a merge of B would bring. Inserted, updated and
    deleted rows are counted per type; up to 20 are listed below. --format jsonl lists any number, each with its values
    before and after. Only data that differs is read. Differences between the schemas come first.
    """
    if as_json and format_ == "jsonl":
        refuse("--json prints one document of counts; leave it out with --format jsonl")
    if MERGE_BASE in before and uri is None and after is not None and is_graph_word(after, store):
        # `A...B GRAPH`: one word and the graph, which is then the only other argument.
        uri, after = after, None
    if after is None:
        after = before.partition(MERGE_BASE)[2]
        if not after:
            refuse("give two states, A and B, or A...B for the differences of B from the merge base")
    graph = open_selected_graph(uri, store, read_only=True)
    diff = graph.diff(before, after, types=types or None)
    if format_ == "jsonl":
        with translate_output_errors():
            get_binary_stdout().writelines(diff.json_lines())
        return 0
    if as_json:
        print_json({"uri": graph.uri, **diff.to_json()})
    else:
        document: dict[str, Any] = diff.to_json()
        schema_text = format_schema_diff(document["schema"])
        # With equal schemas and rows, `format_json_counts` itself reports that there are no differences.
        has_counts = document["types"] or not schema_text
        print_text(schema_text + (format_json_counts(document["types"]) if has_counts else "no row differs\n"))
        if 0 < _count_changes(document["types"]) <= MAX_LISTED_CHANGES:
            changes = (json.loads(line) for line in diff.json_lines())
            print_text("\n" + format_changes(changes, measure_table(), is_whole=is_wide()))
    return 0


def _count_changes(counts: "Mapping[str, Mapping[str, Any]]") -> int:
    return sum(type_counts[kind] for type_counts in counts.values() for kind in ("inserted", "updated", "deleted"))


def format_schema_diff(schema_diff: "Mapping[str, Any] | None") -> str:
    """Format the JSON form of a schema diff, one line per change; an empty text if there is none."""
    if schema_diff is None:
        return ""
    lines = [line for type_ in schema_diff["types"] for line in _iter_schema_changes(type_)]
    return "".join(f"schema: {line}\n" for line in lines or ["only rules, indexes or descriptions"])


def _iter_schema_changes(type_diff: "Mapping[str, Any]") -> "Iterator[str]":
    """Yield one line per change of a type."""
    name = type_diff.get("type", type_diff.get("edge"))
    match type_diff["change"]:
        case "dropped":
            yield f"{name} was dropped"
        case "added":
            yield f"{name} is new"
        case _:
            if type_diff["previous"] != name:
                yield f"{type_diff['previous']} was renamed to {name}"
            yield from (f"{name}.{old} was renamed to {new}" for old, new in type_diff["renamed"].items())
            yield from (f"{name}.{new} is new" for new in type_diff["added"])
            yield from (f"{name}.{old} was dropped" for old in type_diff["dropped"])


def format_counts(counts: "Mapping[str, RowChangeCounts]") -> str:
    """Format the number of changed rows per type as a table."""
    return format_json_counts({name: type_counts.to_json() for name, type_counts in counts.items()})


def format_json_counts(counts: "Mapping[str, Mapping[str, Any]]") -> str:
    """Format counts like `format_counts`, given in their JSON form."""
    if not counts:
        return "no differences\n"
    rows = [
        (
            name,
            str(type_counts["inserted"]),
            str(type_counts["updated"]),
            str(type_counts["deleted"]),
            ", ".join(f"{prop} ({count})" for prop, count in sorted(type_counts["properties"].items())),
        )
        for name, type_counts in counts.items()
    ]
    number_columns = ("inserted", "updated", "deleted")
    return format_table(("type", *number_columns, "changed properties"), rows, right=number_columns)
