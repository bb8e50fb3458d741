"""`omnigraph diff`."""

from typing import TYPE_CHECKING, Any

import click

from omnigraph.cli.options import graph_options, json_option, open_selected_graph, refuse
from omnigraph.cli.render import format_table, get_binary_stdout, print_json, print_text, translate_output_errors

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from omnigraph.ops.row_diff import RowChangeCounts


@click.command("diff")
@click.argument("before", metavar="A")
@click.argument("after", metavar="B")
@click.argument("uri", required=False)
@graph_options
@click.option("--type", "types", multiple=True, metavar="TYPE", help="Only this type; may be given several times.")
@click.option(
    "--format",
    "format_",
    type=click.Choice(["table", "jsonl"]),
    default="table",
    show_default=True,
    help="How much differs in each type, or every change as a JSON object a line.",
)
@json_option
def command(
    *,
    before: str,
    after: str,
    uri: str | None,
    store: str | None,
    types: tuple[str, ...],
    format_: str,
    as_json: bool,
) -> int:
    """Show what differs between two states of a graph.

    A and B are branches, tags, commits, times, or commits or times of a branch: `main`, `review/x`, 01J…, `main@01J…`,
    `review/x@2026-01-31T12:00:00Z`. Rows that came, went or say something else are counted, and listed with
    --format jsonl, each with what it said before and says after. Only what differs is read. Before the rows comes what
    differs between the schemas.
    """
    if as_json and format_ == "jsonl":
        refuse("--json is one document of counts; leave it out for the lines of --format jsonl")
    graph = open_selected_graph(uri, store, read_only=True)
    found = graph.diff(before, after, types=types or None)
    if format_ == "jsonl":
        with translate_output_errors():
            get_binary_stdout().writelines(found.json_lines())
        return 0
    if as_json:
        print_json({"uri": graph.uri, **found.to_json()})
    else:
        told: dict[str, Any] = found.to_json()
        shape = format_schema_diff(told["schema"])
        print_text(shape + (format_json_counts(told["types"]) if told["types"] or not shape else "no row differs\n"))
    return 0


def format_schema_diff(told: "Mapping[str, Any] | None") -> str:
    """What differs between two schemas, in their JSON form, a line for each part; nothing if that is nothing."""
    if told is None:
        return ""
    lines = [line for type_ in told["types"] for line in _iter_schema_changes(type_)]
    return "".join(f"schema: {line}\n" for line in lines or ["only rules, indexes or descriptions"])


def _iter_schema_changes(told: "Mapping[str, Any]") -> "Iterator[str]":
    """What a new schema did to one type, a line for each part of it."""
    name = told.get("type", told.get("edge"))
    match told["change"]:
        case "dropped":
            yield f"{name} was dropped"
        case "added":
            yield f"{name} is new"
        case _:
            if told["previous"] != name:
                yield f"{told['previous']} is called {name}"
            yield from (f"{name}.{old} is called {new}" for old, new in told["renamed"].items())
            yield from (f"{name}.{new} is new" for new in told["added"])
            yield from (f"{name}.{old} was dropped" for old in told["dropped"])


def format_counts(counts: "Mapping[str, RowChangeCounts]") -> str:
    """How much changed in each type, as a table."""
    return format_json_counts({name: one.to_json() for name, one in counts.items()})


def format_json_counts(counts: "Mapping[str, Mapping[str, Any]]") -> str:
    """The same, of counts in their JSON form."""
    if not counts:
        return "no differences\n"
    rows = [
        (
            name,
            str(one["inserted"]),
            str(one["updated"]),
            str(one["deleted"]),
            ", ".join(f"{prop} ({number})" for prop, number in sorted(one["properties"].items())),
        )
        for name, one in counts.items()
    ]
    counted = ("inserted", "updated", "deleted")
    return format_table(("type", *counted, "changed properties"), rows, right=counted)
