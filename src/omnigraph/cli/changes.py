"""`omnigraph changes`."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import TYPE_CHECKING, Any

import click

from omnigraph.cli.diff import format_json_counts, format_schema_diff
from omnigraph.cli.options import Seconds, branch_option, graph_options, json_option, open_selected_graph, refuse
from omnigraph.cli.render import flush_output, get_binary_stdout, print_json, print_text, translate_output_errors
from omnigraph.lang.lexer import reveal

if TYPE_CHECKING:
    from omnigraph.ops.change_feed import ChangeFeed
    from omnigraph.ops.commit_changes import ChangeSet

_SIGNAL_EXIT_BASE = 128
"""A process that a signal ends has this and the signal's number as its exit code."""


@click.command("changes")
@click.argument("uri", required=False)
@graph_options
@branch_option
@click.option(
    "--since", metavar="REF", help="Only what comes after this commit, tag or time; else all from the first one on."
)
@click.option("--type", "types", multiple=True, metavar="TYPE", help="Only rows of this type; may be repeated.")
@click.option("--limit", type=click.IntRange(min=1), metavar="N", help="At most so many commits.")
@click.option("--follow", is_flag=True, help="Go on with commits as they come, until it is interrupted.")
@click.option(
    "--poll", type=Seconds(), default=1.0, show_default=True, metavar="SECONDS", help="How often --follow looks."
)
@click.option(
    "--format",
    "format_",
    type=click.Choice(["table", "jsonl"]),
    help="Counts for each commit, or every change as a JSON object a line. [default: table; with --follow, jsonl]",
)
@json_option
def command(  # noqa: PLR0913 - the options of the command, all by name
    *,
    uri: str | None,
    store: str | None,
    branch: str,
    since: str | None,
    types: tuple[str, ...],
    limit: int | None,
    follow: bool,
    poll: float,
    format_: str | None,
    as_json: bool,
) -> int:
    """Show what each commit changed, oldest first.

    Each commit comes exactly once, with the nodes and edges that it inserted, updated and deleted, against the state
    before it; so whoever applies the changes in order has what the branch has. Behind a commit whose changes are done
    with, --since goes on. In the lines of --format jsonl, each commit begins with a line and ends with one: what has no
    end is not complete, and begins again.
    """
    if as_json and (follow or format_ is not None):
        refuse("--json is one document, which ends; leave it out with --follow and --format")
    graph = open_selected_graph(uri, store, read_only=True)
    feed = graph.changes(branch=branch, since=since, types=types or None, limit=limit, follow=follow, poll_seconds=poll)
    if as_json:
        changes = [found.to_json() for found in feed]
        print_json({"uri": graph.uri, "branch": branch, "changes": changes, "cursor": feed.cursor})
        return 0
    shown = format_ or ("jsonl" if follow else "table")
    if not follow:
        _print(feed, shown)
        return 0
    return _print_until_signal(feed, shown)


def _print_until_signal(feed: "ChangeFeed", format_: str) -> int:
    """Ctrl-C and SIGTERM are how it is meant to end: with whole lines, and without a word."""
    try:
        with _raise_on_signals():
            _print(feed, format_)
    except _EndedError as ended:
        flush_output()
        return _SIGNAL_EXIT_BASE + ended.number
    return 0


def _print(feed: "ChangeFeed", format_: str) -> None:
    if format_ == "jsonl":
        with translate_output_errors():
            out = get_binary_stdout()
            for block in feed.blocks():
                out.write(block)
                out.flush()
        return
    is_first = True
    for found in feed:
        print_text(("" if is_first else "\n") + _format_change(found))
        flush_output()
        is_first = False
    if is_first:
        print_text("no commits\n")


def _format_change(found: "ChangeSet") -> str:
    told: dict[str, Any] = found.summary()
    head = f"commit {told['commit']}  {told['at']}  {reveal(told['actor'])}  {told['operation']}\n"
    if told["message"]:
        head += f"    {reveal(told['message'].partition(chr(10))[0])}\n"
    head += format_schema_diff(told["schema"])
    return head + (format_json_counts(told["types"]) if told["types"] else "no row was changed\n")


class _EndedError(BaseException):
    """A signal asked to end; not an Exception, so that nothing on the way takes it for a failure."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


@contextmanager
def _raise_on_signals() -> Iterator[None]:
    if threading.current_thread() is not threading.main_thread():  # only there signals can be handled
        yield
        return

    def end(number: int, _frame: FrameType | None) -> None:
        raise _EndedError(number)

    before = {number: signal.signal(number, end) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, earlier in before.items():
            signal.signal(number, earlier)
