"""`omnigraph schema plan`."""

import click

from omnigraph.cli.options import json_option
from omnigraph.cli.render import print_json, print_text
from omnigraph.cli.sources import STDIN, read_source
from omnigraph.lang.schema_parser import parse_schema
from omnigraph.lang.source import Source
from omnigraph.schema.bind import bind_schema
from omnigraph.schema.catalog import Catalog
from omnigraph.schema.diff import plan_migration


@click.command("plan")
@click.option("--from", "old", required=True, metavar="FILE", help="The schema that is in use (.pg).")
@click.option("--schema", "new", required=True, metavar="FILE", help="The schema that is wanted (.pg).")
@json_option
def command(old: str, new: str, as_json: bool) -> int:
    """Show what it takes to get from one schema to another.

    Lists the steps of the migration: which are safe, which check the rows that are there first, which drop something,
    and which no migration makes. Changes nothing. `-` is stdin.

    Exit code: 0 when every step is supported, 1 otherwise.
    """
    if old == STDIN and new == STDIN:
        message = "stdin can be the old schema or the new one, not both"
        raise click.UsageError(message, click.get_current_context())
    old_source, new_source = read_source(old), read_source(new)
    plan = plan_migration(_catalog(old_source), _catalog(new_source))
    if as_json:
        print_json(plan.to_json())
    else:
        print_text(plan.render() + "\n")
    return 0 if plan.is_supported else 1


def _catalog(source: Source) -> Catalog:
    return bind_schema(parse_schema(source).require(source)).require(source)
