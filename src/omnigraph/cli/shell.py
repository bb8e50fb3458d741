"""`omnigraph shell`: type queries and see their results."""

import os
import signal
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

import click

import omnigraph
from omnigraph.cli.exit_codes import EXIT_INTERRUPTED, report_failure
from omnigraph.cli.lazy_groups import load_member
from omnigraph.cli.options import (
    branch_option,
    graph_options,
    is_served,
    open_selected_graph,
    refuse,
    reopen_served_graph,
    resolve_graph_uri,
    wide_option,
)
from omnigraph.cli.render import ReaderGoneError, flush_output, print_error
from omnigraph.cli.shell_statements import split_statements
from omnigraph.cli.shell_work import CancelledWorkError

if TYPE_CHECKING:
    from omnigraph.cli.shell_prompt import ShellPrompt
    from omnigraph.cli.shell_session import ShellSession

HISTORY = "shell_history"


@click.command("shell")
@click.argument("uri", required=False)
@graph_options
@branch_option
@click.option("--as", "actor", default="anonymous", metavar="ACTOR", help="The actor recorded with commits.")
@wide_option
@click.option("--json", "as_json", is_flag=True, help="Print each result, and the error of a pipe, as JSON.")
def command(*, uri: str | None, store: str | None, branch: str, actor: str, as_json: bool) -> int:
    """Run queries on a graph as they are typed.

    Enter runs a complete text, Alt+Enter adds a line, `;` ends a statement, Tab completes, Ctrl-C cancels a query, and
    Ctrl-D ends the session. `.help` lists the commands. From a pipe, statements that end with `;` and lines with
    commands are run until the first error, whose exit code is returned.
    """
    graph = open_selected_graph(uri, store)
    name = resolve_graph_uri(uri, store).rstrip("/").rpartition("/")[2]
    reconnect = partial(reopen_served_graph, graph) if is_served() else None
    # `--help` needs none of the engine.
    session: ShellSession = load_member("omnigraph.cli.shell_session:ShellSession")(
        graph, name, branch, actor, load_member("omnigraph.cli.shell_commands:COMMANDS"), reconnect
    )
    session.format = "json" if as_json else session.format
    # A branch that does not exist is reported now, not with the first query.
    graph.accepted_schema(branch=branch)
    if sys.stdin is None:
        refuse("stdin is closed: there is nothing to read statements from")
    return _run_terminal(session) if sys.stdin.isatty() and sys.stdout.isatty() else _run_pipe(session, sys.stdin)


def _run_pipe(session: "ShellSession", stream: TextIO) -> int:
    """Run the statements of a pipe; the first error ends it."""
    try:
        for text in _read_texts(stream):
            session.run(text)
            flush_output()
    except EOFError:
        pass
    except CancelledWorkError:
        return EXIT_INTERRUPTED
    return 0


def _read_texts(stream: TextIO) -> Iterator[str]:
    """Yield each statement as soon as its `;` was read, and each command.

    Raises:
        click.UsageError: The last statement has no `;`.
    """
    rest = ""
    for line in stream:
        if not rest.strip() and line.lstrip().startswith("."):
            yield line
            continue
        rest += line
        if ";" in line:
            parts = split_statements(rest)
            yield from parts.statements
            rest = parts.rest
    if rest.strip():
        message = "the last statement does not end with `;`, so it was not run"
        raise click.UsageError(message)


def _run_terminal(session: "ShellSession") -> int:
    """Run what the user types, until the user ends the session; errors are shown."""
    # Who starts a program in the background, or from a service, may pass on that it ignores Ctrl-C.
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    # prompt_toolkit is imported for a terminal only.
    prompt: ShellPrompt = load_member("omnigraph.cli.shell_prompt:ShellPrompt")(session, _find_history())
    print_error(f"omnigraph {omnigraph.__version__}; .help lists the commands, Ctrl-D ends the session")
    while True:
        try:
            session.run(prompt.read())
            flush_output()
        except EOFError:
            return 0
        except CancelledWorkError:
            print_error("cancelled")
        except KeyboardInterrupt:
            continue
        except ReaderGoneError:
            raise
        except Exception as error:  # noqa: BLE001 - shown, and the session goes on
            report_failure(error, [], as_json=False)


def _find_history() -> Path:
    """Return the file of the history, as the XDG directories say."""
    state = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
    return Path(state) / "omnigraph" / HISTORY
