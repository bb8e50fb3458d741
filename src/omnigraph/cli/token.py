"""`omnigraph token`: create tokens for a server."""

from datetime import datetime

import click

from omnigraph.cli.options import Instant, json_option
from omnigraph.cli.render import print_json, print_text
from omnigraph.config.tokens import format_token_entry, generate_token, hash_token


@click.command("new")
@click.argument("actor")
@click.option("--group", "groups", multiple=True, metavar="NAME", help="A group of the actor; may be repeated.")
@click.option("--expires", type=Instant(), metavar="TIME", help="When the token expires, such as 2030-01-31T12:00:00Z.")
@json_option
def new(*, actor: str, groups: tuple[str, ...], expires: datetime | None, as_json: bool) -> int:
    """Create a token for an actor.

    The token is shown only once. Add the entry below it to the server's tokens file; it contains only the hash.
    """
    token = generate_token()
    entry = format_token_entry(token, actor, groups, expires)
    if as_json:
        print_json({"token": token, "sha256": hash_token(token).hex(), "entry": entry})
    else:
        print_text(f"# only for {actor}: {token}\n{entry}")
    return 0
