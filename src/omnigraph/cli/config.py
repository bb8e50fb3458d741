"""`omnigraph config`: show personal settings."""

import os
from pathlib import Path

import click

from omnigraph.cli.options import json_option
from omnigraph.cli.render import format_table, print_json, print_text
from omnigraph.config.client import CLIENT_SETTINGS, SERVER, ClientSettings, Setting
from omnigraph.config.logins import find_logins, normalize_server_url
from omnigraph.config.tokens import TOKEN_VARIABLE

_NONE = "-"


@click.command("config")
@json_option
def command(*, as_json: bool) -> int:
    """Show your settings, and where each value is from.

    An option counts first, then a variable, then the section [client] of `omnigraph.toml`, then the default. The file
    is looked for in this directory and those above it, up to the first with `.git` or your home directory. Of the
    token, only the source is shown.
    """
    settings = ClientSettings(os.environ, Path.cwd())
    logins = find_logins(os.environ)
    servers = logins.read()
    chosen = {name: settings.find(name) for name in CLIENT_SETTINGS}
    token = _find_token_source(chosen[SERVER], servers, logins.path)
    if as_json:
        values = {name: {"value": setting.value, "source": setting.source} for name, setting in chosen.items()}
        file = None if settings.file is None else str(settings.file)
        print_json({"settings": values, "token_source": token, "file": file, "logins": sorted(servers)})
        return 0
    rows = [
        (name, _NONE if setting.value is None else setting.value, _NONE if setting.value is None else setting.source)
        for name, setting in chosen.items()
    ]
    rows.append(("token", _NONE if token is None else "(not shown)", token or _NONE))
    text = format_table(("setting", "value", "source"), rows)
    if servers:
        text += f"\nlogged in to {', '.join(sorted(servers))}\n"
    print_text(text)
    return 0


def _find_token_source(server: Setting, servers: dict[str, str | None], path: Path) -> str | None:
    """Return where the token for the server of the settings is from, or that of a server that --server names."""
    if server.file is None and os.environ.get(TOKEN_VARIABLE):
        return TOKEN_VARIABLE
    is_stored = server.value is not None and servers.get(normalize_server_url(server.value)) is not None
    return str(path) if is_stored else None
