"""`omnigraph schema show`."""

from datetime import datetime

import click

from omnigraph.cli.options import (
    at_option,
    branch_option,
    graph_options,
    json_option,
    open_selected_graph,
    refuse,
    snapshot_option,
)
from omnigraph.cli.render import print_json, print_text


@click.command("show")
@click.argument("uri", required=False)
@graph_options
@branch_option
@snapshot_option
@at_option
@json_option
def command(
    *, uri: str | None, store: str | None, branch: str, commit_id: str | None, at: datetime | None, as_json: bool
) -> int:
    """Print the schema that a graph has, as it was written.

    That of the newest state, unless a commit or a time is named: each snapshot keeps the schema that it had.
    """
    if commit_id is not None and at is not None:
        refuse("give either --snapshot or --at, not both")
    graph = open_selected_graph(uri, store, read_only=True)
    schema = graph.accepted_schema(branch=branch, snapshot=commit_id, at=at)
    if as_json:
        print_json(schema.to_json())
    else:
        print_text(schema.source if schema.source.endswith("\n") else schema.source + "\n")
    return 0
