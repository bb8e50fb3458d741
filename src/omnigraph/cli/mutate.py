"""`omnigraph mutate`: run a mutation query."""

from typing import TYPE_CHECKING

import click

from omnigraph.cli.options import (
    json_option,
    limit_options,
    open_selected_graph,
    parse_params,
    query_options,
    read_query,
    split_name_and_uri,
)
from omnigraph.cli.render import format_count, format_table, print_json, print_text

if TYPE_CHECKING:
    from omnigraph.ops.mutate import MutationResult


@click.command("mutate")
@query_options
@click.option("--if-commit", metavar="ID", help="Run only if this commit is still the newest.")
@click.option("--as", "actor", default="anonymous", metavar="ACTOR", help="The actor recorded with the commit.")
@click.option("--message", metavar="TEXT", help="A message stored with the commit.")
@click.option(
    "--idempotency-key",
    metavar="KEY",
    help="A repeated mutation with the same key within 7 days has no effect; a different request is rejected.",
)
@limit_options
@json_option
def command(  # noqa: PLR0913 - one argument per option
    *,
    words: tuple[str, ...],
    store: str | None,
    path: str | None,
    text: str | None,
    params: str | None,
    pairs: tuple[str, ...],
    branch: str,
    if_commit: str | None,
    actor: str,
    message: str | None,
    idempotency_key: str | None,
    seconds: float | None,
    memory_bytes: int | None,
    as_json: bool,
) -> int:
    """Run a mutation query in one commit.

    NAME selects one query of the file; it can be omitted if there is only one. A single word is the URI, unless the
    graph is given by --store or OMNIGRAPH_STORE: then it is the NAME. `-` reads the queries from stdin. A mutation
    without effect makes no commit. The rows of `returning` are printed before the counts.
    """
    name, uri = split_name_and_uri(words, store)
    source = read_query(path, text)
    result = open_selected_graph(uri, store).mutate(
        source,
        name=name,
        params=parse_params(params, pairs),
        branch=branch,
        actor=actor,
        message=message,
        idempotency_key=idempotency_key,
        if_commit=if_commit,
        seconds=seconds,
        memory_bytes=memory_bytes,
    )
    if as_json:
        print_json(result.to_json())
    else:
        print_text(_format_result(result))
    return 0


def _format_result(result: "MutationResult") -> str:
    counts = f"{format_count(result.affected_nodes, 'node')}, {format_count(result.affected_edges, 'edge')}"
    existing = (result.existing_nodes or 0) + (result.existing_edges or 0)
    if existing:
        counts += f" ({existing:,} existed)"
    rows = ""
    if result.rows is not None and result.columns is not None:
        cells = [[_format_cell(row[name]) for name in result.columns] for row in result.rows]
        rows = format_table(result.columns, cells) + "\n" if cells else "no rows returned\n"
    if result.commit_id is None:
        return f"{rows}{counts}: nothing to change\n"
    return f"{rows}{counts}\ncommit {result.commit_id}\n"


def _format_cell(value: object) -> str:
    """Format a value of a returned row; anything but a text as JSON."""
    # Only a mutation that returns rows needs it, and `--help` must stay cheap.
    import msgspec  # noqa: PLC0415

    return value if isinstance(value, str) else msgspec.json.encode(value).decode()
