"""`omnigraph commit show`."""

from typing import TYPE_CHECKING

import click

from omnigraph.cli.diff import format_counts
from omnigraph.cli.options import graph_options, json_option, open_selected_graph
from omnigraph.cli.render import format_facts, format_table, print_json, print_text
from omnigraph.lang.lexer import reveal

if TYPE_CHECKING:
    from omnigraph.commit.manifest_types import Commit


@click.command("show")
@click.argument("commit_id", metavar="REF")
@click.argument("uri", required=False)
@graph_options
@click.option("--branch", metavar="NAME", help="Look in the history of this branch only.")
@click.option("--stat", "has_counts", is_flag=True, help="Count the rows that it inserted, updated and deleted.")
@json_option
def command(
    *, commit_id: str, uri: str | None, store: str | None, branch: str | None, has_counts: bool, as_json: bool
) -> int:
    """Show one commit, and what it changed.

    REF is its id, a tag, a branch (its newest commit), or a time. An id is looked for on all branches. Per table: the
    version that it left, the version that it made, the number of rows before and after, and how many more or fewer
    these are; --stat counts by type what was done to rows. Of a merge, the change against its first parent is shown.
    """
    graph = open_selected_graph(uri, store, read_only=True)
    commit = graph.commit(commit_id, branch=branch)
    counts = graph.commit_changes(commit_id, branch=branch).counts() if has_counts else None
    if as_json:
        types = {} if counts is None else {"types": {name: one.to_json() for name, one in counts.items()}}
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
