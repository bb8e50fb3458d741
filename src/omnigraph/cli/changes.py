"""`omnigraph changes`: print the change feed of a branch."""

from types import FrameType
from typing import TYPE_CHECKING, Any, NoReturn

import click

from omnigraph.cli.diff import format_json_counts, format_schema_diff
from omnigraph.cli.exit_codes import EXIT_SIGNAL_BASE, handle_signals
from omnigraph.cli.options import Seconds, branch_option, graph_options, json_option, open_selected_graph, refuse
from omnigraph.cli.render import flush_output, get_binary_stdout, print_json, print_text, translate_output_errors
from omnigraph.lang.lexer import reveal

if TYPE_CHECKING:
    from omnigraph.ops.change_feed import ChangeFeed
    from omnigraph.ops.commit_changes import ChangeSet


@click.command("changes")
@click.argument("uri", required=False)
@graph_options
@branch_option
@click.option(
    "--since", metavar="REF", help="Only commits after this commit, tag or time; by default from the first commit on."
)
@click.option("--type", "types", multiple=True, metavar="TYPE", help="Only rows of this type; may be repeated.")
@click.option("--limit", type=click.IntRange(min=1), metavar="N", help="Show at most N commits.")
@click.option("--follow", is_flag=True, help="Wait for new commits and show them, until interrupted.")
@click.option(
    "--poll",
    type=Seconds(),
    default=1.0,
    show_default=True,
    metavar="SECONDS",
    help="How often --follow checks for new commits.",
)
@click.option(
    "--format",
    "format_",
    type=click.Choice(["table", "jsonl"]),
    help="Counts per commit, or one JSON object per change and line. [default: table; with --follow, jsonl]",
)
@json_option
def command(  # noqa: PLR0913 - one argument per option
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
    """Show the changes of each commit, oldest first.

    Each commit is shown exactly once, with the nodes and edges that it inserted, updated and deleted compared with the
    state before it: a consumer that applies all changes in order gets the state of the branch. --since continues after
    the last commit that was processed. With --format jsonl, each commit starts and ends with a separate line; a
    commit without an end line is incomplete, and will be sent again from its start.
    """
    if as_json and (follow or format_ is not None):
        refuse("--json prints one complete document; leave it out with --follow and --format")
    graph = open_selected_graph(uri, store, read_only=True)
    feed = graph.changes(branch=branch, since=since, types=types or None, limit=limit, follow=follow, poll_seconds=poll)
    if as_json:
        changes = [change_set.to_json() for change_set in feed]
        print_json({"uri": graph.uri, "branch": branch, "changes": changes, "cursor": feed.cursor})
        return 0
    output_format = format_ or ("jsonl" if follow else "table")
    if not follow:
        _print(feed, output_format)
        return 0
    return _print_until_signal(feed, output_format)


def _print_until_signal(feed: "ChangeFeed", format_: str) -> int:
    """Print the feed until Ctrl-C or SIGTERM, the normal ways to end --follow, and return the exit code."""
    try:
        with handle_signals(_raise_signal):
            _print(feed, format_)
    except _SignalError as error:
        flush_output()
        return EXIT_SIGNAL_BASE + error.number
    return 0


def _print(feed: "ChangeFeed", format_: str) -> None:
    if format_ == "jsonl":
        with translate_output_errors():
            out = get_binary_stdout()
            for block in feed.blocks():
                out.write(block)
                # A consumer of --follow sees a commit without waiting for the buffer to fill.
                out.flush()
        return
    is_first = True
    for change_set in feed:
        print_text(("" if is_first else "\n") + _format_change(change_set))
        flush_output()
        is_first = False
    if is_first:
        print_text("no commits\n")


def _format_change(change_set: "ChangeSet") -> str:
    summary: dict[str, Any] = change_set.summary()
    text = f"commit {summary['commit']}  {summary['at']}  {reveal(summary['actor'])}  {summary['operation']}\n"
    if summary["message"]:
        text += f"    {reveal(summary['message'].partition(chr(10))[0])}\n"
    text += format_schema_diff(summary["schema"])
    return text + (format_json_counts(summary["types"]) if summary["types"] else "no row was changed\n")


class _SignalError(BaseException):
    """A signal that ends --follow; not an Exception, so that no handler on the way treats it as a failure."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


def _raise_signal(number: int, _frame: FrameType | None) -> NoReturn:
    raise _SignalError(number)
