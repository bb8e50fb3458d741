"""`omnigraph tag list`."""

import click

from omnigraph.cli.options import graph_options, json_option, open_selected_graph
from omnigraph.cli.render import format_table, print_json, print_text


@click.command("list")
@click.argument("uri", required=False)
@graph_options
@json_option
def command(uri: str | None, store: str | None, as_json: bool) -> int:
    """List the tags of a graph.

    Each with its commit, and the branch that this was made on, which may have been deleted since.
    """
    graph = open_selected_graph(uri, store, read_only=True)
    tags = graph.tags.list()
    if as_json:
        print_json({"uri": graph.uri, "tags": [tag.to_json() for tag in tags]})
    else:
        rows = [(one.name, one.commit_id, one.branch, one.created_at, one.created_by) for one in tags]
        print_text(format_table(("tag", "commit", "branch", "at", "by"), rows) if rows else "no tags\n")
    return 0
