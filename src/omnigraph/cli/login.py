"""`omnigraph login` and `logout`: store the token of a server."""

import os
import sys

import click

from omnigraph.cli.lazy_groups import load_member
from omnigraph.cli.options import json_option, refuse
from omnigraph.cli.render import print_json, print_text
from omnigraph.config.logins import find_logins, normalize_server_url

# What a header may carry; the tokens of `omnigraph token new` are shorter.
_MAX_TOKEN_CHARACTERS = 4_096


@click.command("login")
@click.argument("url")
@click.option("--no-token", is_flag=True, help="The server has no authentication: only allow settings to name it.")
@json_option
def login(*, url: str, no_token: bool, as_json: bool) -> int:
    """Store the token of a server, for commands that name none.

    Asks for the token at a terminal, and reads it from stdin otherwise. The server is asked whether it accepts the
    token before it is stored, in a file that only you may read. From then on `omnigraph.toml` may name this server: a
    settings file alone never decides where a token or data goes.
    """
    address = normalize_server_url(url)
    token = None if no_token else _read_token(address)
    # The server rejects the token now, or it is accepted.
    graphs: list[str] = load_member("omnigraph.server.client.remote_graph:list_graphs")(address, token)
    logins = find_logins(os.environ)
    logins.store(address, token)
    if as_json:
        print_json({"server": address, "graphs": graphs, "file": str(logins.path)})
    else:
        shown = ", ".join(graphs) or "none that you may see"
        print_text(f"logged in to {address}; its graphs: {shown}\n")
    return 0


@click.command("logout")
@click.argument("url")
@json_option
def logout(*, url: str, as_json: bool) -> int:
    """Remove the stored token of a server.

    The server still accepts the token: its administrator removes it there.
    """
    address = normalize_server_url(url)
    is_removed = find_logins(os.environ).remove(address)
    if as_json:
        print_json({"server": address, "removed": is_removed})
    else:
        print_text(f"logged out of {address}\n" if is_removed else f"you were not logged in to {address}\n")
    return 0


def _read_token(address: str) -> str:
    """Read the token from the terminal, where it is not shown, or from the first line of stdin."""
    if sys.stdin is None:
        refuse("stdin is closed: there is nothing to read the token from")
    if sys.stdin.isatty():
        token = str(click.prompt(f"Token for {address}", hide_input=True, err=True))
    else:
        token = sys.stdin.readline(_MAX_TOKEN_CHARACTERS + 2)
    token = token.strip()
    if not token:
        refuse("the token is empty: paste it, or pass --no-token if the server has no authentication")
    if len(token) > _MAX_TOKEN_CHARACTERS or not (token.isascii() and token.isprintable()) or " " in token:
        refuse("this is no token: a token is one line of letters, digits and signs, without spaces")
    return token
