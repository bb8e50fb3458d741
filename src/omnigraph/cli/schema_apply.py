"""`omnigraph schema apply`."""

import click

import omnigraph
from omnigraph.cli.options import branch_option, chosen_graph, json_option, store_option
from omnigraph.cli.render import print_json, print_text
from omnigraph.cli.sources import read_source


@click.command("apply")
@click.argument("uri", required=False)
@store_option
@branch_option
@click.option("--schema", required=True, metavar="FILE", help="The schema that is wanted (.pg).")
@click.option(
    "--allow-data-loss",
    is_flag=True,
    help="Drop for good what the schema has no more: from earlier states of the branch too.",
)
@click.option("--message", metavar="TEXT", help="A message to keep with the commit.")
@click.option("--as", "actor", default="anonymous", metavar="ACTOR", help="Who the commit is by.")
@json_option
def command(
    *,
    uri: str | None,
    store: str | None,
    branch: str,
    schema: str,
    allow_data_loss: bool,
    message: str | None,
    actor: str,
    as_json: bool,
) -> int:
    """Change a graph's schema, with all that follows for its tables, in one commit.

    `omnigraph schema plan` shows the steps beforehand. Rules that are new are checked against the rows that are there;
    when some break them, or a change has no migration, nothing is changed. What is dropped stays in earlier snapshots.
    `-` is stdin.

    With --allow-data-loss it does not: the data of types and properties that the schema has no more goes for good.
    Earlier states of their tables can't be read any more, and `omnigraph cleanup` frees the space. Other branches
    that have the data keep it, and are listed.

    Exit code: 0 when it is done or there is nothing to do, 1 when it is refused, 3 when others wrote meanwhile.
    """
    source = read_source(schema)
    graph = omnigraph.open_graph(chosen_graph(uri, store))
    done = graph.apply_schema(source, branch=branch, actor=actor, message=message, allow_data_loss=allow_data_loss)
    if as_json:
        print_json(done.to_json())
    else:
        commit = "" if done.commit_id is None else f"commit {done.commit_id}\n"
        held = "".join(f"still held by the branch {name}\n" for name in done.held_by)
        print_text(f"{done.plan.render()}\n{commit}{held}")
    return 0
