"""`omnigraph commit list`."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from omnigraph.cli.options import branch_option, graph_options, json_option, open_selected_graph
from omnigraph.cli.render import format_table, print_json, print_text

if TYPE_CHECKING:
    from omnigraph.ops.history import CommitPage


@click.command("list")
@click.argument("uri", required=False)
@graph_options
@branch_option
@click.option(
    "--filter",
    "filters",
    multiple=True,
    metavar="NAME=VALUE",
    help="Only commits that pass: actor, branch, key, message, operation, since, type, until; may be repeated.",
)
@click.option("--all-branches", is_flag=True, help="Commits of every branch, by their times, instead of one's history.")
@click.option("--limit", type=click.IntRange(min=1), metavar="N", help="At most so many.")
@click.option(
    "--before", metavar="REF", help="Only what is older than this commit, tag or time: the last one of another page."
)
@json_option
def command(
    *,
    uri: str | None,
    store: str | None,
    branch: str,
    filters: tuple[str, ...],
    all_branches: bool,
    limit: int | None,
    before: str | None,
    as_json: bool,
) -> int:
    """List the commits of a graph, newest first.

    Behind the commits of a branch come those of the branch that it was taken from. A commit must pass every filter:
    `--filter actor=ada --filter since=2026-01-31T00:00:00Z`. A message only has to contain the words, in any case; a
    type is one whose table the commit changed. With --limit there may be more: --before goes on behind the last one.
    """
    graph = open_selected_graph(uri, store, read_only=True)
    page = graph.commit_page(
        branch=branch, filters=_parse_filters(filters), limit=limit, before=before, all_branches=all_branches
    )
    if as_json:
        print_json({"uri": graph.uri, **page.to_json()})
    elif not page.commits:
        print_text("no commit passes the filters\n" if filters else "no commits\n")
    else:
        print_text(_format_page(page))
    return 0


def _parse_filters(filters: Sequence[str]) -> dict[str, str]:
    parsed: dict[str, str] = {}
    for text in filters:
        name, sign, value = text.partition("=")
        problem = None
        if not sign or not name or not value:
            problem = f"`{text}` is not a filter; write NAME=VALUE, such as actor=ada"
        elif name in parsed:
            problem = f"the filter `{name}` is given twice; a commit passes only one of them"
        if problem:
            raise click.UsageError(problem, click.get_current_context())
        parsed[name] = value
    return parsed


def _format_page(page: "CommitPage") -> str:
    rows = [
        (
            commit.id,
            commit.at,
            commit.actor,
            f"{commit.operation} (collected)" if commit.id in page.collected else commit.operation,
            str(len(commit.changes)),
            f"{sum(change.rows_after - change.rows_before for change in commit.changes):+d}",
            (commit.message or "").partition("\n")[0],
        )
        for commit in page.commits
    ]
    text = format_table(
        ("commit", "at", "actor", "operation", "tables", "rows", "message"), rows, right=("tables", "rows")
    )
    return text if page.next is None else f"{text}\nto go on: --before {page.next}\n"
