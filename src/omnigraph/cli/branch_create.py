"""`omnigraph branch create`."""

from datetime import datetime

import click

from omnigraph.cli.options import at_option, graph_options, json_option, open_selected_graph, refuse, snapshot_option
from omnigraph.cli.render import print_json, print_text


@click.command("create")
@click.argument("name")
@click.argument("uri", required=False)
@graph_options
@click.option("--from", "source", default="main", show_default=True, metavar="BRANCH", help="The branch to start from.")
@snapshot_option
@at_option
@click.option("--as", "actor", default="anonymous", metavar="ACTOR", help="Who the branch is by.")
@json_option
def command(
    *,
    name: str,
    uri: str | None,
    store: str | None,
    source: str,
    commit_id: str | None,
    at: datetime | None,
    actor: str,
    as_json: bool,
) -> int:
    """Make a branch from any state of another.

    The newest state of main, unless another branch, a commit or a time is named. It takes a moment, however large the
    graph is: nothing is copied. A name has up to 128 letters, digits, `.`, `-` and `_`, in parts joined by `/`.
    """
    if commit_id is not None and at is not None:
        refuse("give either --snapshot or --at, not both")
    graph = open_selected_graph(uri, store)
    branch = graph.branches.create(name, from_=source, snapshot=commit_id, at=at, actor=actor)
    if as_json:
        print_json({"uri": graph.uri, **branch.to_json()})
    else:
        print_text(f"branch {branch.name} from {branch.parent_branch}, commit {branch.parent_commit}\n")
    return 0
