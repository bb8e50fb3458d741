"""`omnigraph embed`: compute missing embeddings."""

from typing import TYPE_CHECKING

import click

from omnigraph.cli.options import (
    branch_option,
    graph_options,
    json_option,
    limit_options,
    open_selected_graph,
    quiet_option,
    resolve_graph_uri,
)
from omnigraph.cli.progress import show_progress
from omnigraph.cli.render import format_count, print_error, print_json, print_text
from omnigraph.lang.lexer import reveal

if TYPE_CHECKING:
    from omnigraph.ops.embed import EmbedProgress, EmbedResult


@click.command("embed")
@click.argument("uri", required=False)
@graph_options
@click.option("--type", "type_name", required=True, metavar="TYPE", help="The node type.")
@click.option("--property", "property_name", metavar="NAME", help="Only this vector; by default all of the type.")
@click.option("--batch", type=click.IntRange(min=1), metavar="N", help="Number of rows per commit; 1000 by default.")
@click.option("--limit", type=click.IntRange(min=0), metavar="N", help="Compute at most N vectors.")
@click.option("--all", "is_all", is_flag=True, help="Compute all vectors again, not only missing ones.")
@click.option("--dry-run", is_flag=True, help="Only count the vectors to compute.")
@branch_option
@click.option("--as", "actor", default="anonymous", metavar="ACTOR", help="The actor recorded with the commits.")
@click.option("--message", metavar="TEXT", help="A message stored with the commits.")
@limit_options
@quiet_option
@json_option
def command(  # noqa: PLR0913 - one argument per option
    *,
    uri: str | None,
    store: str | None,
    type_name: str,
    property_name: str | None,
    batch: int | None,
    limit: int | None,
    is_all: bool,
    dry_run: bool,
    branch: str,
    actor: str,
    message: str | None,
    seconds: float | None,
    memory_bytes: int | None,
    quiet: bool,
    as_json: bool,
) -> int:
    """Compute missing vectors from their texts.

    A vector declared with @embed is missing if it was never computed, or if its text has changed since. The provider is
    set by OMNIGRAPH_EMBED_PROVIDER (openai or hash), OMNIGRAPH_EMBED_MODEL and OMNIGRAPH_EMBED_URL, its key by
    OMNIGRAPH_EMBED_KEY or OPENAI_API_KEY. Each batch is a commit, so a run that was stopped can be resumed.
    """
    target = resolve_graph_uri(uri, store)
    with show_progress(f"omnigraph embed → {reveal(target)}", is_quiet=quiet) as line:

        def show(progress: "EmbedProgress") -> None:
            line.show(f"embedding {progress.property}, {progress.total:,} waiting:", rows=progress.done)

        try:
            # A dry run writes nothing, so that it also works for users who may only read the store.
            result = open_selected_graph(uri, store, read_only=dry_run).embed(
                type_name,
                property=property_name,
                batch=batch,
                limit=limit,
                all=is_all,
                dry_run=dry_run,
                branch=branch,
                actor=actor,
                message=message,
                progress=show,
                seconds=seconds,
                memory_bytes=memory_bytes,
            )
        except KeyboardInterrupt:
            line.clear()
            print_error("interrupted: committed batches stay; run the command again to resume")
            raise
    if as_json:
        print_json(result.to_json())
    else:
        print_text(_format_result(result))
    return 0


def _format_result(result: "EmbedResult") -> str:
    lines = []
    for item in result.properties:
        name = reveal(f"{result.type}.{item.property}")
        if result.dry_run:
            lines.append(f"{name}: {format_count(item.waiting, 'vector')} to compute from {item.source}")
        else:
            lines.append(
                f"{name}: {format_count(item.embedded, 'vector')} computed, {item.waiting - item.embedded} remaining"
            )
        if item.without_text:
            lines.append(f"{name}: {format_count(item.without_text, 'row')} without a text")
    lines.append(f"model {result.model} ({result.provider}), {format_count(len(result.commits), 'commit')}")
    return "\n".join(lines) + "\n"
