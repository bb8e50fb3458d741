"""`omnigraph branch delete`."""

import click

from omnigraph.cli.confirm import confirm_on_remote
from omnigraph.cli.options import graph_options, json_option, open_selected_graph, resolve_graph_uri
from omnigraph.cli.render import print_json, print_text


@click.command("delete")
@click.argument("name")
@click.argument("uri", required=False)
@graph_options
@click.option("--yes", "is_sure", is_flag=True, help="Don't ask before a branch on a remote store is deleted.")
@json_option
def command(name: str, uri: str | None, store: str | None, is_sure: bool, as_json: bool) -> int:
    """Delete a branch, with its commits.

    What was merged into other branches stays there. A branch that others were taken from is deleted after those.
    """
    target = resolve_graph_uri(uri, store)
    if not is_sure:
        confirm_on_remote(
            target,
            action=f"deleting the branch `{name}` of {target}",
            question=f"Delete the branch `{name}` of {target}, with its commits?",
            otherwise="nothing is deleted",
        )
    graph = open_selected_graph(uri, store)
    branch = graph.branches.delete(name)
    if as_json:
        print_json({"uri": graph.uri, "deleted": branch.to_json()})
    else:
        print_text(f"branch {branch.name} is deleted\n")
    return 0
