"""Exit codes, the report of a failure on stderr, and the signals that end a command."""

import os
import signal
import sys
import threading
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from types import FrameType

import click

from omnigraph.cli.error_hints import find_hint
from omnigraph.cli.render import discard_output, format_json, print_error, use_color
from omnigraph.errors import Kind, OmnigraphError
from omnigraph.lang.diagnostic_rendering import diagnostic_to_json, render_text
from omnigraph.lang.diagnostics import SourceError
from omnigraph.lang.lexer import reveal

EXIT_CODES: dict[Kind, int] = {
    Kind.INVALID: 1,
    Kind.USAGE: 2,
    Kind.CONFLICT: 3,
    Kind.NOT_FOUND: 4,
    Kind.DENIED: 1,
    Kind.EXHAUSTED: 1,
    Kind.UNAVAILABLE: 5,
    Kind.CORRUPT: 6,
    Kind.INTERNAL: 1,
}
# As in a shell, the exit code of a process that a signal ended is 128 plus the number of the signal.
EXIT_SIGNAL_BASE = 128
EXIT_INTERRUPTED = 130
EXIT_BROKEN_PIPE = 141


@contextmanager
def handle_signals(handler: Callable[[int, FrameType | None], None]) -> Iterator[None]:
    """Call `handler` on Ctrl-C and SIGTERM while the context is open."""
    # Python allows signal handlers in the main thread only.
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    previous = {number: signal.signal(number, handler) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, previous_handler in previous.items():
            signal.signal(number, previous_handler)


def report_failure(error: Exception, arguments: Sequence[str], *, as_json: bool) -> int:
    """Report the error of a command called with `arguments` on stderr, and return the exit code of its kind."""
    if os.environ.get("OMNIGRAPH_DEBUG"):
        traceback.print_exception(error)
    if isinstance(error, OmnigraphError) and error.code == "output_failed":
        discard_output()
    kind = _find_kind(error)
    hint = find_hint(error, arguments)
    if as_json:
        # Beside the error, which is the same in every interface: only the command line knows its arguments.
        help_ = {} if hint is None else {"help": hint}
        print_error(format_json({"error": _encode_error(error, kind), **help_}, sys.stderr))
    else:
        print_error(_format_error(error) if hint is None else f"{_format_error(error)}\nhelp: {_reveal_lines(hint)}")
    return EXIT_CODES[kind]


def _find_kind(error: Exception) -> Kind:
    match error:
        case OmnigraphError():
            return error.kind
        case click.ClickException():
            return Kind.USAGE
        case _:
            return Kind.INTERNAL


def _encode_error(error: Exception, kind: Kind) -> dict[str, object]:
    match error:
        case SourceError():
            diagnostics = [diagnostic_to_json(error.source, diagnostic) for diagnostic in error.diagnostics]
            facts = {**error.facts(), "diagnostics": diagnostics}
            return {"code": error.code, "kind": kind.value, "message": str(error), **facts}
        case OmnigraphError():
            return {"code": error.code, "kind": kind.value, "message": str(error), **error.facts()}
        case click.ClickException():
            return {"code": "usage", "kind": kind.value, "message": error.format_message()}
        case _:
            return {"code": "internal", "kind": kind.value, "message": _format_bug(error)}


def _format_error(error: Exception) -> str:
    match error:
        case SourceError():
            return render_text(error.source, error.diagnostics, color=use_color("auto", sys.stderr)).rstrip("\n")
        case OmnigraphError():
            return f"error: {_reveal_lines(str(error))}"
        case click.UsageError(ctx=click.Context() as ctx):
            usage = ctx.get_usage().replace("Usage: ", "usage: ", 1)
            # click lists the choices of a missing option on separate lines, each after a tab.
            message = _reveal_lines(error.format_message().replace("\n\t", " "))
            return f"error: {message}\n{usage}\nhelp: {ctx.command_path} --help"
        case click.UsageError():
            return f"error: {_reveal_lines(error.format_message())}\nhelp: omnigraph --help"
        case click.ClickException():
            return f"error: {_reveal_lines(error.format_message())}"
        case _:
            return f"error: {_reveal_lines(_format_bug(error))}"


def _reveal_lines(text: str) -> str:
    # A file name may contain control characters, which must not reach the terminal.
    return "\n".join(reveal(line) for line in text.split("\n"))


def _format_bug(error: Exception) -> str:
    lines = str(error).splitlines()
    what = f"{type(error).__name__}: {lines[0]}" if lines else type(error).__name__
    return (
        f"this is a bug in omnigraph: {what}\n"
        "Please report it with the command and its input; OMNIGRAPH_DEBUG=1 shows where it happened."
    )
