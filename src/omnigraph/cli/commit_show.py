"""`omnigraph commit show`."""

from typing import TYPE_CHECKING

import click

import omnigraph
from omnigraph.cli.options import branch_option, chosen_graph, json_option, store_option
from omnigraph.cli.render import facts_text, print_json, print_text, table_text
from omnigraph.lang.invisible import reveal

if TYPE_CHECKING:
    from omnigraph.commit.records import Commit


@click.command("show")
@click.argument("commit_id", metavar="ID")
@click.argument("uri", required=False)
@store_option
@branch_option
@json_option
def command(commit_id: str, uri: str | None, store: str | None, branch: str, as_json: bool) -> int:
    """Show one commit, and what it changed.

    Per table: the version that it left, the version that it made, and the number of rows before and after.
    """
    commit = omnigraph.open_graph(chosen_graph(uri, store), read_only=True).commit(commit_id, branch=branch)
    if as_json:
        print_json(commit.to_json())
    else:
        print_text(_text(commit))
    return 0


def _text(commit: "Commit") -> str:
    facts = facts_text(
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
            "key": commit.idempotency_key,
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
        )
        for change in commit.changes
    ]
    headers = ("table", "version before", "version after", "rows before", "rows after")
    return f"{facts}\n{table_text(headers, rows, right=('rows before', 'rows after'))}"
