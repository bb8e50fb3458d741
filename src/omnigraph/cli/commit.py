"""`omnigraph commit`: list and show commits."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from omnigraph.cli.commit_folding import format_pages, read_folded_pages
from omnigraph.cli.diff import format_counts
from omnigraph.cli.options import branch_option, graph_options, json_option, open_selected_graph, refuse
from omnigraph.cli.render import format_facts, format_table, print_json, print_text
from omnigraph.lang.lexer import reveal

if TYPE_CHECKING:
    from omnigraph.commit.manifest_types import Commit
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
    help="Only matching commits: actor, branch, key, message, operation, since, type, until; may be repeated.",
)
@click.option(
    "--all-branches", is_flag=True, help="List the commits of all branches by time, instead of the history of one."
)
@click.option(
    "--include-maintenance", is_flag=True, help="List each commit of maintenance and embedding, also automatic ones."
)
@click.option("--limit", type=click.IntRange(min=1), metavar="N", help="List at most N commits.")
@click.option(
    "--before",
    metavar="REF",
    help="Only commits older than this commit, tag or time, such as the last one of the previous page.",
)
@json_option
def list_(  # noqa: PLR0913 - one argument per option
    *,
    uri: str | None,
    store: str | None,
    branch: str,
    filters: tuple[str, ...],
    all_branches: bool,
    include_maintenance: bool,
    limit: int | None,
    before: str | None,
    as_json: bool,
) -> int:
    """List the commits of a graph, newest first.

    The commits of a branch are followed by those of the branch that it was created from. A commit must match every
    filter: `--filter actor=ada --filter since=2026-01-31T00:00:00Z`. `message` matches part of a message, ignoring
    case; `type` matches commits that changed the table of that type. With --limit there may be more commits: --before
    continues after the last one. Neighbouring commits of maintenance and embedding share one line; --json has each.
    """
    graph = open_selected_graph(uri, store, read_only=True)
    parsed = _parse_filters(filters)

    def read_page(max_commits: int | None, first: str | None) -> "CommitPage":
        return graph.commit_page(
            branch=branch,
            filters=parsed,
            limit=max_commits,
            before=first or before,
            all_branches=all_branches,
            include_maintenance=include_maintenance,
        )

    if as_json:
        print_json({"uri": graph.uri, **read_page(limit, None).to_json()})
        return 0
    # Who filters by operation asks for these commits.
    fold = not include_maintenance and "operation" not in parsed
    pages = read_folded_pages(read_page, limit) if fold and limit is not None else [read_page(limit, None)]
    if not pages[0].commits:
        print_text("no commit matches the filters\n" if filters else "no commits\n")
    else:
        print_text(format_pages(pages, fold=fold))
    return 0


def _parse_filters(filters: Sequence[str]) -> dict[str, str]:
    parsed: dict[str, str] = {}
    for text in filters:
        name, sign, value = text.partition("=")
        if not sign or not name or not value:
            refuse(f"`{text}` is not a filter; write NAME=VALUE, such as actor=ada")
        if name in parsed:
            refuse(f"the filter `{name}` is given twice; give each filter once")
        parsed[name] = value
    return parsed


@click.command("show")
@click.argument("commit_id", metavar="REF")
@click.argument("uri", required=False)
@graph_options
@click.option("--branch", metavar="NAME", help="Search only the history of this branch.")
@click.option(
    "--stat", "has_counts", is_flag=True, help="Count the rows that the commit inserted, updated and deleted."
)
@json_option
def show(
    *, commit_id: str, uri: str | None, store: str | None, branch: str | None, has_counts: bool, as_json: bool
) -> int:
    """Show one commit and its changes.

    REF is a commit id, a tag, a branch (its newest commit) or a time. An id is searched on all branches. Shows, per
    table, the version and the number of rows before and after the commit; --stat also counts inserted, updated and
    deleted rows per type. A merge is compared with its first parent.
    """
    graph = open_selected_graph(uri, store, read_only=True)
    commit = graph.commit(commit_id, branch=branch)
    counts = graph.commit_changes(commit_id, branch=branch).counts() if has_counts else None
    if as_json:
        types = {} if counts is None else {"types": {name: count.to_json() for name, count in counts.items()}}
        print_json({**commit.to_json(), **types})
        return 0
    print_text(_format_commit(commit))
    if counts is not None:
        print_text("\n" + (format_counts(counts) if counts else "no row was changed\n"))
    return 0


def _format_commit(commit: "Commit") -> str:
    facts = format_facts(
        {
            "commit": commit.id,
            "parent": commit.parent,
            "merged": commit.merged_parent,
            "branch": f"{commit.branch}, commit number {commit.seq}",
            "by": commit.actor,
            "at": commit.at,
            "operation": commit.operation,
            "manifest": f"version {commit.manifest_version}",
            "schema": commit.schema_after and f"{commit.schema_before or 'none'} → {commit.schema_after}",
            "purged": ", ".join(sorted(purge.format_name() for purge in commit.purged)) or None,
            "key": commit.idempotency_key,
            "digest": commit.digest,
        }
    )
    # The message comes last and indented, as it may have several lines.
    if commit.message:
        facts += "".join(f"\n    {reveal(line)}" for line in commit.message.split("\n")) + "\n"
    if not commit.changes:
        return f"{facts}\nno table was changed\n"
    rows = [
        (
            change.table_key,
            change.before or "none",
            change.after or "dropped",
            str(change.rows_before),
            str(change.rows_after),
            f"{change.rows_after - change.rows_before:+d}",
        )
        for change in commit.changes
    ]
    counted = ("rows before", "rows after", "+/-")
    return f"{facts}\n{format_table(('table', 'version before', 'version after', *counted), rows, right=counted)}"
