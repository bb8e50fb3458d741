"""`omnigraph branch list`."""

import click

from omnigraph.cli.options import graph_options, json_option, open_selected_graph
from omnigraph.cli.render import format_table, print_json, print_text


@click.command("list")
@click.argument("uri", required=False)
@graph_options
@json_option
def command(uri: str | None, store: str | None, as_json: bool) -> int:
    """List the branches of a graph.

    Each with the branch and commit that it was taken from; main, which every graph has, comes first.
    """
    graph = open_selected_graph(uri, store, read_only=True)
    branches = graph.branches.list()
    if as_json:
        print_json({"uri": graph.uri, "branches": [branch.to_json() for branch in branches]})
    else:
        rows = [
            (one.name, one.parent_branch or "", one.parent_commit or "", one.created_at or "", one.created_by or "")
            for one in branches
        ]
        print_text(format_table(("branch", "from", "commit", "at", "by"), rows))
    return 0
