"""`omnigraph embed`."""

from typing import TYPE_CHECKING

import click

from omnigraph.cli.options import (
    branch_option,
    chosen_place,
    json_option,
    limit_options,
    opened_graph,
    place_options,
    quiet_option,
)
from omnigraph.cli.progress import progress_line
from omnigraph.cli.render import count_of, print_error, print_json, print_text
from omnigraph.lang.invisible import reveal

if TYPE_CHECKING:
    from omnigraph.ops.embed import EmbedProgress, EmbedResult


@click.command("embed")
@click.argument("uri", required=False)
@place_options
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
    target = chosen_place(uri, store)
    with progress_line(f"omnigraph embed → {reveal(target)}", is_quiet=quiet) as line:

        def show(progress: "EmbedProgress") -> None:
            line.show(f"embedding {progress.property}, {progress.total:,} waiting:", rows=progress.done)

        try:
            result = opened_graph(uri, store, read_only=dry_run).embed(
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
        print_text(_text(result))
    return 0


def _text(result: "EmbedResult") -> str:
    lines = []
    for one in result.properties:
        name = reveal(f"{result.type}.{one.property}")
        if result.dry_run:
            lines.append(f"{name}: {count_of(one.waiting, 'vector')} to compute from {one.source}")
        else:
            lines.append(
                f"{name}: {count_of(one.embedded, 'vector')} computed, {one.waiting - one.embedded} still to do"
            )
        if one.without_text:
            lines.append(f"{name}: {count_of(one.without_text, 'row')} without a text")
    lines.append(f"model {result.model} ({result.provider}), {count_of(len(result.commits), 'commit')}")
    return "\n".join(lines) + "\n"
