"""Confirmation prompts before destructive changes to a graph that others may share."""

import sys

import click

from omnigraph.cli.options import refuse
from omnigraph.cli.render import print_error
from omnigraph.lang.lexer import reveal
from omnigraph.locations import AZURE

EXIT_DECLINED = 1


def find_location_kind(target: str) -> str:
    """Return where a graph is stored: `s3`, `azure`, `server` or `local`."""
    if target.lower().startswith(("http://", "https://")):
        return "server"
    if target.lower().startswith(AZURE):
        return "azure"
    return "s3" if target.lower().startswith(("s3://", "s3a://", "s3n://")) else "local"


def confirm_on_remote(target: str, *, action: str, question: str, otherwise: str, is_stdin_taken: bool = False) -> None:
    """Return if the graph is local or the user at the terminal agrees.

    Raises:
        click.UsageError: there is no terminal to ask at, so --yes is needed.
        click.exceptions.Exit: the user declined.
    """
    if find_location_kind(target) != "local":
        confirm(f"{action}, which is remote,", question=question, otherwise=otherwise, is_stdin_taken=is_stdin_taken)


def can_ask(*, is_stdin_taken: bool) -> bool:
    """Return whether there is a terminal at which the user can answer a question."""
    return not is_stdin_taken and bool(sys.stdin and sys.stdin.isatty() and sys.stderr and sys.stderr.isatty())


def confirm(action: str, *, question: str, otherwise: str, is_stdin_taken: bool = False) -> None:
    """Return if the user at the terminal agrees; raise like `confirm_on_remote` otherwise."""
    if not can_ask(is_stdin_taken=is_stdin_taken):
        refuse(f"{action} needs --yes when there is no terminal to ask at")
    # On stderr: stdout may be piped into a program.
    if not click.confirm(reveal(question), err=True):
        print_error(otherwise)
        raise click.exceptions.Exit(EXIT_DECLINED)
