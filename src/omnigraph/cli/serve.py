"""`omnigraph serve`."""

import click

import omnigraph
from omnigraph.cli.options import json_option
from omnigraph.cli.render import format_count, print_json, print_text
from omnigraph.runtime_memory import prefer_system_allocator


@click.command("serve")
@click.argument("graphs", nargs=-1, metavar="[[ID=]URI]...")
@click.option("--config", metavar="FILE", help="The settings; omnigraph.toml here, if no graph is named.")
@click.option("--bind", metavar="HOST:PORT", help="Where to listen; 127.0.0.1:8080 unless the settings say otherwise.")
@click.option(
    "--unauthenticated",
    count=True,
    help="Let everybody do everything. Needs to be said twice where others than this machine can ask.",
)
@click.option("--check", is_flag=True, help="Check everything, listen to nobody, and exit.")
@json_option
def command(
    *, graphs: tuple[str, ...], config: str | None, bind: str | None, unauthenticated: int, check: bool, as_json: bool
) -> int:
    """Serve graphs over HTTP.

    Of a URI alone, the last part is the graph's ID. Who may ask is up to tokens, what they may do is up to policies:
    see `omnigraph token` and `omnigraph policy`. The log goes to stderr, one JSON object a line.

    The first Ctrl-C or SIGTERM lets what runs finish, the second does not.
    """
    if not check:
        prefer_system_allocator()  # before Arrow is loaded
        omnigraph.serve(graphs, config=config, bind=bind, unauthenticated=unauthenticated)
        return 0
    found = omnigraph.check_server(graphs, config=config, bind=bind, unauthenticated=unauthenticated)
    if as_json:
        print_json({"ok": True, "bind": f"{found.host}:{found.port}", "graphs": [one.id for one in found.graphs]})
    else:
        names = ", ".join(one.id for one in found.graphs)
        print_text(f"ready to serve {format_count(len(found.graphs), 'graph')} on {found.host}:{found.port}: {names}\n")
    return 0
