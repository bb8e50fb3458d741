"""`omnigraph schema`: apply, plan and show schemas."""

from datetime import datetime
from functools import partial
from pathlib import PurePath
from typing import TYPE_CHECKING

import click

import omnigraph
from omnigraph.cli.confirm import can_ask, confirm, find_location_kind
from omnigraph.cli.file_options import build_file_options, file_options, parse_typed_paths, print_findings
from omnigraph.cli.input_files import STDIN, read_source
from omnigraph.cli.lazy_groups import load_member
from omnigraph.cli.options import (
    at_option,
    branch_option,
    graph_options,
    json_option,
    limit_options,
    open_selected_graph,
    refuse,
    refuse_two_states,
    snapshot_option,
)
from omnigraph.cli.output_files import write_source
from omnigraph.cli.render import print_error, print_json, print_text
from omnigraph.cli.schema_warnings import warn_misspelt_annotations
from omnigraph.lang.source import Source
from omnigraph.schema.bind import load_schema
from omnigraph.schema.mermaid import print_mermaid
from omnigraph.schema.migration_planner import plan_migration
from omnigraph.schema.migration_steps import MigrationPlan, mark_drops_hard

if TYPE_CHECKING:
    from omnigraph.graph.graph import Graph

_DROP_WARNING = "warning: this drops types or properties with data; `omnigraph schema apply` needs --yes for that\n"


@click.command("apply")
@click.argument("uri", required=False)
@graph_options
@branch_option
@click.option("--schema", required=True, metavar="FILE", help="The new schema (.pg).")
@click.option(
    "--allow-data-loss",
    is_flag=True,
    help="Drop removed types and properties permanently, also from earlier states of the branch.",
)
@click.option(
    "--yes",
    "assume_yes",
    is_flag=True,
    help="Allow dropping types with rows, properties with values, all types, or anything on a remote store.",
)
@click.option("--message", metavar="TEXT", help="A message stored with the commit.")
@click.option("--as", "actor", default="anonymous", metavar="ACTOR", help="The actor recorded with the commit.")
@limit_options
@json_option
def apply(  # noqa: PLR0913 - one argument per option
    *,
    uri: str | None,
    store: str | None,
    branch: str,
    schema: str,
    allow_data_loss: bool,
    assume_yes: bool,
    message: str | None,
    actor: str,
    seconds: float | None,
    memory_bytes: int | None,
    as_json: bool,
) -> int:
    """Change a graph's schema and migrate its tables in one commit.

    `omnigraph schema plan` previews the steps. New constraints are checked against existing rows; if some violate them,
    or a change has no migration, nothing is changed. `-` reads the schema from stdin.

    Types with rows and properties with values are dropped only with --yes, or after a confirmation at the terminal. So
    are all types at once, and anything on a remote store. Dropped data stays readable in earlier snapshots.

    With --allow-data-loss it does not: the data of removed types and properties is dropped permanently. Earlier states
    of their tables can no longer be read, and `omnigraph cleanup` frees the space. Other branches that have the data
    keep it, and are listed.

    Exit code: 0 on success or if there is nothing to change, 1 if the change is rejected, 3 if another schema change
    came first or other writers kept writing the affected types.
    """
    source = read_source(schema)
    graph = open_selected_graph(uri, store)
    is_stdin_taken = schema == STDIN
    has_consent = assume_yes or _confirm_risky_drops(graph, source, branch, is_stdin_taken=is_stdin_taken)
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
        result = apply_schema(allow_drops=has_consent)
    except omnigraph.SchemaDropsDataError as error:
        # Nothing was changed: show what would be dropped, ask, and try again with consent.
        if not can_ask(is_stdin_taken=is_stdin_taken):
            raise
        print_error("\n".join(step.message for step in error.steps))
        _confirm_drops(graph, "types or properties with data", is_stdin_taken=is_stdin_taken)
        result = apply_schema(allow_drops=True)
    if as_json:
        print_json(result.to_json())
    else:
        warn_misspelt_annotations(source)
        commit = "" if result.commit_id is None else f"commit {result.commit_id}\n"
        branches = "".join(f"branch {name} still has the data\n" for name in result.held_by)
        print_text(f"{result.plan.render()}\n{commit}{branches}")
    return 0


def _confirm_risky_drops(graph: "Graph", source: "Source", branch: str, *, is_stdin_taken: bool) -> bool:
    """Ask before a change that drops all types, and on a remote store before one that drops anything.

    Return whether a question was asked, and answered with yes.
    """
    # A schema without types is most likely an empty file by mistake.
    catalog = load_schema(source)
    is_empty = not catalog.nodes and not catalog.edges
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
        otherwise="nothing was changed",
        is_stdin_taken=is_stdin_taken,
    )


@click.command("plan")
@click.argument("uri", required=False)
@graph_options
@branch_option
@click.option("--from", "old", metavar="FILE", help="The old schema (.pg), instead of a graph's.")
@click.option("--schema", "new", required=True, metavar="FILE", help="The new schema (.pg).")
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
    """Show the migration steps from one schema to another.

    The old schema is that of a graph, or of the file --from. Each step is shown as safe, as checking existing rows
    first, as dropping something, or as not supported. For a graph, a drop shows the number of rows or values affected.
    Nothing is changed. `-` reads a schema from stdin.

    Exit code: 0 if every step is supported, 1 otherwise.
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
        warning = _DROP_WARNING if plan.drops_values and not plan.loses_data else ""
        print_text(f"{plan.render()}\n{warning}")
    return 0 if plan.is_supported else 1


def _plan_from_files(uri: str | None, old: str, new: str) -> MigrationPlan:
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
@click.option(
    "--format",
    "format_",
    type=click.Choice(["text", "mermaid", "svg"]),
    default="text",
    help="As text, as an entity-relationship diagram of Mermaid, or as a picture.",
)
@json_option
def show(
    *,
    uri: str | None,
    store: str | None,
    branch: str,
    commit_id: str | None,
    at: datetime | None,
    format_: str,
    as_json: bool,
) -> int:
    """Print the schema of a graph as it was written, or a picture of it.

    Prints the schema of the newest state, unless a commit or a time is given: each snapshot keeps its schema.
    """
    refuse_two_states(commit_id, at)
    if as_json and format_ != "text":
        refuse(f"--json is for the text, and --format {format_} is another form: leave one of them out")
    graph = open_selected_graph(uri, store, read_only=True)
    schema = graph.accepted_schema(branch=branch, snapshot=commit_id, at=at)
    if as_json:
        print_json(schema.to_json())
    elif format_ == "mermaid":
        print_text(print_mermaid(load_schema(Source(schema.source, "schema.pg"))))
    elif format_ == "svg":
        draw_schema = load_member("omnigraph.engine.schema_picture:draw_schema")
        print_text(f"{draw_schema(load_schema(Source(schema.source, 'schema.pg'))).svg}\n")
    else:
        print_text(schema.source if schema.source.endswith("\n") else schema.source + "\n")
    return 0


@click.command("infer")
@click.argument("files", nargs=-1, metavar="FILE...")
@click.option("--node", "nodes", multiple=True, metavar="TYPE=FILE", help="A file of nodes of this type; repeatable.")
@click.option("--edge", "edges", multiple=True, metavar="TYPE=FILE", help="A file of edges of this type; repeatable.")
@click.option(
    "--key", "keys", multiple=True, metavar="TYPE=COLUMN", help="A column of the key of a type; may be repeated."
)
@click.option("--enums", is_flag=True, help="Make columns with few texts enums.")
@file_options
@click.option("-o", "--output", metavar="FILE", help="Write the schema here, and the mapping beside it.")
@json_option
def infer(
    *,
    files: tuple[str, ...],
    nodes: tuple[str, ...],
    edges: tuple[str, ...],
    keys: tuple[str, ...],
    enums: bool,
    output: str | None,
    as_json: bool,
    **values: object,
) -> int:
    """Infer a schema from files, and the mapping with which they load.

    Files are CSV, TSV, JSON, JSONL, Parquet, ORC, Arrow, SQLite or DuckDB, or graphs: GraphML, node-link JSON, and
    the CSV or APOC JSON of Neo4j. Texts may be compressed (.gz, .bz2, .xz, .zst). All rows are read. Each guess is a
    comment. With -o people.pg the mapping is people.mapping.toml, for `omnigraph load --mapping`.
    """
    if output is not None and not PurePath(output).name:
        refuse("-o takes the name of a file, such as people.pg")
    inferred = omnigraph.infer_schema(
        files,
        nodes=parse_typed_paths("--node", nodes),
        edges=parse_typed_paths("--edge", edges),
        keys=parse_typed_paths("--key", keys, "COLUMN"),
        enums=enums,
        options=build_file_options(values),
    )
    mapping = None if output is None else str(PurePath(output).with_suffix(".mapping.toml"))
    if output is not None and mapping is not None:
        write_source(output, inferred.source)
        write_source(mapping, inferred.mapping)
    print_findings(inferred)
    if as_json:
        written = [] if output is None else [output, mapping]
        texts = {"schema": inferred.source, "mapping": inferred.mapping}
        print_json({**texts, "files": written, "findings": list(inferred.findings)})
    else:
        print_text(inferred.source if output is None else f"wrote {output} and {mapping}\n")
    return 0
