"""Asking before what can't be undone is done to a graph that others may share."""

import sys

import click

from omnigraph.cli.options import refuse
from omnigraph.cli.render import print_error
from omnigraph.lang.lexer import reveal

EXIT_DECLINED = 1


def find_location_kind(target: str) -> str:
    """Where a graph is: `s3`, `server` or `local`."""
    if target.lower().startswith(("http://", "https://")):
        return "server"
    return "s3" if target.lower().startswith("s3://") else "local"


def confirm_on_remote(target: str, *, action: str, question: str, otherwise: str, is_stdin_taken: bool = False) -> None:
    """Go on if the graph is local, or if whoever is at the terminal says so; without a terminal it needs --yes."""
    if find_location_kind(target) != "local":
        confirm(f"{action}, which is remote,", question=question, otherwise=otherwise, is_stdin_taken=is_stdin_taken)


def can_ask(*, is_stdin_taken: bool) -> bool:
    """Return whether there is a terminal at which a question can be answered."""
    return not is_stdin_taken and bool(sys.stdin and sys.stdin.isatty() and sys.stderr and sys.stderr.isatty())


def confirm(action: str, *, question: str, otherwise: str, is_stdin_taken: bool = False) -> None:
    """Go on if whoever is at the terminal says so; without a terminal it needs --yes."""
    if not can_ask(is_stdin_taken=is_stdin_taken):
        refuse(f"{action} needs --yes where nobody can be asked")
    if not click.confirm(reveal(question), err=True):
        print_error(otherwise)
        raise click.exceptions.Exit(EXIT_DECLINED)
