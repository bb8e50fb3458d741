"""`omnigraph serve`: run the HTTP server."""

import click

import omnigraph
from omnigraph.cli.options import json_option
from omnigraph.cli.render import format_count, print_json, print_text
from omnigraph.server.allocators import share_freed_memory


@click.command("serve")
@click.argument("graphs", nargs=-1, metavar="[[ID=]URI]...")
@click.option("--config", metavar="FILE", help="The settings file; by default omnigraph.toml, if no graph is named.")
@click.option(
    "--bind", metavar="HOST:PORT", help="The address to listen on; by default that of the settings, or 127.0.0.1:8080."
)
@click.option(
    "--unauthenticated",
    count=True,
    help="Allow all clients everything. Must be given twice if other machines can connect.",
)
@click.option(
    "--workers",
    type=int,
    metavar="N",
    help="The number of processes that serve clients; by default that of the settings, or of the cores.",
)
@click.option("--check", is_flag=True, help="Check the settings and graphs, and exit without serving.")
@json_option
def command(
    *,
    graphs: tuple[str, ...],
    config: str | None,
    bind: str | None,
    unauthenticated: int,
    workers: int | None,
    check: bool,
    as_json: bool,
) -> int:
    """Serve graphs over HTTP.

    The default ID of a graph is the last part of its URI. Tokens control who may connect, policies what they may do:
    see `omnigraph token` and `omnigraph policy`. The log goes to stderr, one JSON object per line.

    The first Ctrl-C or SIGTERM waits for running requests, the second does not. SIGHUP reads changed tokens, policies
    and certificates at once.
    """
    if not check:
        share_freed_memory()
        omnigraph.serve(graphs, config=config, bind=bind, unauthenticated=unauthenticated, workers=workers)
        return 0
    settings = omnigraph.check_server(
        graphs, config=config, bind=bind, unauthenticated=unauthenticated, workers=workers
    )
    address = f"{settings.host}:{settings.port}"
    names = [graph.id for graph in settings.graphs]
    if as_json:
        print_json({"ok": True, "bind": address, "graphs": names})
    else:
        listed = f": {', '.join(names)}" if names else ""
        print_text(f"ready to serve {format_count(len(names), 'graph')} on {address}{listed}\n")
    return 0
