"""`omnigraph schema show`."""

from datetime import datetime

import click

import omnigraph
from omnigraph.cli.options import (
    at_option,
    branch_option,
    chosen_graph,
    json_option,
    refuse,
    snapshot_option,
    store_option,
)
from omnigraph.cli.render import print_json, print_text


@click.command("show")
@click.argument("uri", required=False)
@store_option
@branch_option
@snapshot_option
@at_option
@json_option
def command(
    *, uri: str | None, store: str | None, branch: str, commit_id: str | None, at: datetime | None, as_json: bool
) -> int:
    """Print the schema that a graph has, as it was written.

    That of the newest state, unless a commit or a time is named: each snapshot keeps the schema that it had.
    """
    if commit_id is not None and at is not None:
        refuse("give either --snapshot or --at, not both")
    graph = omnigraph.open_graph(chosen_graph(uri, store), read_only=True)
    snapshot = graph.snapshot(branch=branch, snapshot=commit_id, at=at)
    schema = snapshot.manifest.schema
    if as_json:
        facts = {"id": schema.id, "fingerprint": schema.fingerprint, "source": schema.source}
        print_json({"target": {"branch": snapshot.branch}, "commit_id": snapshot.commit.id, **facts})
    else:
        print_text(schema.source if schema.source.endswith("\n") else schema.source + "\n")
    return 0
