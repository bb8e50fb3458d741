"""The token with which this process asks a server."""

import os

TOKEN_VARIABLE = "OMNIGRAPH_TOKEN"  # noqa: S105 - the name of a variable


def read_client_token() -> str | None:
    """The token of the environment."""
    return os.environ.get(TOKEN_VARIABLE) or None
