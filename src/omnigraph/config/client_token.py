"""The token with which this process asks a server."""

import os

TOKEN = "OMNIGRAPH_TOKEN"  # noqa: S105 - the name of a variable


def token_here() -> str | None:
    """The token of the environment."""
    return os.environ.get(TOKEN) or None
