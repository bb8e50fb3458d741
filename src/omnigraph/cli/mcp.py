"""`omnigraph mcp`: serve a graph over MCP."""

import click
from click.core import ParameterSource

import omnigraph
from omnigraph.cli.options import json_option, refuse, store_option


@click.command("mcp")
@click.argument("uri", required=False)
@store_option
@click.option("--config", metavar="FILE", help="The settings file; by default omnigraph.toml, if no graph is named.")
@click.option("--graph", metavar="ID", help="The graph of the settings to serve.")
@click.option("--queries", metavar="DIR", help="A directory of stored queries; each becomes a tool.")
@click.option("--write", is_flag=True, help="Let the agent write, too, if there are no policies.")
@click.option("--as", "actor", metavar="NAME", help="The actor the agent acts for, used for commits and policies.")
@click.option("--group", "groups", multiple=True, metavar="NAME", help="A group of the actor; may be repeated.")
@json_option
def command(  # noqa: PLR0913 - one argument per option
    *,
    uri: str | None,
    store: str | None,
    config: str | None,
    graph: str | None,
    queries: str | None,
    write: bool,
    actor: str | None,
    groups: tuple[str, ...],
    as_json: bool,  # noqa: ARG001 - only errors are printed, and `main` prints them
) -> int:
    """Serve a graph to an agent over MCP on stdin and stdout.

    An agent's program starts this command. Stored queries become its tools, beside tools to query, explain and compare;
    the schema, branches and commits are its resources. The agent can only read, unless --write or the policies of the
    settings allow more. The log goes to stderr, one JSON object per line.

    For several agents, or agents on other machines, use a server: `omnigraph serve` offers MCP at /mcp.
    """
    if config is not None and uri is not None:
        refuse("the graph is named twice: give either URI or --config")
    # OMNIGRAPH_STORE is only a default: an explicit --config wins over it. The personal graph of a settings file is
    # not served: an agent's program starts this command in any directory.
    is_personal = click.get_current_context().get_parameter_source("store") is ParameterSource.DEFAULT
    graph_uri = uri if uri is not None or config is not None or is_personal else store
    omnigraph.serve_mcp(graph_uri, config=config, graph=graph, queries=queries, actor=actor, groups=groups, write=write)
    return 0
