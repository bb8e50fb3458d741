"""`omnigraph schema`: apply, plan and show schemas."""

import sys
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING

import click

import omnigraph
from omnigraph.cli.confirm import can_ask, confirm, find_location_kind
from omnigraph.cli.input_files import STDIN, read_source
from omnigraph.cli.lazy_groups import LazyCommand, LazyGroup
from omnigraph.cli.options import (
    at_option,
    branch_option,
    graph_options,
    json_option,
    limit_options,
    open_selected_graph,
    refuse,
    snapshot_option,
)
from omnigraph.cli.render import print_error, print_json, print_text, use_color
from omnigraph.lang.diagnostic_rendering import render_text
from omnigraph.lang.schema_parser import parse_schema
from omnigraph.schema.lint import find_misspelt_annotations
from omnigraph.schema.migration_planner import plan_migration
from omnigraph.schema.migration_steps import MigrationPlan, mark_drops_hard

if TYPE_CHECKING:
    from omnigraph.graph.graph import Graph
    from omnigraph.lang.source import Source

_WARNING = "warning: what is dropped has data; `omnigraph schema apply` does that with --yes only\n"

group = LazyGroup(
    "schema",
    help="Work with schemas.",
    lazy={
        "apply": LazyCommand(
            "omnigraph.cli.schema:apply",
            "Change a graph's schema, with all that follows for its tables, in one commit.",
        ),
        "plan": LazyCommand(
            "omnigraph.cli.schema:plan",
            "Show what it takes to get from one schema to another: a graph's, or one in a file.",
        ),
        "show": LazyCommand("omnigraph.cli.schema:show", "Print the schema that a graph has, as it was written."),
    },
)


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
def apply(  # noqa: PLR0913 - its options
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
    apply_schema = partial(
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
        done = apply_schema(allow_drops=is_sure)
    except omnigraph.SchemaDropsDataError as error:
        if not can_ask(is_stdin_taken=is_stdin_taken):
            raise
        print_error("\n".join(step.message for step in error.steps))
        _confirm_drops(graph, "what has data", is_stdin_taken=is_stdin_taken)
        done = apply_schema(allow_drops=True)
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
    from omnigraph.schema.bind import load_schema  # noqa: PLC0415 - re2, which `--help` does without

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


@click.command("plan")
@click.argument("uri", required=False)
@graph_options
@branch_option
@click.option("--from", "old", metavar="FILE", help="The schema that is in use (.pg), instead of a graph's.")
@click.option("--schema", "new", required=True, metavar="FILE", help="The schema that is wanted (.pg).")
@click.option("--allow-data-loss", is_flag=True, help="Show the steps of `schema apply --allow-data-loss`.")
@json_option
def plan(
    *,
    uri: str | None,
    store: str | None,
    branch: str,
    old: str | None,
    new: str,
    allow_data_loss: bool,
    as_json: bool,
) -> int:
    """Show what it takes to get from one schema to another: a graph's, or one in a file.

    Lists the steps of the migration: which are safe, which check the rows that are there first, which drop something,
    and which no migration makes. For a graph, a step that drops something says how many rows or values it has.
    Changes nothing. `-` is stdin.

    Exit code: 0 when every step is supported, 1 otherwise.
    """
    if old is not None:
        plan = _plan_from_files(uri, old, new)
        plan = mark_drops_hard(plan) if allow_data_loss else plan
    else:
        graph = open_selected_graph(uri, store, read_only=True)
        plan = graph.plan_schema(read_source(new), branch=branch, allow_data_loss=allow_data_loss)
    if as_json:
        print_json(plan.to_json())
    else:
        warning = _WARNING if plan.drops_values and not plan.loses_data else ""
        print_text(f"{plan.render()}\n{warning}")
    return 0 if plan.is_supported else 1


def _plan_from_files(uri: str | None, old: str, new: str) -> MigrationPlan:
    from omnigraph.schema.bind import load_schema  # noqa: PLC0415 - re2, which `--help` does without

    if uri is not None:
        refuse("give either a graph or --from FILE, not both")
    if old == STDIN and new == STDIN:
        refuse("stdin can be the old schema or the new one, not both")
    old_source, new_source = read_source(old), read_source(new)
    return plan_migration(load_schema(old_source), load_schema(new_source))


@click.command("show")
@click.argument("uri", required=False)
@graph_options
@branch_option
@snapshot_option
@at_option
@json_option
def show(
    *, uri: str | None, store: str | None, branch: str, commit_id: str | None, at: datetime | None, as_json: bool
) -> int:
    """Print the schema that a graph has, as it was written.

    That of the newest state, unless a commit or a time is named: each snapshot keeps the schema that it had.
    """
    if commit_id is not None and at is not None:
        refuse("give either --snapshot or --at, not both")
    graph = open_selected_graph(uri, store, read_only=True)
    schema = graph.accepted_schema(branch=branch, snapshot=commit_id, at=at)
    if as_json:
        print_json(schema.to_json())
    else:
        print_text(schema.source if schema.source.endswith("\n") else schema.source + "\n")
    return 0


def warn_misspelt_annotations(source: "Source") -> None:
    """Tell on stderr of annotations that mean nothing and are nearly one that does; the schema has no errors."""
    found = tuple(find_misspelt_annotations(parse_schema(source).tree))
    if found:
        print_error(render_text(source, found, color=use_color("auto", sys.stderr)))
