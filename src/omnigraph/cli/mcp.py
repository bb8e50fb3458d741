"""`omnigraph mcp`."""

import click

import omnigraph
from omnigraph.cli.options import json_option, refuse, store_option


@click.command("mcp")
@click.argument("uri", required=False)
@store_option
@click.option("--config", metavar="FILE", help="The settings; omnigraph.toml here, if no graph is named.")
@click.option("--graph", metavar="ID", help="Which graph of the settings.")
@click.option("--queries", metavar="DIR", help="A directory of stored queries, each of which becomes a tool.")
@click.option("--write", is_flag=True, help="Without policies: let the agent write, too.")
@click.option("--as", "actor", metavar="NAME", help="For whom the agent acts: who commits, whom policies are about.")
@click.option("--group", "groups", multiple=True, metavar="NAME", help="A group of theirs; may be repeated.")
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
    """Let an agent work with a graph, by MCP on stdin and stdout.

    An agent's program starts this command. Stored queries are its tools, beside tools to query, explain and compare;
    the schema, branches and commits are its resources. It only reads, unless --write or the policies of the settings
    say otherwise. The log goes to stderr, one JSON object a line.

    Several agents, or agents elsewhere, ask a server instead: `omnigraph serve` answers MCP at /mcp.
    """
    if config is not None and uri is not None:
        refuse("the graph is named twice: give either URI or --config")
    named = uri if uri is not None or config is not None else store
    omnigraph.serve_mcp(named, config=config, graph=graph, queries=queries, actor=actor, groups=groups, write=write)
    return 0
