"""`omnigraph explore`: look at a graph in the browser."""

import os
import sys
import threading
import webbrowser

import click

import omnigraph
from omnigraph.cli.options import json_option
from omnigraph.cli.render import flush_output, print_error, print_json, print_text
from omnigraph.server.allocators import share_freed_memory

# Without one of these, Python would start a browser inside of this terminal.
_DISPLAYS = ("DISPLAY", "WAYLAND_DISPLAY", "BROWSER")


@click.command("explore")
@click.argument("graph", metavar="[ID=]URI")
@click.option("--as", "actor", default="anonymous", metavar="ACTOR", help="The actor recorded with commits.")
@click.option("--read-only", is_flag=True, help="Allow no changes.")
@click.option("--port", type=click.IntRange(0, 65_535), default=0, metavar="PORT", help="By default, any free one.")
@click.option("--no-browser", is_flag=True, help="Only print the address.")
@json_option
def command(*, graph: str, actor: str, read_only: bool, port: int, no_browser: bool, as_json: bool) -> int:
    """Look at a graph in the browser: its schema, rows, branches and differences.

    Starts a server that only this machine reaches, and opens the browser at an address with a code, which is good once
    and for a minute. Ctrl-C ends the server.
    """

    def announce(address: str) -> None:
        if as_json:
            print_json({"address": address})
        else:
            print_text(f"{address}\n")
        # A program that started this waits for the line.
        flush_output()
        if no_browser:
            return
        if sys.platform != "darwin" and not any(os.environ.get(name) for name in _DISPLAYS):
            print_error("there is no display: open the address above within a minute")
            return
        # Some browsers return only when they are closed.
        threading.Thread(target=webbrowser.open, args=(address,), name="open browser", daemon=True).start()

    share_freed_memory()
    omnigraph.explore(graph, announce, actor=actor, read_only=read_only, port=port)
    return 0
