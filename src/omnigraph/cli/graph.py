"""`omnigraph graph`: list, create and delete the graphs of a server."""

from typing import TYPE_CHECKING

import click

from omnigraph.cli.confirm import confirm
from omnigraph.cli.input_files import read_source
from omnigraph.cli.lazy_groups import load_member
from omnigraph.cli.options import find_server, json_option, server_option
from omnigraph.cli.render import print_json, print_text

if TYPE_CHECKING:
    from omnigraph.server.client.server_graphs import ServerGraphs


@click.command("create")
@click.argument("graph", metavar="ID")
@server_option
@click.option("--schema", required=True, metavar="FILE", help="The schema file (.pg).")
@json_option
def create(*, graph: str, schema: str, as_json: bool) -> int:
    """Create an empty graph on a server.

    The server needs a place for graphs of clients, `graph_root`, and a policy that names the action `graph_create`.
    `-` reads the schema from stdin.
    """
    source = read_source(schema)
    with _open_graphs() as graphs:
        commit_id = graphs.create(graph, source)
    if as_json:
        print_json({"server": graphs.url, "graph": graph, "commit_id": commit_id})
    else:
        print_text(f"created graph {graph} on {graphs.url}, commit {commit_id}\n")
    return 0


@click.command("delete")
@click.argument("graph", metavar="ID")
@server_option
@click.option("--yes", "assume_yes", is_flag=True, help="Do not ask before deleting the graph.")
@json_option
def delete(*, graph: str, assume_yes: bool, as_json: bool) -> int:
    """Delete a graph that a client created on a server, with all of its data.

    It can't be restored, except from a backup.
    """
    with _open_graphs() as graphs:
        if not assume_yes:
            confirm(
                f"deleting the graph `{graph}` of {graphs.url}",
                question=f"Delete the graph `{graph}` of {graphs.url}, with all of its data?",
                otherwise="nothing was deleted",
            )
        graphs.delete(graph)
    if as_json:
        print_json({"server": graphs.url, "deleted": graph})
    else:
        print_text(f"deleted graph {graph} on {graphs.url}\n")
    return 0


@click.command("list")
@server_option
@json_option
def list_(*, as_json: bool) -> int:
    """List the graphs of a server that you may see."""
    with _open_graphs() as graphs:
        names = graphs.list()
    if as_json:
        print_json({"server": graphs.url, "graphs": names})
    else:
        print_text("".join(f"{name}\n" for name in names))
    return 0


def _open_graphs() -> "ServerGraphs":
    """Connect to the server of a command."""
    url, token = find_server()
    graphs: ServerGraphs = load_member("omnigraph.server.client.server_graphs:connect_server")(url, token)
    return graphs
