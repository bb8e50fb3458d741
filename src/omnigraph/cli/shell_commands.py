"""The commands of a shell, whose names begin with a dot."""

from collections.abc import Mapping
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING

import click

from omnigraph.cli.render import format_table, print_error, print_text
from omnigraph.cli.result_formats import FORMATS, resolve_format, write_result
from omnigraph.cli.shell_session import SOURCE_NAME, Command
from omnigraph.cli.shell_statements import END
from omnigraph.clock import parse_moment
from omnigraph.lang.schema_parser import parse_schema
from omnigraph.lang.source import Source
from omnigraph.query.completion import CommandArgument

if TYPE_CHECKING:
    from omnigraph.cli.shell_session import ShellSession

_ON_OFF = {"on": True, "off": False}


def show_help(_session: "ShellSession", _argument: str) -> None:
    """List the commands."""
    lines = [(command.usage, command.help) for command in COMMANDS.values()]
    print_text(format_table(("command", "does"), lines))
    print_text("Enter runs a complete text, Alt+Enter adds a line, `;` ends a statement, Ctrl-C cancels.\n")


def show_schema(session: "ShellSession", argument: str) -> None:
    """Show the schema, or one declaration of it."""
    text = session.graph.accepted_schema(branch=session.branch, at=session.at).source
    if not argument:
        print_text(text.rstrip("\n") + "\n")
        return
    source = Source(text, "schema.pg")
    tree = parse_schema(source).require(source)
    found = [item.span for item in tree.declarations if item.name.text == argument]
    if not found:
        raise click.UsageError(f"the schema has no `{argument}`")
    print_text(text[found[0].start : found[0].end] + "\n")


def show_branches(session: "ShellSession", _argument: str) -> None:
    """List the branches; an asterisk marks the one in use."""
    branches = session.graph.branches.list()
    rows = [
        ("*" if branch.name == session.branch else "", branch.name, branch.parent_branch or "") for branch in branches
    ]
    print_text(format_table(("", "branch", "from"), rows))


def use_branch(session: "ShellSession", argument: str) -> None:
    """Go to another branch, in its newest state."""
    if not argument:
        raise click.UsageError(".use takes a branch; .branches lists them")
    session.graph.accepted_schema(branch=argument)
    session.branch, session.at = argument, None


def go_to(session: "ShellSession", argument: str) -> None:
    """Go to a time, which makes the session read-only; `now` leaves it."""
    if argument in ("", "now"):
        session.at = None
        return
    try:
        at = parse_moment(argument, datetime.now(UTC))
    except ValueError:
        raise click.UsageError(".at takes a time such as 2026-01-31T12:00:00Z, 2h for two hours ago, or now") from None
    # There may be no state so early.
    session.graph.accepted_schema(branch=session.branch, at=at)
    session.at = at


def explain_query(session: "ShellSession", argument: str) -> None:
    """Show the plan of a query, or of the latest one."""
    statement = argument.removesuffix(END).strip() or session.latest
    if not statement:
        raise click.UsageError(".explain takes a query, or explains the latest one")
    source = Source(statement, SOURCE_NAME)
    explained = session.work(partial(session.graph.explain, source, branch=session.branch, at=session.at))
    print_text(explained.text.rstrip("\n") + "\n")


def set_timer(session: "ShellSession", argument: str) -> None:
    """Show the time of each statement, or not."""
    if argument not in ("", *_ON_OFF):
        raise click.UsageError(".timer takes on or off")
    session.has_timer = _ON_OFF.get(argument, not session.has_timer)
    print_error(f"timer {'on' if session.has_timer else 'off'}")


def set_format(session: "ShellSession", argument: str) -> None:
    """Set the format of results."""
    if argument not in FORMATS:
        raise click.UsageError(f".format takes one of {', '.join(FORMATS)}; it is {session.format}")
    resolve_format(argument, None, as_json=False)
    session.format = argument


def export_result(session: "ShellSession", argument: str) -> None:
    """Write all rows of a query, or of the latest one, to a file whose suffix names the format."""
    path, _, statement = argument.partition(" ")
    if not path:
        raise click.UsageError(".export takes a file, such as people.csv, and a query or the latest one")
    format_ = resolve_format(None, path, as_json=False)
    text = statement.removesuffix(END).strip() or session.latest
    if not text:
        raise click.UsageError("there is no query to export yet")
    write_result(session.query(Source(text, SOURCE_NAME)), format_, path, as_json=False)


def edit_statement(session: "ShellSession", _argument: str) -> None:
    """Open the latest statement in $EDITOR; the result is put at the prompt."""
    edited = click.edit(session.latest, extension=".gq")
    session.prefill = (edited or session.latest).rstrip("\n")


def quit_session(_session: "ShellSession", _argument: str) -> None:
    """End the session."""
    raise EOFError


_NOTHING = CommandArgument.NOTHING
_FORMAT_LIST = ", ".join(FORMATS)

COMMANDS: Mapping[str, Command] = {
    command.usage.partition(" ")[0]: command
    for command in (
        Command(_NOTHING, go_to, ".at TIME", "look at a past state, read-only; `.at now` leaves it"),
        Command(_NOTHING, show_branches, ".branches", "list the branches"),
        Command(_NOTHING, edit_statement, ".edit", "edit the latest statement in $EDITOR"),
        Command(
            CommandArgument.STATEMENT,
            explain_query,
            ".explain [QUERY]",
            "show the plan of a query, or the latest",
        ),
        Command(
            _NOTHING,
            export_result,
            ".export FILE [QUERY]",
            "write a result to a file; its suffix names the format",
        ),
        Command(_NOTHING, set_format, ".format FORMAT", f"show results as {_FORMAT_LIST}"),
        Command(_NOTHING, show_help, ".help", "list the commands"),
        Command(_NOTHING, quit_session, ".quit", "end the session, like Ctrl-D"),
        Command(CommandArgument.TYPE, show_schema, ".schema [TYPE]", "show the schema, or one type of it"),
        Command(_NOTHING, set_timer, ".timer on|off", "show how long statements take"),
        Command(CommandArgument.BRANCH, use_branch, ".use BRANCH", "go to another branch"),
    )
}
