"""`omnigraph commit list`."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

import omnigraph
from omnigraph.cli.options import branch_option, chosen_graph, json_option, store_option
from omnigraph.cli.render import print_json, print_text, table_text

if TYPE_CHECKING:
    from omnigraph.commit.records import Commit


@click.command("list")
@click.argument("uri", required=False)
@store_option
@branch_option
@click.option(
    "--filter",
    "filters",
    multiple=True,
    metavar="NAME=VALUE",
    help="Only commits with this actor, operation, since or until; may be repeated.",
)
@click.option("--limit", type=click.IntRange(min=1), metavar="N", help="At most so many.")
@json_option
def command(
    *, uri: str | None, store: str | None, branch: str, filters: tuple[str, ...], limit: int | None, as_json: bool
) -> int:
    """List the commits of a graph, newest first.

    Behind the commits of a branch come those of the branch that it was taken from. A commit must pass every filter:
    `--filter actor=ada --filter since=2026-01-31T00:00:00Z`.
    """
    graph = omnigraph.open_graph(chosen_graph(uri, store), read_only=True)
    commits = graph.commits(branch=branch, filters=_parsed(filters), limit=limit)
    if as_json:
        print_json({"uri": graph.uri, "commits": [commit.to_json() for commit in commits]})
    else:
        print_text(_text(commits) if commits else "no commit passes the filters\n")
    return 0


def _parsed(filters: Sequence[str]) -> dict[str, str]:
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


def _text(commits: "Sequence[Commit]") -> str:
    rows = [
        (
            commit.id,
            commit.at,
            commit.actor,
            commit.operation,
            str(len(commit.changes)),
            f"{sum(change.rows_after - change.rows_before for change in commit.changes):+d}",
            (commit.message or "").partition("\n")[0],
        )
        for commit in commits
    ]
    return table_text(
        ("commit", "at", "actor", "operation", "tables", "rows", "message"), rows, right=("tables", "rows")
    )
