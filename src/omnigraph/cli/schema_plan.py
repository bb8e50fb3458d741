"""`omnigraph schema plan`."""

import click

from omnigraph.cli.input_files import STDIN, read_source
from omnigraph.cli.options import branch_option, graph_options, json_option, open_selected_graph, refuse
from omnigraph.cli.render import print_json, print_text
from omnigraph.schema.bind import load_schema
from omnigraph.schema.migration_planner import plan_migration
from omnigraph.schema.migration_steps import MigrationPlan, mark_drops_hard

_WARNING = "warning: what is dropped has data; `omnigraph schema apply` does that with --yes only\n"


@click.command("plan")
@click.argument("uri", required=False)
@graph_options
@branch_option
@click.option("--from", "old", metavar="FILE", help="The schema that is in use (.pg), instead of a graph's.")
@click.option("--schema", "new", required=True, metavar="FILE", help="The schema that is wanted (.pg).")
@click.option("--allow-data-loss", is_flag=True, help="Show the steps of `schema apply --allow-data-loss`.")
@json_option
def command(
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
    if uri is not None:
        refuse("give either a graph or --from FILE, not both")
    if old == STDIN and new == STDIN:
        refuse("stdin can be the old schema or the new one, not both")
    old_source, new_source = read_source(old), read_source(new)
    return plan_migration(load_schema(old_source), load_schema(new_source))
