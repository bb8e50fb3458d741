"""`omnigraph embed`."""

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
@click.option("--property", "property_name", metavar="NAME", help="Only this vector; without it, all of the type's.")
@click.option("--batch", type=click.IntRange(min=1), metavar="N", help="How many rows a commit holds; 1000 by default.")
@click.option("--limit", type=click.IntRange(min=0), metavar="N", help="Compute at most so many vectors.")
@click.option("--all", "is_all", is_flag=True, help="Compute all vectors anew, not only those that are missing.")
@click.option("--dry-run", is_flag=True, help="Only count what would be computed.")
@branch_option
@click.option("--as", "actor", default="anonymous", metavar="ACTOR", help="Who the commits are by.")
@click.option("--message", metavar="TEXT", help="A message to keep with the commits.")
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
    """Compute vectors that are missing from their texts.

    A vector that is declared with @embed is missing when it was never computed, or when its text was changed since. The
    provider is named by OMNIGRAPH_EMBED_PROVIDER (openai or hash), OMNIGRAPH_EMBED_MODEL and OMNIGRAPH_EMBED_URL, its
    key by OMNIGRAPH_EMBED_KEY or OPENAI_API_KEY. Each batch is a commit: a run that was stopped goes on where it was.
    """
    target = resolve_graph_uri(uri, store)
    with show_progress(f"omnigraph embed → {reveal(target)}", is_quiet=quiet) as line:

        def show(progress: "EmbedProgress") -> None:
            line.show(f"embedding {progress.property}, {progress.total:,} waiting:", rows=progress.done)

        try:
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
            print_error("interrupted: the batches that were committed stay; run it again to go on")
            raise
    if as_json:
        print_json(result.to_json())
    else:
        print_text(_format_result(result))
    return 0


def _format_result(result: "EmbedResult") -> str:
    lines = []
    for one in result.properties:
        name = reveal(f"{result.type}.{one.property}")
        if result.dry_run:
            lines.append(f"{name}: {format_count(one.waiting, 'vector')} to compute from {one.source}")
        else:
            lines.append(
                f"{name}: {format_count(one.embedded, 'vector')} computed, {one.waiting - one.embedded} still to do"
            )
        if one.without_text:
            lines.append(f"{name}: {format_count(one.without_text, 'row')} without a text")
    lines.append(f"model {result.model} ({result.provider}), {format_count(len(result.commits), 'commit')}")
    return "\n".join(lines) + "\n"
