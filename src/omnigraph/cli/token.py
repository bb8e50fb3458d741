"""`omnigraph token`: create tokens for a server."""

from datetime import datetime

import click

from omnigraph.cli.lazy_groups import LazyCommand, LazyGroup
from omnigraph.cli.options import Instant, json_option
from omnigraph.cli.render import print_json, print_text
from omnigraph.config.tokens import format_token_entry, generate_token, hash_token

group = LazyGroup(
    "token",
    help="Make tokens for a server.",
    lazy={"new": LazyCommand("omnigraph.cli.token:new", "Make a token for an actor.")},
)


@click.command("new")
@click.argument("actor")
@click.option("--group", "groups", multiple=True, metavar="NAME", help="A group of the actor; may be repeated.")
@click.option("--expires", type=Instant(), metavar="TIME", help="When it ends, such as 2030-01-31T12:00:00Z.")
@json_option
def new(*, actor: str, groups: tuple[str, ...], expires: datetime | None, as_json: bool) -> int:
    """Make a token for an actor.

    It is shown once. The server's tokens file gets the entry below it, which has only its hash.
    """
    token = generate_token()
    entry = format_token_entry(token, actor, groups, expires)
    if as_json:
        print_json({"token": token, "sha256": hash_token(token).hex(), "entry": entry})
    else:
        print_text(f"# for {actor}, and nobody else: {token}\n{entry}")
    return 0
