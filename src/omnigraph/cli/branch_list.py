"""`omnigraph branch list`."""

import click

from omnigraph.cli.options import json_option, opened_graph, place_options
from omnigraph.cli.render import print_json, print_text, table_text


@click.command("list")
@click.argument("uri", required=False)
@place_options
@json_option
def command(uri: str | None, store: str | None, as_json: bool) -> int:
    """List the branches of a graph.

    Each with the branch and commit that it was taken from; main, which every graph has, comes first.
    """
    graph = opened_graph(uri, store, read_only=True)
    branches = graph.branches.list()
    if as_json:
        print_json({"uri": graph.uri, "branches": [branch.to_json() for branch in branches]})
    else:
        rows = [
            (one.name, one.parent_branch or "", one.parent_commit or "", one.created_at or "", one.created_by or "")
            for one in branches
        ]
        print_text(table_text(("branch", "from", "commit", "at", "by"), rows))
    return 0
