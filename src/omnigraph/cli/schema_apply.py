"""`omnigraph schema apply`."""

from functools import partial
from typing import TYPE_CHECKING

import click

from omnigraph.cli.confirm import can_ask, confirm, find_location_kind
from omnigraph.cli.input_files import STDIN, read_source
from omnigraph.cli.options import branch_option, graph_options, json_option, limit_options, open_selected_graph
from omnigraph.cli.render import print_error, print_json, print_text
from omnigraph.cli.schema_warnings import warn_misspelt_annotations
from omnigraph.ops.schema_apply import SchemaDropsDataError
from omnigraph.schema.bind import load_schema

if TYPE_CHECKING:
    from omnigraph.graph.graph import Graph
    from omnigraph.lang.source import Source


@click.command("apply")
@click.argument("uri", required=False)
@graph_options
@branch_option
@click.option("--schema", required=True, metavar="FILE", help="The schema that is wanted (.pg).")
@click.option(
    "--allow-data-loss",
    is_flag=True,
    help="Drop for good what the schema has no more: from earlier states of the branch too.",
)
@click.option(
    "--yes",
    "is_sure",
    is_flag=True,
    help="Drop types that have rows and properties that have values, every type, or anything on a remote store.",
)
@click.option("--message", metavar="TEXT", help="A message to keep with the commit.")
@click.option("--as", "actor", default="anonymous", metavar="ACTOR", help="Who the commit is by.")
@limit_options
@json_option
def command(  # noqa: PLR0913 - its options
    *,
    uri: str | None,
    store: str | None,
    branch: str,
    schema: str,
    allow_data_loss: bool,
    is_sure: bool,
    message: str | None,
    actor: str,
    seconds: float | None,
    memory_bytes: int | None,
    as_json: bool,
) -> int:
    """Change a graph's schema, with all that follows for its tables, in one commit.

    `omnigraph schema plan` shows the steps beforehand. Rules that are new are checked against the rows that are there;
    when some break them, or a change has no migration, nothing is changed. `-` is stdin.

    Types that have rows and properties that have values are dropped only with --yes, or when you say so at the
    terminal; a schema without any type, and drops on a remote store, are asked about too. What is dropped stays in
    earlier snapshots.

    With --allow-data-loss it does not: the data of types and properties that the schema has no more goes for good.
    Earlier states of their tables can't be read any more, and `omnigraph cleanup` frees the space. Other branches
    that have the data keep it, and are listed.

    Exit code: 0 when it is done or there is nothing to do, 1 when it is refused, 3 when another change of the schema
    came first or others kept writing the types that it touches.
    """
    source = read_source(schema)
    graph = open_selected_graph(uri, store)
    is_stdin_taken = schema == STDIN
    is_sure = is_sure or _ask(graph, source, branch, is_stdin_taken=is_stdin_taken)
    apply = partial(
        graph.apply_schema,
        source,
        branch=branch,
        actor=actor,
        message=message,
        allow_data_loss=allow_data_loss,
        seconds=seconds,
        memory_bytes=memory_bytes,
    )
    try:
        done = apply(allow_drops=is_sure)
    except SchemaDropsDataError as error:
        if not can_ask(is_stdin_taken=is_stdin_taken):
            raise
        print_error("\n".join(step.message for step in error.steps))
        _confirm_drops(graph, "what has data", is_stdin_taken=is_stdin_taken)
        done = apply(allow_drops=True)
    if as_json:
        print_json(done.to_json())
    else:
        warn_misspelt_annotations(source)
        commit = "" if done.commit_id is None else f"commit {done.commit_id}\n"
        held = "".join(f"still held by the branch {name}\n" for name in done.held_by)
        print_text(f"{done.plan.render()}\n{commit}{held}")
    return 0


def _ask(graph: "Graph", source: "Source", branch: str, *, is_stdin_taken: bool) -> bool:
    """Ask before a change that leaves no type at all, and on a remote store before one that drops anything.

    Return whether the question was asked, and answered with yes.
    """
    wanted = load_schema(source)
    is_empty = not wanted.nodes and not wanted.edges
    if not is_empty and find_location_kind(graph.uri) == "local":
        return False
    dropped = [step for step in graph.plan_schema(source, branch=branch).steps if step.kind.drops_data]
    if not dropped:
        return False
    names = [step.type if step.property_name is None else f"{step.type}.{step.property_name}" for step in dropped]
    what = "every type" if is_empty else ", ".join(f"`{name}`" for name in names)
    _confirm_drops(graph, what, is_stdin_taken=is_stdin_taken)
    return True


def _confirm_drops(graph: "Graph", what: str, *, is_stdin_taken: bool) -> None:
    confirm(
        f"dropping {what} of {graph.uri}",
        question=f"Drop {what} of {graph.uri}?",
        otherwise="nothing is changed",
        is_stdin_taken=is_stdin_taken,
    )
